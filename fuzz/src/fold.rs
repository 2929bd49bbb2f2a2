//! Any lines as a log.

use std::collections::{BTreeMap, BTreeSet};

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::{Hash, genesis_hash};
use plica_kernel::decide::{Composer, Draft, Inputs, RecordError, Stamp, advance};
use plica_kernel::decode::decode_trusted;
use plica_kernel::envelope::{Envelope, Links, Origin, read_line};
use plica_kernel::event::Payload;
use plica_kernel::id::{DedupKey, Epoch, Position, RunId, Seq};
use plica_kernel::ledger::verify::Verifier;
use plica_kernel::snapshot;
use plica_kernel::state::fold::{Folder, landing_of};
use plica_kernel::state::{Phase, Task};
use plica_kernel::wake::{InboxItem, Item};

/// Lines that are looked at: enough for any order of events, few enough to stay fast.
const LINES_MAX: usize = 256;

/// EV-9, FO-1, FO-4, SN-1, SN-4: whatever lines say, verifying and folding them ends in a verdict;
/// of those that can follow one another the log folds alike in one go, in two with a snapshot
/// between, and step by step; a refused event leaves no trace; and what happens next can be
/// asked of any state. From the first `TaskForked` on they are a branch of what came before.
pub fn fold(bytes: &[u8]) {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let lines = &lines[..lines.len().min(LINES_MAX)];
    verify(lines);
    let (source, branch) = source_and_branch(lines);
    for task in source.into_iter().chain(branch) {
        let governance = task.governance();
        let pending = !governance.approvals.is_empty() || !governance.questions.is_empty();
        assert!(task.runtime().phase != Phase::Rest || !pending, "something is asked for by a turn that is over");
        go_on(task);
    }
}

/// The state that lines lead to, and that of the branch among them.
fn source_and_branch(lines: &[&[u8]]) -> (Option<Task>, Option<Task>) {
    let mut events: Vec<Envelope> =
        lines.iter().filter_map(|line| decode_trusted(read_line(line).map_or(*line, |(body, _)| body)).ok()).collect();
    let branches_at = events.iter().position(|event| matches!(event.payload, Payload::TaskForked(_)));
    let branch = events.split_off(branches_at.unwrap_or(events.len()));
    let source = folded(events, None);
    let branch = source.as_ref().and_then(|source| folded(branch, Some(source)));
    (source, branch)
}

/// The state that those of the events lead to that can follow one another, which they do in whatever
/// way they are folded; a branch begins with the state of its source.
fn folded(events: Vec<Envelope>, source: Option<&Task>) -> Option<Task> {
    let (log, task) = mend(events, source)?;
    let whole = task.to_bytes().expect("a state folded from its beginning is whole");

    let landings: Vec<Seq> = log.iter().filter_map(|(event, _)| landing_of(event)).collect();
    let mut folder = Folder::new(None, landings.iter().copied());
    for (event, hash) in &log {
        folder.push(event, *hash, source).expect("what could follow can follow again");
    }
    let again = folder.finish().expect("a log with an event has a state");
    assert_eq!(again.to_bytes().as_deref(), Ok(&*whole), "the same log folds to the same bytes");

    let through = log.len() / 2;
    if through > 0 && !landings.iter().any(|landing| landing.0 < through as u64) {
        let again = through_snapshot(&log, through, source);
        assert_eq!(again.to_bytes().as_deref(), Ok(&*whole), "a snapshot changes nothing");
    }
    Some(task)
}

/// What the lines are worth as they stand.
fn verify(lines: &[&[u8]]) {
    let stored: Vec<(&[u8], Hash)> = lines.iter().filter_map(|line| read_line(line)).collect();
    let events: Vec<Envelope> = stored.iter().filter_map(|(body, _)| decode_trusted(body).ok()).collect();
    let Some(first) = events.first() else { return };
    let mut verifier = Verifier::new(first.task.clone(), events.iter().filter_map(landing_of));
    for (index, (body, hash)) in stored.iter().enumerate() {
        verifier.push(Seq(index as u64 + 1), hash, body);
    }
    let verified = verifier.finish(None);
    if let Some(task) = verified.task {
        assert!(task.to_bytes().is_ok());
    }
}

/// Makes a chain of the events that can follow one another, so that no hash that the input
/// cannot know keeps them apart.
fn mend(events: Vec<Envelope>, source: Option<&Task>) -> Option<(Vec<(Envelope, Hash)>, Task)> {
    let wanted: BTreeSet<Seq> = events.iter().filter_map(landing_of).collect();
    let mut landings: BTreeMap<Seq, Task> = BTreeMap::new();
    let mut log: Vec<(Envelope, Hash)> = Vec::new();
    let mut state: Option<Task> = None;
    for mut event in events {
        chain(&mut event, state.as_ref(), source);
        let Ok(sealed) = event.seal() else { continue };
        let before = state.as_ref().map(Task::to_bytes);
        let applied = match (&mut state, landing_of(&event)) {
            (None, _) => Task::begin(&event, sealed.hash, source).map(|begun| state = Some(begun)),
            (Some(task), None) => task.apply(&event, sealed.hash),
            (Some(task), Some(seq)) => match landings.get(&seq) {
                Some(landing) => task.apply_landing(&event, sealed.hash, landing),
                None => continue,
            },
        };
        match (applied, &state) {
            (Ok(()), Some(task)) => {
                if wanted.contains(&event.seq) {
                    landings.insert(event.seq, task.clone());
                }
                log.push((event, sealed.hash));
            }
            _ => assert_eq!(state.as_ref().map(Task::to_bytes), before, "a refused event leaves no trace"),
        }
    }
    state.map(|task| (log, task))
}

