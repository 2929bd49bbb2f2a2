//! Verification of one task's log, event by event, by someone who trusts neither the worker
//! that wrote it nor the store that kept it.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use crate::body::{Blob, ContentRef};
use crate::canonical::{Hash, check};
use crate::decode::{DecodeError, decode};
use crate::envelope::Envelope;
use crate::event::Payload;
use crate::id::{Seq, TaskId};
use crate::snapshot;
use crate::state::{
    Task,
    fold::{Folder, fold_version},
};

/// Which promise a break breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The bytes are those that were written, in their order.
    Integrity,
    /// Every event can follow what came before it.
    Causality,
}

/// One thing that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The task.
    pub task: TaskId,
    /// The event; the first that is missing, for a log that ends too early.
    pub seq: Seq,
    /// Which promise it breaks.
    pub promise: Promise,
    /// The rule, in words.
    pub rule: String,
}

/// What an event cites, for the caller to look up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cited {
    /// Content references.
    pub content: Vec<ContentRef>,
}

/// Checks a log as it is read. The fold stops at the first break of causality; integrity is
/// checked to the end.
#[derive(Debug)]
pub struct Verifier {
    task: TaskId,
    next: Seq,
    prev: Option<Hash>,
    folder: Option<Folder>,
    /// What a fork branches off from.
    ancestor: Option<Task>,
    /// Events that the append of the last one said would still follow.
    more: u32,
    breaks: Vec<Break>,
    not_checked: Vec<String>,
}

impl Verifier {
    /// Begins with a log's first event; `landings` are those of its rewinds and seals.
    pub fn new(task: TaskId, landings: impl IntoIterator<Item = Seq>) -> Self {
        Self {
            task,
            next: Seq(1),
            prev: None,
            folder: Some(Folder::new(None, landings)),
            ancestor: None,
            more: 0,
            breaks: Vec::new(),
            not_checked: Vec::new(),
        }
    }

    /// The log is a fork's, and this is the state of its source where it branches off, by the
    /// source's own log.
    #[must_use]
    pub fn descends_from(mut self, ancestor: Task) -> Self {
        self.ancestor = Some(ancestor);
        self
    }

    fn fail(&mut self, seq: Seq, promise: Promise, rule: impl ToString) {
        self.breaks.push(Break { task: self.task.clone(), seq, promise, rule: rule.to_string() });
    }

    /// Takes the next stored event: the seq and hash it is stored under, and its bytes.
    /// Returns what it cites.
    pub fn push(&mut self, seq: Seq, hash: &Hash, body: &[u8]) -> Cited {
        if seq != self.next {
            self.fail(self.next, Promise::Integrity, format!("missing: the next event stored is {seq}"));
            self.folder = None;
        }
        self.next = seq.next();
        let prev = self.prev.replace(*hash);
        match decode(body, hash) {
            Ok(event) => self.push_event(seq, hash, prev, event),
            Err(DecodeError::NewerVersion { what, .. }) => {
                if let Err(error) = check(body) {
                    self.fail(seq, Promise::Integrity, error);
                }
                self.not_checked.push(format!("event {seq} and what follows: written by a newer version ({what})"));
                self.folder = None;
                self.more = 0;
                Cited::default()
            }
            Err(DecodeError::Corrupt { rule, .. }) => {
                self.fail(seq, Promise::Integrity, rule);
                self.folder = None;
                self.more = 0;
                Cited::default()
            }
        }
    }

    fn push_event(&mut self, seq: Seq, hash: &Hash, prev: Option<Hash>, event: Envelope) -> Cited {
        if event.seq != seq || event.task != self.task {
            self.fail(seq, Promise::Integrity, format!("says it is event {} of task {}", event.seq, event.task));
            self.folder = None;
            return Cited::default();
        }
        if prev.is_some_and(|prev| prev != event.prev) {
            self.fail(seq, Promise::Integrity, "prev is not the hash of the event before");
            self.folder = None;
        }
        if self.more > 0 && event.more != self.more - 1 {
            self.fail(seq, Promise::Integrity, "an append is not whole");
        }
        self.more = event.more;
        let mut cited: Vec<ContentRef> = event.payload.references().into_iter().cloned().collect();
        if let Some(mut folder) = self.folder.take() {
            cited.extend(self.check_snapshot(&mut folder, &event));
            match folder.push(&event, *hash, self.ancestor.as_ref()) {
                Ok(()) => self.folder = Some(folder),
                Err(error) => self.fail(seq, Promise::Causality, error.rule),
            }
        }
        Cited { content: cited }
    }

    /// A snapshot of this fold version equals the fold, byte for byte; returns the segments
    /// that were sealed for it.
    fn check_snapshot(&mut self, folder: &mut Folder, event: &Envelope) -> Vec<ContentRef> {
        let Payload::TaskSnapshot(taken) = &event.payload else { return Vec::new() };
        if taken.fold != fold_version() {
            self.not_checked.push(format!("snapshot at event {}: of another fold version", event.seq));
            return Vec::new();
        }
        let mut blobs: Vec<Blob> = Vec::new();
        match folder.seal(|task| snapshot::take(task, &mut blobs)) {
            Some(Ok(own)) if own.state_ref.sha256 == taken.state_ref.sha256 => {}
            _ => self.fail(event.seq, Promise::Integrity, "the snapshot differs from the fold"),
        }
        blobs.into_iter().map(|blob| blob.reference).collect()
    }

    /// Notes that content an event cites cannot be had as it was written.
    pub fn content_broken(&mut self, seq: Seq, rule: impl ToString) {
        self.fail(seq, Promise::Integrity, rule);
    }

    /// Notes something that could not be checked.
    pub fn could_not_check(&mut self, what: impl ToString) {
        self.not_checked.push(what.to_string());
    }

    /// Ends the log; `head` is what the row says its last event is, if there is a row.
    pub fn finish(mut self, head: Option<(Seq, Hash)>) -> Verified {
        if self.more > 0 {
            self.fail(self.next, Promise::Integrity, "missing: the last append is not whole");
        }
        if let Some((seq, hash)) = head {
            if seq >= self.next {
                self.fail(
                    self.next,
                    Promise::Integrity,
                    format!("missing: the row says the log ends with event {seq}"),
                );
            } else if (seq.next(), Some(hash)) != (self.next, self.prev) {
                self.fail(seq, Promise::Integrity, "the row's head is another event than the log's last");
            }
        }
        let task = self.folder.and_then(Folder::finish);
        Verified { breaks: self.breaks, not_checked: self.not_checked, task }
    }
}

/// What a verification found.
#[derive(Debug)]
pub struct Verified {
    /// What does not hold, in the order of the log.
    pub breaks: Vec<Break>,
    /// What could not be checked.
    pub not_checked: Vec<String>,
    /// The state that the log folds to, when it does.
    pub task: Option<Task>,
}
