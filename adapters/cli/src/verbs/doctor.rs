//! `plica doctor`: the store, its disk and workers, tasks that cannot go on by themselves, models,
//! and agent files.

use std::path::{Path, PathBuf};

use plica_engine::Client;
use plica_kernel::time::Timestamp;
use plica_ports::store::{Page, Row, TaskFilter, WorkerRow};
use plica_ports::{Definition, ModelChoice};
use serde_json::{Map, Value, json};

use super::agent::in_words;
use super::submit::read_agent;
use super::{json_line, named, print};
use crate::args::Doctor;
use crate::compose::{self, Reach};
use crate::fault::Fault;
use crate::{commands, disk, talk};

/// Blocked tasks that are listed.
const BLOCKED_SHOWN: usize = 1_000;
/// Models of one server that are named.
const MODELS_SHOWN: usize = 12;
/// A clock that is this far from the store's makes timers and leases look wrong.
const CLOCK_OFF_MS: u64 = 1_000;
/// Commits a second below which a disk is what tasks wait for.
const COMMITS_SLOW: u64 = 100;

pub async fn doctor(client: &Client, arguments: Doctor) -> Result<u8, Fault> {
    if let Some(name) = &arguments.unblock {
        return unblock(client, name, arguments.json).await;
    }
    let findings = Findings::of(client, &arguments).await?;
    if arguments.json {
        print(&json_line(&findings.as_json()))?;
    } else {
        print(commands::complete(&findings.in_words()).as_bytes())?;
    }
    let broken = findings.agents.iter().filter_map(|agent| agent.read.as_ref().err());
    match broken.cloned().reduce(|all, one| format!("{all}\nplica: {one}")) {
        Some(broken) => Err(Fault::Config(broken)),
        None => Ok(0),
    }
}

async fn unblock(client: &Client, name: &str, json: bool) -> Result<u8, Fault> {
    let row = named(client, name).await?;
    if !client.store().unblock(&row.id).await? {
        return Err(Fault::Usage(format!(
            "task {} is not blocked; `plica show {}` says what it waits for",
            row.id, row.id
        )));
    }
    if json {
        print(&json_line(&json!({ "task": row.id.as_str(), "unblocked": true })))?;
    } else {
        talk::say(format!("task {} can be claimed again; `plica worker --until-idle` works on it", row.id));
    }
    Ok(0)
}

/// A server, how far it can be reached, and what it serves if it was asked.
struct Server {
    choice: ModelChoice,
    reach: Reach,
    served: Option<Result<Vec<String>, String>>,
}

impl Server {
    async fn look(choice: ModelChoice, reach: Reach, ask: bool) -> Self {
        let served = if ask && reach.is_ready() { Some(compose::served(&choice).await) } else { None };
        Self { choice, reach, served }
    }

    fn in_words(&self) -> String {
        match &self.served {
            None => self.reach.to_string(),
            Some(Err(error)) => format!("{}, but {error}", self.reach),
            Some(Ok(models)) => {
                let more = models.len().saturating_sub(MODELS_SHOWN);
                let shown = models.iter().take(MODELS_SHOWN).cloned().collect::<Vec<_>>().join(", ");
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{}; it serves {shown}{more}", self.reach)
            }
        }
    }

    fn as_json(&self) -> Value {
        let ready = self.reach.is_ready() && !matches!(self.served, Some(Err(_)));
        let mut object = json!({ "provider": self.choice.provider, "ready": ready, "found": self.in_words() });
        if let Some(Ok(models)) = &self.served {
            object["serves"] = json!(models);
        }
        object
    }
}

/// An agent file, and the server of its model.
struct AgentFile {
    file: PathBuf,
    read: Result<Definition, String>,
    server: Option<Server>,
}

impl AgentFile {
    async fn look(file: &Path) -> Self {
        let read = read_agent(file).map(|agent| agent.definition).map_err(|fault| fault.to_string());
        let mut server = None;
        if let Ok(definition) = &read
            && let Some(reach) = compose::reach_of(&definition.model).await
        {
            server = Some(Server::look(definition.model.clone(), reach, true).await);
        }
        Self { file: file.to_owned(), read, server }
    }

    /// Whether the server says that it has no such model.
    fn lacks_model(&self) -> bool {
        let served = self.server.as_ref().and_then(|server| server.served.as_ref()?.as_ref().ok());
        let name = self.read.as_ref().map(|agent| agent.model.name.as_str()).unwrap_or_default();
        // Servers of one model take any name, and list a path or nothing.
        served.is_some_and(|models| {
            models.len() > 1 && !models.iter().any(|model| model == name || model.split(':').next() == Some(name))
        })
    }

    fn in_words(&self) -> String {
        let file = self.file.display();
        match (&self.read, &self.server) {
            (Err(error), _) => format!("{file}: {error}"),
            (Ok(agent), None) => format!("{file}: ok, {}", in_words(agent)),
            (Ok(agent), Some(server)) => {
                let lacks = if self.lacks_model() { format!(", not {}", agent.model.name) } else { String::new() };
                format!("{file}: ok, {}; {}{lacks}", in_words(agent), server.in_words())
            }
        }
    }

