//! Observers that keep their place in the log (EN-5): what they were shown of a held task, and
//! what is to be on record of it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use plica_kernel::body::Body;
use plica_kernel::canonical::{from_slice, to_vec};
use plica_kernel::decide::{Aside, Drafted, PluginRecord};
use plica_kernel::envelope::{Envelope, Origin};
use plica_kernel::event::EventType;
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::limits::OBSERVED_EVENTS_MAX;
use plica_kernel::state::Task;
use plica_ports::{ContentStore, Observer, Progress, Record};
use serde::{Deserialize, Serialize};

use crate::aside::aside;
use crate::compose::{ComposeError, text_of};
use crate::heartbeat::Hold;
use crate::host::Host;
use crate::load::read_event;

/// The kind of the record that says how far an observer was shown a log.
const DELIVERED_THROUGH: &str = "delivered_through";
/// Events read at once.
const PAGE: usize = 1_000;

/// A place in the log of one task; a fork inherits the record but not the place.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    seq: Seq,
    task: TaskId,
}

/// One observer that keeps its place.
struct Follower {
    observer: Arc<dyn Observer>,
    /// The place on record.
    recorded: Seq,
    /// The last event that it was shown.
    shown: Seq,
    /// The last event that it was shown and that a place is to be recorded for.
    owed: Seq,
}

impl Follower {
    fn progress(&self) -> Option<&dyn Progress> {
        self.observer.progress()
    }

    /// Shows an event that was not shown yet; a failure is the observer's own affair.
    fn show(&mut self, event: &Envelope, body: &[u8]) {
        if event.seq <= self.shown {
            return;
        }
        self.shown = event.seq;
        // Else records of progress would ask for records of progress.
        if event.kind() != EventType::ExtensionRecorded || event.origin != Origin::Observer {
            self.owed = event.seq;
        }
        if catch_unwind(AssertUnwindSafe(|| self.observer.committed(event, body))).is_err() {
            tracing::warn!(task = %event.task, seq = %event.seq, "an observer failed");
        }
    }

    fn aside(&self, task: &TaskId) -> Aside {
        let Some(progress) = self.progress() else { return Aside::default() };
        let asked = catch_unwind(AssertUnwindSafe(|| (progress.records(task), progress.outgoing(task))));
        let (asked, outgoing) = asked.unwrap_or_else(|_| {
            tracing::warn!(%task, plugin = progress.plugin(), "an observer failed: it leaves no record but its place");
            Default::default()
        });
        let place = Place { seq: self.shown, task: task.clone() };
        let place = to_vec(&place).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let own = asked.into_iter().filter(|(kind, _)| kind != DELIVERED_THROUGH);
        let plugin = progress.plugin();
        let records = own.chain([(DELIVERED_THROUGH.to_owned(), place)]).map(|(kind, body)| Record {
            plugin: plugin.to_owned(),
            kind,
            body,
        });
        aside(&format!("plugin:{plugin}"), task, records.collect(), outgoing)
    }
}

/// The observers of a host that keep their place in the log of the task that is held.
pub(crate) struct Followers {
    hold: Arc<Hold>,
    all: Vec<Follower>,
}

impl Followers {
    /// Takes up what is on record of each observer, and shows it what came since.
    ///
    /// # Errors
    /// When the log or a record cannot be read now.
    pub(crate) async fn resume(host: &Host, hold: &Arc<Hold>, task: &Task) -> Result<Self, String> {
        let mut followers = Self { hold: hold.clone(), all: Vec::new() };
        let content = host.content().map_err(|error| error.to_string())?;
        for observer in host.observers.iter().filter(|observer| observer.progress().is_some()) {
            followers.all.push(resumed(observer.clone(), hold, task, content).await?);
        }
        followers.catch_up(host, task).await?;
        Ok(followers)
    }

