//! What workers do outside the store: tools that run and look, models that are asked, observers
//! that are shown a log, content that is collected.

use std::collections::BTreeSet;

use plica_kernel::body::ContentRef;
use plica_kernel::canonical::Hash;
use plica_kernel::id::{Seq, TaskId};
use plica_ports::{CallContext, ContentStore, ModelRequest};

use super::Oracle;
use super::event::{references, sha256};
use super::reckoning::results_follow;
use crate::sim::tools::Kind;

impl Oracle {
    /// A tool's body is about to run: its start is on record (EN-2), and it is the only one of
    /// its key unless it may run again.
    pub fn tool_begins(&self, (kind, version): (Kind, &str), args: &str, context: &CallContext) {
        let key = &context.idempotency_key;
        self.note(|| format!("{} begins {key} attempt {} epoch {}", kind.name(), context.attempt, context.epoch));
        let begun = self.outside.effect(key).begun;
        self.check(&context.task, |book| {
            let id = context.call.to_string();
            let call = book.log.rounds.calls.get(&id).ok_or_else(|| format!("call {id} runs but is not on record"))?;
            let start = (context.attempt as usize).checked_sub(1).and_then(|nth| call.starts.get(nth));
            match start {
                Some(start) if start.epoch == context.epoch.0 && start.args == args && call.tool == kind.name() => {
                    same_version(&start.version, version)?;
                }
                _ => return Err(format!("call {id} runs as attempt {} without a start on record", context.attempt)),
            }
            let most = if kind.is_retry_safe() { call.starts.len() } else { 1 };
            if begun as usize >= most {
                return Err(format!("{} {key} runs for the {}th time", kind.name(), begun + 1));
            }
            Ok(())
        });
    }

    /// A tool looks what became of a call: it is the version that was started (RC-8).
    pub fn tool_looks(&self, (kind, version): (Kind, &str), context: &CallContext) {
        self.note(|| format!("{} looks for {}", kind.name(), context.idempotency_key));
        self.check(&context.task, |book| {
            let call = book.log.rounds.calls.get(&context.call.to_string());
            let start = call.and_then(|call| call.starts.last()).ok_or("a call is looked for that never started")?;
            same_version(&start.version, version)
        });
    }

    /// The observer in a process is taken up in a log, with this count of events.
    pub fn follows(&self, instance: &str, task: &TaskId, tally: u64) {
        self.note(|| format!("{instance} follows {task} from {tally}"));
        self.check(task, |book| {
            book.watch.follows(instance, tally);
            Ok(())
        });
    }

    /// The observer in a process is shown an event.
    pub fn shown(&self, instance: &str, task: &TaskId, seq: Seq, body: &[u8]) {
        let hash = sha256(&[b"plica/event/v1\n", body]);
        self.check(task, |book| book.watch.shown(instance, seq.0, &hash));
    }

    /// Everything is there that was ever cited, and what that cites in its turn (CO-3).
    pub async fn keeps_what_is_cited(&self, content: &dyn ContentStore) {
        let mut left: Vec<(String, u64)> = self.books().found.clone().into_iter().collect();
        let mut looked = BTreeSet::new();
        while let Some((sha256, size)) = left.pop() {
            let Some(hash) = Hash::parse(&sha256).filter(|_| looked.insert(sha256.clone())) else { continue };
            match content.get(&ContentRef { media: String::new(), sha256: hash, size }).await {
                Ok(bytes) => {
                    left.extend(serde_json::from_slice(&bytes).map(|body| references(&body)).unwrap_or_default())
                }
                Err(error) => self.violated("content", format!("cited, and gone: {error}")),
            }
        }
    }

    /// The model is asked: every call before has its result, and the conversation only grew.
    pub fn model_asked(&self, instance: &str, request: &ModelRequest) {
        self.note(|| format!("{} asks attempt {} after {}", request.task, request.attempt, request.assistant_messages));
        self.check(&request.task, |book| {
            results_follow(&request.messages)?;
            let holds = book.holds.now.as_ref().is_some_and(|hold| hold.instance == instance);
            book.log.rounds.force.asks(request, holds)?;
            let messages: Vec<String> = request.messages.iter().map(|message| format!("{message:?}")).collect();
            let common = messages.len().min(book.shown.len());
            if let Some(at) = (0..common).find(|at| messages[*at] != book.shown[*at]) {
                let (now, before) = (&messages[at], &book.shown[at]);
                return Err(format!("message {at} is shown to the model as {now:.300}, before it was {before:.300}"));
            }
            if messages.len() > common {
                book.shown = messages;
                // What the model is told after a reply that was cut is said again or not by
                // what follows, so a last text is compared once it is no longer the last.
                book.shown.pop_if(|message| message.starts_with("Text"));
            }
            Ok(())
        });
    }
}

/// What begins with one version of a tool goes on with no other (RC-8).
fn same_version(started: &str, now: &str) -> Result<(), String> {
    if started == now { Ok(()) } else { Err(format!("a call that began with version {started} is at version {now}")) }
}