    fn as_json(&self) -> Value {
        let file = self.file.display().to_string();
        let mut object = match &self.read {
            Err(error) => json!({ "file": file, "ok": false, "error": error }),
            Ok(agent) => json!({ "file": file, "ok": true, "name": agent.name, "model": agent.model.name }),
        };
        if let Some(server) = &self.server {
            object["server"] = server.as_json();
            object["model_known"] = (!self.lacks_model()).into();
        }
        object
    }
}

/// What was found.
struct Findings {
    facts: Vec<(String, String)>,
    now: Timestamp,
    /// How far this machine's clock is from the store's, in milliseconds.
    clock_ms: u64,
    /// Flushed writes a second beside the store; else why that was not measured.
    disk: Result<u64, String>,
    workers: Vec<WorkerRow>,
    blocked: Vec<Row>,
    servers: Vec<Server>,
    agents: Vec<AgentFile>,
}

impl Findings {
    async fn of(client: &Client, arguments: &Doctor) -> Result<Self, Fault> {
        let store = client.store();
        let facts = store.describe().await?;
        let now = store.now().await?;
        let here = Timestamp::from_micros(jiff::Timestamp::now().as_microsecond());
        let clock_ms = here.millis_since(now).max(now.millis_since(here));
        let workers = store.workers().await?;
        let filter = TaskFilter { blocked: true, ..TaskFilter::default() };
        let blocked = client.list(&filter, &Page::first(BLOCKED_SHOWN)).await?;
        let disk = measure(&facts).await;
        let mut servers = Vec::new();
        for (choice, reach) in compose::reach().await {
            servers.push(Server::look(choice, reach, arguments.models).await);
        }
        let mut agents = Vec::new();
        for file in &arguments.agents {
            agents.push(AgentFile::look(file).await);
        }
        Ok(Self { facts, now, clock_ms, disk, workers, blocked, servers, agents })
    }

    fn in_words(&self) -> String {
        let mut text = format!("plica {}\nstore time {}\n", env!("CARGO_PKG_VERSION"), self.now);
        if self.clock_ms >= CLOCK_OFF_MS {
            text.push_str(&format!("this machine's clock is {} ms off the store's\n", self.clock_ms));
        }
        for (name, value) in &self.facts {
            text.push_str(&format!("{name} {value}\n"));
        }
        text.push_str(&match &self.disk {
            Ok(commits @ ..COMMITS_SLOW) => format!("disk {commits} commits a second: slow, each step waits for one\n"),
            Ok(commits) => format!("disk {commits} commits a second\n"),
            Err(why) => format!("disk not measured: {why}\n"),
        });
        text.push_str(&format!("workers alive {}\n", self.workers.len()));
        for worker in &self.workers {
            text.push_str(&format!(
                "  {} on {} (plica {}), seen {}\n",
                worker.id, worker.host, worker.version, worker.seen_at
            ));
        }
        text.push_str("models\n");
        for server in &self.servers {
            text.push_str(&format!("  {}: {}\n", server.choice.provider, server.in_words()));
        }
        if !self.agents.is_empty() {
            text.push_str("agent files\n");
        }
        for agent in &self.agents {
            text.push_str(&format!("  {}\n", agent.in_words()));
        }
        text.push_str(&format!("blocked tasks {}\n", self.blocked.len()));
        for row in &self.blocked {
            if let Some(why) = &row.blocked {
                text.push_str(&format!("  {}: {why}; `plica doctor --unblock {}` lets it go on\n", row.id, row.id));
            }
        }
        crate::render::harmless(&text)
    }

    fn as_json(&self) -> Value {
        let facts: Map<String, Value> =
            self.facts.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
        let worker = |worker: &WorkerRow| json!({ "worker": worker.id.as_str(), "host": worker.host, "version": worker.version, "seen_at": worker.seen_at.to_string() });
        let blocked =
            |row: &Row| json!({ "task": row.id.as_str(), "blocked": row.blocked.as_ref().map(ToString::to_string) });
        json!({
            "plica": env!("CARGO_PKG_VERSION"),
            "store": facts,
            "store_time": self.now.to_string(),
            "clock_off_ms": self.clock_ms,
            "disk_commits_per_second": self.disk.as_ref().ok(),
            "workers": self.workers.iter().map(worker).collect::<Vec<_>>(),
            "blocked": self.blocked.iter().map(blocked).collect::<Vec<_>>(),
            "models": self.servers.iter().map(Server::as_json).collect::<Vec<_>>(),
            "agents": self.agents.iter().map(AgentFile::as_json).collect::<Vec<_>>(),
        })
    }
}

/// Measures the disk that the store's file is on.
async fn measure(facts: &[(String, String)]) -> Result<u64, String> {
    let path = facts.iter().find(|(name, _)| name == "path").map(|(_, path)| PathBuf::from(path));
    let path = path.ok_or("the store is not on a disk of this machine")?;
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => return Err("the store's file is in no folder".to_owned()),
    };
    let measured = tokio::task::spawn_blocking(move || {
        disk::commits_per_second(&folder).map_err(|error| format!("{}: {error}", folder.display()))
    });
    measured.await.unwrap_or_else(|error| Err(error.to_string()))
}
