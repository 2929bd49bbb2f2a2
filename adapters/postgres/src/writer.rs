//! How calls reach the database: each write is one statement, each read one consistent view;
//! both are one round trip and leave nothing behind that a later one depends on.

use std::time::Duration;

use plica_ports::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::PostgresStore;
use crate::error::{Lost, Meaning, meaning, store_error};
use crate::migrations::{self, Standing, VERSION};
use crate::session::{Parameter, Session};
use crate::watch::Beat;

/// How often a call that was rolled back for another's sake is made again.
const TRIES_MAX: u32 = 12;
/// The first pause before such a try; it doubles from there, up to 64 times as long.
const PAUSE: Duration = Duration::from_millis(1);
/// How often what comes to the same twice is done on a broken connection before it is given up:
/// other connections of the pool may have been broken by the same restart of the server.
const BROKEN_MAX: u32 = 4;

/// A value with its type.
type Value<'a> = (Box<dyn ToSql + Sync + Send + 'a>, Type);

/// A call of one of the schema's functions.
pub(crate) struct Call<'a> {
    function: &'static str,
    values: Vec<Value<'a>>,
    /// Whether making it twice comes to the same.
    is_repeatable: bool,
}

impl<'a> Call<'a> {
    /// Of the function of this name; its first argument is the schema version of this build.
    pub(crate) fn of(function: &'static str) -> Self {
        Self { function, values: vec![(Box::new(VERSION), Type::INT4)], is_repeatable: false }
    }

    /// One that may simply be made again when its answer was lost, since it comes to the same.
    pub(crate) fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    fn with(mut self, value: impl ToSql + Sync + Send + 'a, of: Type) -> Self {
        self.values.push((Box::new(value), of));
        self
    }

    /// A text, or none.
    pub(crate) fn text(self, value: impl ToSql + Sync + Send + 'a) -> Self {
        self.with(value, Type::TEXT)
    }

    /// Texts.
    pub(crate) fn texts(self, value: impl ToSql + Sync + Send + 'a) -> Self {
        self.with(value, Type::TEXT_ARRAY)
    }

    /// A number, or none.
    pub(crate) fn int(self, value: impl ToSql + Sync + Send + 'a) -> Self {
        self.with(value, Type::INT8)
    }

    /// Numbers.
    pub(crate) fn ints(self, value: impl ToSql + Sync + Send + 'a) -> Self {
        self.with(value, Type::INT8_ARRAY)
    }

    /// Small numbers.
    pub(crate) fn smalls(self, value: Vec<i32>) -> Self {
        self.with(value, Type::INT4_ARRAY)
    }

    /// Yes or no.
    pub(crate) fn flag(self, value: bool) -> Self {
        self.with(value, Type::BOOL)
    }

    /// Bytes, or none.
    pub(crate) fn bytes(self, value: impl ToSql + Sync + Send + 'a) -> Self {
        self.with(value, Type::BYTEA)
    }

    /// Many bytes.
    pub(crate) fn many_bytes(self, value: Vec<&'a [u8]>) -> Self {
        self.with(value, Type::BYTEA_ARRAY)
    }

    fn sql(&self) -> String {
        let places: Vec<_> = (1..=self.values.len()).map(|nth| format!("${nth}")).collect();
        format!("SELECT * FROM plica.{}({})", self.function, places.join(", "))
    }
}

/// A query that only reads.
pub(crate) struct Query<'a> {
    sql: String,
    values: Vec<Value<'a>>,
}

impl<'a> Query<'a> {
    /// Of this text, in which the schema is called `plica`.
    pub(crate) fn of(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), values: Vec::new() }
    }

    /// The next parameter.
    pub(crate) fn with(mut self, value: impl ToSql + Sync + Send + 'a, of: Type) -> Self {
        self.values.push((Box::new(value), of));
        self
    }

    /// The next parameter, a text.
    pub(crate) fn text(self, value: impl ToSql + Sync + Send + 'a) -> Self {
        self.with(value, Type::TEXT)
    }

    /// The next parameter, a number.
    pub(crate) fn int(self, value: i64) -> Self {
        self.with(value, Type::INT8)
    }

    /// Adds a condition or another piece of text, and its parameter, which it calls `$?`.
    pub(crate) fn and(mut self, text: &str, value: impl ToSql + Sync + Send + 'a, of: Type) -> Self {
        self = self.with(value, of);
        self.sql.push_str(&text.replace("$?", &format!("${}", self.values.len())));
        self
    }

    /// Adds a piece of text.
    pub(crate) fn then(mut self, text: &str) -> Self {
        self.sql.push_str(text);
        self
    }

    /// The same, which finds out first whether the schema is of the version that is the last
    /// parameter: the condition depends on no row, so the server tests it before it looks for
    /// the first. `meta` comes first in the text and is locked first, as a change of the schema
    /// does; the state that is seen is that of a moment when all locks were held.
    fn checked(&self) -> String {
        let version = self.values.len() + 1;
        format!(
            "WITH known AS MATERIALIZED (SELECT CASE WHEN version = ${version} THEN true \
             ELSE plica.refuse(version) END AS ok FROM plica.meta) \
             SELECT found.* FROM ({}) AS found WHERE (SELECT ok FROM known)",
            self.sql
        )
    }
}