    async fn catch_up(&mut self, host: &Host, task: &Task) -> Result<(), String> {
        let Some(mut from) = self.all.iter().map(|follower| follower.shown.next()).min() else { return Ok(()) };
        while from <= task.head().seq {
            let page = host.store.read(task.id(), from, PAGE).await.map_err(|error| error.to_string())?;
            let Some(last) = page.last() else { break };
            from = last.seq.next();
            for stored in &page {
                // What was folded can be read.
                let event = read_event(task.id(), stored).map_err(|error| error.to_string())?;
                let Self { hold, all } = self;
                hold.show(|| all.iter_mut().for_each(|follower| follower.show(&event, &stored.body)));
            }
        }
        Ok(())
    }

    /// Whether there is any.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Shows what was committed.
    pub(crate) fn show(&mut self, drafted: &Drafted) {
        let Self { hold, all } = self;
        hold.show(|| {
            for follower in all {
                for (event, sealed) in drafted.envelopes.iter().zip(&drafted.events) {
                    follower.show(event, &sealed.body);
                }
            }
        });
    }

    /// What is to be on record before the task is handed back.
    pub(crate) fn owed(&self, task: &TaskId) -> Aside {
        together(self.all.iter().filter(|follower| follower.owed > follower.recorded), task)
    }

    /// What is to be on record with the next append, so that a crash in a long turn makes the
    /// next holder show no more than so many events again.
    pub(crate) fn due(&self, task: &TaskId) -> Aside {
        let due = |follower: &&Follower| follower.shown.0.saturating_sub(follower.recorded.0) >= OBSERVED_EVENTS_MAX;
        together(self.all.iter().filter(due), task)
    }

    /// These records are written: each place among them is the one that counts, however much was
    /// shown since.
    pub(crate) fn recorded(&mut self, written: &Aside) {
        for follower in &mut self.all {
            let Some(plugin) = follower.progress().map(|progress| progress.plugin().to_owned()) else { continue };
            let mine = |record: &&PluginRecord| record.plugin == plugin && record.kind == DELIVERED_THROUGH;
            let place =
                written.records.iter().find(mine).and_then(|record| from_slice::<Place>(record.body.as_bytes()).ok());
            if let Some(place) = place {
                follower.recorded = place.seq;
            }
        }
    }
}

fn together<'a>(followers: impl Iterator<Item = &'a Follower>, task: &TaskId) -> Aside {
    followers.map(|follower| follower.aside(task)).fold(Aside::default(), |mut all, one| {
        all.records.extend(one.records);
        all.sent.extend(one.sent);
        all
    })
}

async fn resumed(
    observer: Arc<dyn Observer>,
    hold: &Hold,
    task: &Task,
    content: &dyn ContentStore,
) -> Result<Follower, String> {
    let mut records = BTreeMap::new();
    let mut recorded = Seq(0);
    if let Some(progress) = observer.progress() {
        let kept = task.governance().extensions.get(progress.plugin());
        for (kind, body) in kept.into_iter().flatten() {
            if kind == DELIVERED_THROUGH {
                recorded = place_in(body, task.id());
            } else if let Some(text) = record_of(body, content).await? {
                records.insert(kind.clone(), text);
            }
        }
        if recorded == Seq(0) {
            // Records beside a place in another log, as a fork has them, say nothing of this one.
            records.clear();
        }
        hold.show(|| {
            if catch_unwind(AssertUnwindSafe(|| progress.resumes(task.id(), &records))).is_err() {
                tracing::warn!(task = %task.id(), plugin = progress.plugin(), "an observer failed to take up its records");
            }
        });
    }
    Ok(Follower { observer, recorded, shown: recorded, owed: Seq(0) })
}

fn place_in(body: &Body, task: &TaskId) -> Seq {
    let place = body.inline().and_then(|text| from_slice::<Place>(text.as_bytes()).ok());
    place.filter(|place| place.task == *task).map_or(Seq(0), |place| place.seq)
}

/// The text of a record; one that is lost is an observer's loss and no one else's.
async fn record_of(body: &Body, content: &dyn ContentStore) -> Result<Option<String>, String> {
    match text_of(body, content).await {
        Ok(text) => Ok(Some(text)),
        Err(ComposeError::Unavailable(why)) => Err(why),
        Err(ComposeError::Content(why)) => {
            tracing::warn!(why, "a record of an observer is passed over");
            Ok(None)
        }
    }
}
