//! Connections, and whether a session of the server's lies behind one for good.
//!
//! Where it does, statements get a name and are worked out once for a connection: working one out
//! costs the server about as much as an append itself. Behind a pooler that hands sessions out by
//! transaction a name might stand for another's statement, so none is given there. Which it is
//! shows at the start of a connection: it sets [`MARK`], which only a session that was begun with
//! it has. Poolers refuse such a start, or drop what it sets.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::{Client, ClientWrapper, Hook, HookError, Pool, PoolError};
use plica_ports::store::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use crate::connect::{Place, Statements};
use crate::error::no_connection;

/// What a session of ours is marked with; the server keeps what has a dot in its name for
/// whoever set it.
pub(crate) const MARK: &str = "plica.session";

/// Says that a connection lacks the mark.
const UNMARKED: &str = "a pooler stands in between";

/// A parameter with its type.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection from a pool.
pub(crate) struct Session {
    client: Client,
    /// Whether it is one session of the server, so that statements may have names.
    is_own: bool,
}

impl Session {
    /// The rows of a statement.
    pub(crate) async fn query(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        self.prepare(sql, parameters).await?.query(parameters).await
    }

    /// Makes a statement ready; what is left is one round trip.
    pub(crate) async fn prepare<'a>(
        &'a self,
        sql: &'a str,
        parameters: &[Parameter<'_>],
    ) -> Result<Prepared<'a>, Error> {
        if !self.is_own {
            return Ok(Prepared::Unnamed(&self.client, sql));
        }
        let types: Vec<_> = parameters.iter().map(|(_, of)| of.clone()).collect();
        Ok(Prepared::Named(&self.client, self.client.prepare_typed_cached(sql, &types).await?))
    }

    /// Takes a broken connection out of the pool, which may not have noticed yet.
    pub(crate) fn forget(self) {
        drop(Client::take(self.client));
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A statement on a connection.
pub(crate) enum Prepared<'a> {
    Named(&'a Client, tokio_postgres::Statement),
    Unnamed(&'a Client, &'a str),
}

impl Prepared<'_> {
    /// Its rows with these parameters, of the types that it was made ready for.
    pub(crate) async fn query(&self, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        match self {
            Self::Named(client, statement) => {
                let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
                client.query(statement, &values).await
            }
            Self::Unnamed(client, sql) => client.query_typed(sql, parameters).await,
        }
    }
}

/// The connections of a handle.
pub(crate) struct Sessions {
    /// Connections to sessions that bear the mark.
    own: Pool,
    /// Connections through whatever is there.
    any: Pool,
    /// Whether to take the latter.
    is_pooled: AtomicBool,
}

impl Sessions {
    /// Those to a place; none is made yet.
    pub(crate) fn of(place: &Place) -> Result<Self, StoreError> {
        let ask = format!("SELECT current_setting('{MARK}', true)");
        let marked = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let ask = ask.clone();
            Box::pin(async move {
                let row = client.query_typed_one(&ask, &[]).await.map_err(HookError::Backend)?;
                let mark: Option<String> = row.try_get(0).map_err(HookError::Backend)?;
                mark.filter(|mark| !mark.is_empty()).map(|_| ()).ok_or_else(|| HookError::message(UNMARKED))
            })
        });
        Ok(Self {
            own: place.pool(Some((MARK, marked)))?,
            any: place.pool(None)?,
            is_pooled: AtomicBool::new(place.statements == Statements::Unnamed),
        })
    }

    /// A connection.
    pub(crate) async fn get(&self, place: &Place) -> Result<Session, StoreError> {
        if !self.is_pooled.load(Ordering::Relaxed) {
            match self.own.get().await {
                Ok(client) => return Ok(Session { client, is_own: true }),
                Err(error) if is_pooler(&error) => {
                    tracing::debug!("a pooler stands before {place}: statements are not given names");
                    self.is_pooled.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(no_connection(place, &error)),
            }
        }
        let client = self.any.get().await.map_err(|error| no_connection(place, &error))?;
        Ok(Session { client, is_own: false })
    }
}

/// Whether a connection was not to be had because of its mark.
fn is_pooler(error: &PoolError) -> bool {
    match error {
        PoolError::Backend(refused) => {
            refused.as_db_error().is_some_and(|said| said.message().contains("startup parameter"))
        }
        PoolError::PostCreateHook(HookError::Message(why)) => why == UNMARKED,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