fn borrowed<'a>(values: &'a [Value<'_>]) -> Vec<Parameter<'a>> {
    values.iter().map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone())).collect()
}

/// What to do where there is no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Make it.
    Create,
    /// Say so.
    Say,
}

/// How looking at the schema ended after a call that met another one than it knows.
enum Found {
    /// It is now as this build knows it: the call may be made again.
    Ready,
    /// There is none.
    Nothing,
}

impl PostgresStore {
    pub(crate) async fn connection(&self) -> Result<Session, StoreError> {
        self.sessions.get(&self.place).await
    }

    /// Makes a call that writes; `None` when there is no store and none is to be made. `news` is
    /// made known along with it, to those who listen.
    pub(crate) async fn write(
        &self,
        absent: Absent,
        call: &Call<'_>,
        news: Option<&Beat>,
    ) -> Result<Option<Vec<Row>>, Lost> {
        let sql = self.place.sql(&call.sql());
        let values = borrowed(&call.values);
        let mut tries = 0;
        loop {
            let client = self.connection().await.map_err(Lost::Store)?;
            let written = match client.prepare(&sql, &values).await {
                Ok(statement) => {
                    // Sent right behind, so that it is on its way before anyone can end this process.
                    let written = statement.query(&values);
                    tokio::join!(biased; written, self.pulse.announce(&client, news)).0
                }
                Err(error) => Err(error),
            };
            let error = match written {
                Ok(rows) => return Ok(Some(rows)),
                Err(error) => error,
            };
            tries += 1;
            match meaning(&error) {
                Meaning::Again if tries < TRIES_MAX => pause(tries).await,
                Meaning::Schema if tries < TRIES_MAX => {
                    let found = self.look(&client, absent == Absent::Create, &error).await.map_err(Lost::Store)?;
                    if matches!(found, Found::Nothing) {
                        return Ok(None);
                    }
                }
                Meaning::Broken => {
                    client.forget();
                    if !call.is_repeatable || tries >= BROKEN_MAX {
                        return Err(Lost::Unknown(store_error(&self.place, &error).to_string()));
                    }
                }
                _ => return Err(Lost::Store(store_error(&self.place, &error))),
            }
        }
    }

    /// The rows of a query in one consistent view; `None` when there is no store.
    pub(crate) async fn view(&self, query: &Query<'_>) -> Result<Option<Vec<Row>>, StoreError> {
        let sql = self.place.sql(&query.checked());
        let mut values = borrowed(&query.values);
        values.push((&VERSION, Type::INT4));
        let mut tries = 0;
        loop {
            let client = self.connection().await?;
            let error = match client.query(&sql, &values).await {
                Ok(rows) => return Ok(Some(rows)),
                Err(error) => error,
            };
            tries += 1;
            match meaning(&error) {
                Meaning::Again if tries < TRIES_MAX => pause(tries).await,
                Meaning::Broken if tries < BROKEN_MAX => client.forget(),
                Meaning::Schema if tries < TRIES_MAX => {
                    if matches!(self.look(&client, false, &error).await?, Found::Nothing) {
                        return Ok(None);
                    }
                }
                _ => return Err(store_error(&self.place, &error)),
            }
        }
    }

    /// Looks at the schema, which was not as this build knows it, and makes it so where it is
    /// older, or is to be made.
    async fn look(&self, client: &Session, creates: bool, error: &tokio_postgres::Error) -> Result<Found, StoreError> {
        match migrations::standing(&self.place, client).await? {
            Standing::Empty if !creates => Ok(Found::Nothing),
            Standing::Empty => migrations::migrate(&self.place, client).await.map(|()| Found::Ready),
            Standing::Ours(version) if version > VERSION => Err(migrations::newer(&self.place, version)),
            Standing::Ours(version) if version < VERSION => {
                migrations::migrate(&self.place, client).await.map(|()| Found::Ready)
            }
            // Made by another host a moment ago, or damaged: then the tries run out.
            Standing::Ours(_) => {
                tracing::debug!(%error, "the schema is as this build knows it");
                Ok(Found::Ready)
            }
            Standing::Foreign => Err(migrations::foreign(&self.place)),
        }
    }
}

/// Waits before another try, each time longer, and not as long as others do.
async fn pause(tries: u32) {
    let longest = PAUSE * (1 << tries.min(6));
    let mut dice = [0; 1];
    // Without random bytes everyone waits as long, which is only slower.
    let _ = getrandom::fill(&mut dice);
    tokio::time::sleep(longest / 2 + longest * u32::from(dice[0]) / 512).await;
}
