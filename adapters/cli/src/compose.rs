//! Which concrete thing is plugged in where: the only place that chooses.

mod models;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use etcetera::BaseStrategy;
use plica_engine::{Host, HostBuilder, Worker, WorkerOptions};
use plica_kernel::id::{InstanceId, Queue, TaskId, WorkerId};
use plica_memory::MemoryStore;
use plica_ports::Store;
use plica_ports::store::{ProcessIdentity, Worker as Identity};
use plica_postgres::{PostgresStore, Processes};
use plica_sqlite::{OpenOptions, SqliteStore};

use self::models::Models;
pub use self::models::{Reach, providers, reach, reach_of, served};
use crate::fault::{Fault, STORE_HINT};

/// The store that `--store` or `PLICA_STORE` names, else a file in the user's data folder
/// (CL-3). Opening creates nothing.
pub fn store(named: Option<&str>) -> Result<Arc<dyn Store>, Fault> {
    let Some(named) = named else {
        let strategy = etcetera::choose_base_strategy().map_err(|error| {
            Fault::Config(format!("no home folder for the default store ({error}); name one with --store sqlite:PATH"))
        })?;
        let path = strategy.data_dir().join("plica").join("plica.db");
        return sqlite(path, OpenOptions { create_folder: true, in_place: true });
    };
    match named.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => {
            sqlite(PathBuf::from(path), OpenOptions { create_folder: false, in_place: true })
        }
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::new())),
        Some(("postgres" | "postgresql", _)) => postgres(named),
        // What was named may hold a password, but not before a colon.
        Some((scheme, _)) => Err(no_such_store(&format!("{scheme}:…"))),
        None => Err(no_such_store(named)),
    }
}

fn no_such_store(named: &str) -> Fault {
    Fault::Config(format!(
        "no such store: {named:?}; the forms are sqlite:PATH, postgres://USER@HOST/DATABASE and memory:{STORE_HINT}"
    ))
}

fn postgres(url: &str) -> Result<Arc<dyn Store>, Fault> {
    let processes =
        plica_sqlite::process_identity().map(|own| Processes { own, is_gone: plica_sqlite::is_process_gone });
    Ok(Arc::new(PostgresStore::open(url, plica_postgres::OpenOptions { processes })?))
}

fn sqlite(path: PathBuf, options: OpenOptions) -> Result<Arc<dyn Store>, Fault> {
    Ok(Arc::new(SqliteStore::open(path, options)?))
}

/// The names of the tools of this build.
pub fn tool_names() -> Vec<String> {
    let steering = plica_engine::STEERING_TOOLS.iter().map(|name| (*name).to_owned());
    plica_tools::all().iter().map(|tool| tool.declaration().name.clone()).chain(steering).collect()
}

/// A host on `store` with every adapter of this build.
pub fn host(store: Arc<dyn Store>) -> HostBuilder {
    Host::builder(store, Arc::new(Models::new())).tools(plica_tools::all()).files(Arc::new(plica_tools::WorkspaceFiles))
}

/// What a worker of this process is to do.
pub struct Work {
    /// The queues it serves; empty means every queue.
    pub queues: Vec<Queue>,
    /// How long a claim holds unless renewed.
    pub lease: Duration,
    /// Tasks at once.
    pub concurrency: usize,
    /// Ends when idle.
    pub until_idle: bool,
    /// Drives this task and no other.
    pub only: Option<TaskId>,
}

/// The lease of a verb that drives a task itself.
pub const LEASE: Duration = Duration::from_secs(30);
/// Tasks at a time in a verb that drives a task itself: its subtasks run side by side.
pub const CONCURRENCY: usize = 4;

/// A worker of this process on `host`.
pub fn worker(host: Arc<Host>, identity: Identity, work: Work) -> Worker {
    let options = WorkerOptions {
        identity,
        queues: work.queues,
        lease: work.lease,
        concurrency: work.concurrency,
        until_idle: work.until_idle,
        only: work.only,
    };
    Worker::new(host, options)
}

/// Whether the process that holds something is known to be gone.
pub fn is_gone(holder: &Identity) -> bool {
    holder.process.as_ref().is_some_and(plica_sqlite::is_process_gone)
}

/// A worker of this process, as others see it.
pub fn identity() -> Identity {
    let instance = uuid::Uuid::now_v7().to_string();
    let process: Option<ProcessIdentity> = plica_sqlite::process_identity();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned());
    let id = format!("{host}-{}", std::process::id());
    Identity {
        id: WorkerId::new(id).or_else(|_| WorkerId::new(instance.clone())).expect("UUID text is a valid id"),
        instance: InstanceId::new(instance).expect("UUID text is a valid id"),
        host,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process,
    }
}

/// Who gives orders on this machine: `user:NAME`.
pub fn actor() -> String {
    let name = std::env::var("USER").ok().filter(|name| !name.is_empty());
    format!("user:{}", name.as_deref().unwrap_or("unknown"))
}
