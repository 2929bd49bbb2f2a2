//! A schema for each test.

use std::sync::mpsc;

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

    /// Someone who looks into the store, or works behind its back, without awaiting.
    pub fn hand(&self) -> Hand {
        Hand::on(&self.server)
    }

    /// A statement with the schema's real name in it.
    pub fn sql(&self, text: &str) -> String {
        text.replace("plica.", &format!("{}.", self.schema))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.drops {
            // A test that fails because its server is away says so by itself.
            let _ = Hand::on(&self.server).ask(format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema));
        }
    }
}

/// Someone who runs statements behind the store's back, on one connection and a thread of their
/// own, so that they can be asked from within a runtime without awaiting.
#[derive(Debug)]
pub struct Hand {
    orders: mpsc::Sender<(String, mpsc::Sender<Result<(), String>>)>,
}

impl Hand {
    /// One on this server.
    pub fn on(server: &str) -> Self {
        let (orders, asked) = mpsc::channel::<(String, mpsc::Sender<Result<(), String>>)>();
        let server = server.to_owned();
        // It ends when the last order has been given.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            let client = runtime.block_on(connect(&server));
            for (sql, answer) in asked {
                let done = match &client {
                    Ok(client) => runtime.block_on(client.batch_execute(&sql)).map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                let _ = answer.send(done.map_err(|error| format!("{error}: {sql}")));
            }
        });
        Self { orders }
    }

    /// Runs statements.
    ///
    /// # Panics
    /// When the server refuses them: a test relies on what they do.
    pub fn execute(&self, sql: impl Into<String>) {
        let done = self.ask(sql.into());
        assert!(done.is_ok(), "{done:?}");
    }

    fn ask(&self, sql: String) -> Result<(), String> {
        let (answer, answered) = mpsc::channel();
        self.orders.send((sql, answer)).map_err(|error| error.to_string())?;
        answered.recv().map_err(|error| error.to_string())?
    }
}

async fn connect(server: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
