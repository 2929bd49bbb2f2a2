//! A log as a store would keep it, and folds of it.

use std::collections::BTreeMap;

use plica_kernel::body::{Blob, Body};
use plica_kernel::canonical::Hash;
use plica_kernel::decode::decode;
use plica_kernel::envelope::{Envelope, SealedEvent};
use plica_kernel::event::Payload;
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::ledger::verify::{Verified, Verifier};
use plica_kernel::snapshot;
use plica_kernel::state::{
    Task,
    fold::{Folder, landing_of},
};

/// Stored events in the appends they came in, and the content they cite.
#[derive(Debug, Clone, Default)]
pub struct Log {
    pub appends: Vec<Vec<SealedEvent>>,
    pub blobs: BTreeMap<Hash, Vec<u8>>,
}

impl Log {
    pub fn keep(&mut self, blobs: impl IntoIterator<Item = Blob>) {
        self.blobs.extend(blobs.into_iter().map(|blob| (blob.reference.sha256, blob.bytes)));
    }

    pub fn events(&self) -> impl Iterator<Item = &SealedEvent> + Clone {
        self.appends.iter().flatten()
    }

    pub fn envelopes(&self) -> Vec<Envelope> {
        self.events().map(|event| decode(&event.body, &event.hash).unwrap()).collect()
    }

    /// The first `appends` appends.
    pub fn prefix(&self, appends: usize) -> Self {
        Self { appends: self.appends[..appends].to_vec(), blobs: self.blobs.clone() }
    }

    /// The text of a body, wherever it is.
    pub fn text(&self, body: &Body) -> String {
        match body {
            Body::Inline(text) => text.clone(),
            Body::Ref(reference) => String::from_utf8(self.blobs[&reference.sha256].clone()).unwrap(),
        }
    }
}

/// The state by the whole log, snapshots ignored.
pub fn fold(log: &Log) -> Task {
    fold_with(log, |_| None)
}

/// The state as of `seq`.
pub fn fold_at(log: &Log, seq: Seq) -> Task {
    let mut prefix = log.clone();
    let mut left = seq.0 as usize;
    prefix.appends.retain_mut(|append| {
        append.truncate(left);
        left -= append.len();
        !append.is_empty()
    });
    fold(&prefix)
}

/// The state by the newest snapshot that can be used, when content is what `content` says it
/// is. As the engine does, segments are read after the fold; a snapshot that lacks one is passed
/// over as one that lacks its state is.
pub fn fold_with(log: &Log, content: impl Fn(&Hash) -> Option<Vec<u8>>) -> Task {
    fold_on(log, None, content)
}

/// The same of a fork's log, whose ancestor was `ancestor` where it branches off.
pub fn fold_on(log: &Log, ancestor: Option<&Task>, content: impl Fn(&Hash) -> Option<Vec<u8>>) -> Task {
    let envelopes = log.envelopes();
    let mut landings = Vec::new();
    for event in envelopes.iter().rev() {
        landings.extend(landing_of(event));
        let Payload::TaskSnapshot(taken) = &event.payload else { continue };
        if landings.iter().any(|landing| *landing < taken.through) {
            continue;
        }
        let base = content(&taken.state_ref.sha256).and_then(|bytes| snapshot::load(event, &bytes));
        let folded = base.map(|base| fold_from(log, &envelopes, (Some(base), ancestor), &landings));
        if let Some(task) = folded.and_then(|task| expand(task, &content)) {
            return task;
        }
    }
    fold_from(log, &envelopes, (None, ancestor), &landings)
}

fn fold_from(
    log: &Log,
    envelopes: &[Envelope],
    (base, ancestor): (Option<Task>, Option<&Task>),
    landings: &[Seq],
) -> Task {
    let from = base.as_ref().map_or(0, |base| base.head().seq.0 as usize);
    let mut folder = Folder::new(base, landings.iter().copied());
    for (event, stored) in envelopes.iter().zip(log.events()).skip(from) {
        folder.push(event, stored.hash, ancestor).unwrap();
    }
    folder.finish().unwrap()
}

fn expand(mut task: Task, content: impl Fn(&Hash) -> Option<Vec<u8>>) -> Option<Task> {
    loop {
        let unread = snapshot::unread(&task);
        if unread.is_empty() {
            return Some(task);
        }
        for (list, reference) in unread {
            // A reader refuses bytes that are not those of the reference (CO-1).
            let bytes = content(&reference.sha256)
                .filter(|bytes| plica_kernel::canonical::content_hash(bytes) == reference.sha256)?;
            snapshot::supply(&mut task, list, &bytes).ok()?;
        }
    }
}

/// What a verifier says of these stored events.
pub fn verify<'a>(task: &TaskId, events: impl Iterator<Item = (Seq, &'a Hash, &'a [u8])> + Clone) -> Verified {
    let landings: Vec<Seq> = events
        .clone()
        .filter_map(|(_, hash, body)| decode(body, hash).ok().and_then(|event| landing_of(&event)))
        .collect();
    let mut verifier = Verifier::new(task.clone(), landings);
    for (seq, hash, body) in events {
        verifier.push(seq, hash, body);
    }
    verifier.finish(None)
}

/// What a verifier says of a log.
pub fn verify_log(log: &Log) -> Verified {
    let task = log.envelopes()[0].task.clone();
    verify(&task, log.events().map(|event| (event.seq, &event.hash, event.body.as_slice())))
}
