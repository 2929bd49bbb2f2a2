//! The schema, and how an older file becomes one of this version (ST-14).
//!
//! Migrations are numbered by `user_version`, only ever go forward, and all that a file lacks run in
//! one transaction under the write lock: two processes that open at once do it once, one that is
//! killed in the middle has done nothing, and nobody ever sees a store that is half made.

use rusqlite::{Connection, TransactionBehavior};

/// `application_id` of our files: "plic".
pub(crate) const APPLICATION_ID: i64 = 0x706c_6963;

/// One step from a schema version to the next.
pub(crate) type Migration = &'static str;

/// The steps, oldest first; a step that was ever released is never edited.
pub(crate) const MIGRATIONS: &[Migration] = &[include_str!("schema/0001.sql"), include_str!("schema/0002.sql")];

/// What a database file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing yet: as good as not there.
    Empty,
    /// Ours, of this schema version.
    Ours(i64),
    /// Some other program's.
    Foreign,
}

/// How a migration fails.
#[derive(Debug)]
pub(crate) enum MigrationError {
    /// The file is some other program's; it was not touched.
    Foreign,
    /// The file is of this version, newer than ours; it was not touched.
    Newer(i64),
    /// In SQLite.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for MigrationError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// The version that `migrations` lead to.
pub(crate) fn version_of(migrations: &[Migration]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

/// What the file is, in one consistent look.
pub(crate) fn standing(conn: &Connection) -> rusqlite::Result<Standing> {
    let sql = "SELECT (SELECT application_id FROM pragma_application_id), \
                      (SELECT user_version FROM pragma_user_version), \
                      (SELECT count(*) FROM sqlite_schema)";
    let (application, version, objects): (i64, i64, i64) =
        conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(match (application, objects) {
        (APPLICATION_ID, _) => Standing::Ours(version),
        (0, 0) => Standing::Empty,
        _ => Standing::Foreign,
    })
}

/// Brings the file up to the last of `migrations`; a file that is up to date is not written.
/// A new store gets `ledger` as its name.
pub(crate) fn migrate(conn: &mut Connection, migrations: &[Migration], ledger: &str) -> Result<(), MigrationError> {
    let target = version_of(migrations);
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = match standing(&transaction)? {
        Standing::Empty => 0,
        Standing::Ours(version) if version > target => return Err(MigrationError::Newer(version)),
        Standing::Ours(version) => version,
        Standing::Foreign => return Err(MigrationError::Foreign),
    };
    for (number, migration) in (1..).zip(migrations).filter(|(number, _)| *number > version) {
        transaction.execute_batch(migration)?;
        if number == 1 {
            transaction.execute("INSERT INTO meta (name, value) VALUES ('ledger', ?1)", [ledger])?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
    }
    if version < target {
        transaction.pragma_update(None, "user_version", target)?;
    }
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests;