fn chain(event: &mut Envelope, before: Option<&Task>, source: Option<&Task>) {
    match before {
        Some(task) => {
            let head = task.head();
            // A decision names itself, wherever it now stands.
            if event.links.decision == Some(event.seq) {
                event.links.decision = Some(head.seq.next());
            }
            event.task = task.id().clone();
            (event.seq, event.prev) = (head.seq.next(), head.hash);
            (event.at, event.epoch) = (event.at.max(head.at), event.epoch.max(head.epoch));
        }
        None => {
            event.seq = Seq(1);
            match (&mut event.payload, source) {
                (Payload::TaskCreated(created), _) => event.prev = genesis_hash(&created.ledger, &event.task),
                (Payload::TaskForked(forked), Some(source)) => {
                    let head = source.head();
                    (forked.source, forked.source_seq) = (source.id().clone(), head.seq);
                    forked.source_hash = head.hash;
                    event.prev = genesis_hash(&forked.ledger, &event.task);
                }
                _ => {}
            }
        }
    }
}

/// Folds up to `through`, takes a snapshot, loads it, and folds the rest on top.
fn through_snapshot(log: &[(Envelope, Hash)], through: usize, source: Option<&Task>) -> Task {
    let landings = || log.iter().filter_map(|(event, _)| landing_of(event));
    let mut folder = Folder::new(None, landings());
    for (event, hash) in &log[..through] {
        folder.push(event, *hash, source).expect("what could follow can follow again");
    }
    let mut task = folder.finish().expect("a log with an event has a state");
    let mut folder = Folder::new(Some(reloaded(&mut task, &[])), landings());
    for (event, hash) in &log[through..] {
        folder.push(event, *hash, None).expect("what could follow can follow a snapshot");
    }
    folder.finish().expect("a snapshot is a state")
}

/// The state as a snapshot of it gives it back; `sealed` are the segments it was read from,
/// which are not written again.
pub(crate) fn reloaded(task: &mut Task, sealed: &[(ContentRef, &[u8])]) -> Task {
    let mut blobs: Vec<Blob> = Vec::new();
    let taken = snapshot::take(task, &mut blobs).expect("any state can be written");
    let mut again = load(task, &blobs, taken.into()).expect("a snapshot just taken can be used");
    loop {
        let unread = snapshot::unread(&again);
        if unread.is_empty() {
            return again;
        }
        for (list, reference) in unread {
            let written = blobs.iter().find(|blob| blob.reference == reference).map(|blob| &*blob.bytes);
            let read = sealed.iter().find(|(known, _)| *known == reference).map(|(_, bytes)| *bytes);
            let bytes = written.or(read).expect("a segment was written now or read before");
            snapshot::supply(&mut again, list, bytes).expect("a segment that was written or read can be read");
        }
    }
}

fn load(task: &Task, blobs: &[Blob], payload: Payload) -> Option<Task> {
    let head = task.head();
    let event = Envelope {
        task: task.id().clone(),
        seq: head.seq.next(),
        actor: "engine".into(),
        origin: Origin::Engine,
        at: head.at,
        epoch: head.epoch,
        run: run(),
        links: Links::default(),
        more: 0,
        trace: None,
        metrics: BTreeMap::new(),
        prev: head.hash,
        payload,
    };
    snapshot::load(&event, &blobs.last()?.bytes)
}

fn run() -> RunId {
    RunId::new("a-run").expect("an id")
}

/// Asks what happens next until the outside world is needed, with and without a message.
pub(crate) fn go_on(task: Task) {
    let now = task.head().at;
    let message = InboxItem {
        at: now,
        actor: "user:ada".into(),
        dedup: DedupKey::new("a-key").expect("a key"),
        item: Item::Message { text: "go on".into() },
        position: Position(1),
    };
    for items in [Vec::new(), vec![message]] {
        let stamp = Stamp { now, epoch: Epoch(task.head().epoch.0 + 1), run: run() };
        let mut draft = Draft::new(task.clone(), stamp);
        let mut inputs = Inputs {
            now,
            items,
            run: run(),
            pins: Vec::new(),
            stopping: false,
            unusable: None,
            foreseen: Default::default(),
            spawns: Default::default(),
            rewinds: Default::default(),
        };
        let composer = Composer { version: "plain.v1".into(), model: "script:test".into() };
        match advance(&mut draft, &mut inputs, &composer) {
            // What does not fit an event is refused, as ever.
            Ok(_) => drop(draft.finish()),
            Err(RecordError::Endless { .. }) => panic!("a state that goes round in a circle"),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// SN-4: there is something for a fuzzer to begin with that does fold as a branch.
    #[test]
    fn sn_4_a_log_of_the_corpus_has_a_branch() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/fold");
        let has_branch = |bytes: Vec<u8>| {
            let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
            source_and_branch(&lines).1.is_some()
        };
        let mut files = fs::read_dir(folder).expect("a corpus").map(|file| file.expect("a file").path());
        assert!(files.any(|file| has_branch(fs::read(file).expect("an input can be read"))));
    }
}
