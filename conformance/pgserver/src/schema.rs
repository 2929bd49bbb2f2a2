//! A schema for each test.

use tokio_postgres::NoTls;
use uuid::Uuid;

/// A schema that nobody else uses. What is in it goes when this is dropped, unless its server
/// goes too.
#[derive(Debug)]
pub struct Fresh {
    server: String,
    schema: String,
    drops: bool,
}

impl Fresh {
    pub(crate) fn new(server: &str, drops: bool) -> Self {
        Self { server: server.to_owned(), schema: format!("plica_{}", Uuid::now_v7().simple()), drops }
    }

    /// The URL of a store in this schema.
    pub fn url(&self) -> String {
        format!("{}?schema={}", self.server, self.schema)
    }

    /// The same through another port of this machine, where a proxy listens.
    pub fn url_through(&self, port: u16) -> String {
        let (rest, database) = self.server.rsplit_once('/').unwrap_or((&self.server, ""));
        let (user, _) = rest.rsplit_once(':').unwrap_or((rest, ""));
        format!("{user}:{port}/{database}?schema={}", self.schema)
    }

    /// The URL of the server's database, without the schema.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The schema's name.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// A connection of one's own, for whoever looks into the store, or behind its back. Statements
    /// name the schema as the store's own do: `plica.tasks`.
    ///
    /// # Panics
    /// When the server cannot be reached.
    pub async fn connect(&self) -> tokio_postgres::Client {
        connect(&self.server).await.expect("the server of the test can be reached")
    }

    /// A statement with the schema's real name in it.
    pub fn sql(&self, text: &str) -> String {
        text.replace("plica.", &format!("{}.", self.schema))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.drops {
            let (server, sql) = (self.server.clone(), format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema));
            // A runtime cannot be entered from within another, where tests mostly end.
            let _ = std::thread::spawn(move || execute(&server, &sql)).join();
        }
    }
}

/// Runs statements on a connection of their own, from outside any runtime.
///
/// # Errors
/// What the server says.
pub fn execute(server: &str, sql: &str) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let client = connect(server).await.map_err(|error| error.to_string())?;
        client.batch_execute(sql).await.map_err(|error| format!("{error}: {sql}"))
    })
}

async fn connect(server: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
