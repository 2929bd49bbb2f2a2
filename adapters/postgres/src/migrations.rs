//! The schema, and how an older one becomes one of this version (ST-14).
//!
//! Migrations are numbered by `meta.version`, only ever go forward, and all that are due run in
//! one transaction under an advisory lock: of hosts that start at once one does it, and one that
//! is killed in the middle has done nothing. A migration takes `meta` for itself, which every
//! call reads first: so it waits until what is under way has ended, and what comes later meets
//! the new version.

use deadpool_postgres::Client;
use plica_ports::store::StoreError;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::connect::Place;
use crate::error::store_error;

/// The steps, oldest first; a step that was ever released is never edited.
const MIGRATIONS: &[&str] = &[include_str!("schema/0001.sql")];

/// The functions, which are made anew after the last step.
const FUNCTIONS: &[&str] = &[
    include_str!("schema/shared.sql"),
    include_str!("schema/inbox.sql"),
    include_str!("schema/append.sql"),
    include_str!("schema/claim.sql"),
    include_str!("schema/lease.sql"),
];

/// The schema version of this build.
pub(crate) const VERSION: i32 = 1;
const _: () = assert!(MIGRATIONS.len() == VERSION as usize, "a step was added without raising the version");

/// Removes the functions of the version before; triggers' stay.
const FORGET: &str = "DO $$ DECLARE old regprocedure; BEGIN \
    FOR old IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = '\"SCHEMA\"'::regnamespace \
        AND prorettype <> 'trigger'::regtype LOOP \
        EXECUTE 'DROP FUNCTION ' || old || ' CASCADE'; \
    END LOOP; END $$";

/// What is in the place of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing yet: as good as not there.
    Empty,
    /// Ours, of this version.
    Ours(i32),
    /// Some other program's.
    Foreign,
}

/// What is there, on a connection or in its transaction.
pub(crate) async fn standing(place: &Place, client: &Client) -> Result<Standing, StoreError> {
    let failed = |error| store_error(place, &error);
    let sql = "SELECT count(*), count(*) FILTER (WHERE relname IN ('meta', 'tasks', 'events', 'inbox')) \
               FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)";
    let counts = client.query_typed_one(sql, &[(&place.schema, Type::TEXT)]).await.map_err(failed)?;
    match (counts.get::<_, i64>(0), counts.get::<_, i64>(1)) {
        (0, _) => Ok(Standing::Empty),
        (_, 4) => {
            let meta = client.query_typed(&place.sql("SELECT version FROM plica.meta"), &[]).await.map_err(failed)?;
            let version = meta.first().and_then(|row| row.try_get(0).ok());
            Ok(version.map_or(Standing::Foreign, Standing::Ours))
        }
        _ => Ok(Standing::Foreign),
    }
}

/// The version that these steps lead to.
fn version_of(steps: &[&str]) -> i32 {
    i32::try_from(steps.len()).unwrap_or(i32::MAX)
}

/// Says that a schema is of a version that this build does not know.
pub(crate) fn newer(place: &Place, version: i32) -> StoreError {
    StoreError::Unusable(format!(
        "{place} has schema version {version}, this build knows {VERSION}: run a version of plica as new as the one \
         that brought it there; nothing was changed"
    ))
}

/// Says that somebody else lives in the schema.
pub(crate) fn foreign(place: &Place) -> StoreError {
    StoreError::Unusable(format!(
        "{place} is not a store of this program; nothing was changed: name another schema with ?schema=NAME"
    ))
}

/// Brings the place up to the version of this build, whatever is there; a new store gets a name.
pub(crate) async fn migrate(place: &Place, client: &Client) -> Result<(), StoreError> {
    migrate_by(place, client, MIGRATIONS).await
}

/// Brings it up to the last of these steps.
async fn migrate_by(place: &Place, client: &Client, steps: &[&str]) -> Result<(), StoreError> {
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(|error| store_error(place, &error))?;
    let done = migrate_alone(place, client, steps).await;
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await.map_err(|error| store_error(place, &error));
    done.and(ended)
}

async fn migrate_alone(place: &Place, client: &Client, steps: &[&str]) -> Result<(), StoreError> {
    let target = version_of(steps);
    let failed = |error| store_error(place, &error);
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('plica:' || $1, 0)), current_setting('server_encoding')";
    let row = client.query_typed_one(lock, &[(&place.schema, Type::TEXT)]).await.map_err(failed)?;
    let encoding: String = row.get(1);
    if encoding != "UTF8" {
        return Err(StoreError::Unusable(format!(
            "{place}: the database has encoding {encoding}, and texts need UTF8: create one with ENCODING 'UTF8'"
        )));
    }
    let from = match standing(place, client).await? {
        Standing::Empty => {
            // It may be there, made by someone with the right to make schemas.
            let sql = format!("CREATE SCHEMA IF NOT EXISTS \"{}\"", place.schema);
            client.batch_execute(&sql).await.map_err(failed)?;
            0
        }
        Standing::Ours(version) if version > target => return Err(newer(place, version)),
        Standing::Ours(version) if version == target => return Ok(()),
        Standing::Ours(version) => {
            let sql = place.sql("LOCK TABLE plica.meta IN ACCESS EXCLUSIVE MODE");
            client.batch_execute(&sql).await.map_err(failed)?;
            usize::try_from(version).map_err(|_| foreign(place))?
        }
        Standing::Foreign => return Err(foreign(place)),
    };
    for step in steps.iter().skip(from) {
        client.batch_execute(&place.sql(step)).await.map_err(failed)?;
    }
    client.batch_execute(&FORGET.replace("SCHEMA", &place.schema)).await.map_err(failed)?;
    for functions in FUNCTIONS {
        client.batch_execute(&place.sql(functions)).await.map_err(failed)?;
    }
    let sql = "INSERT INTO plica.meta (version, ledger) VALUES ($1, $2) \
               ON CONFLICT (single) DO UPDATE SET version = excluded.version";
    let ledger = Uuid::now_v7().to_string();
    client
        .query_typed(&place.sql(sql), &[(&target, Type::INT4), (&ledger, Type::TEXT)])
        .await
        .map_err(failed)
        .map(|_| ())
}

#[cfg(test)]
mod tests;
