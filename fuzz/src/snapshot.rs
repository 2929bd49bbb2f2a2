//! Any bytes as a snapshot and its segments.

use std::collections::BTreeMap;

use plica_kernel::body::{ContentRef, MEDIA_STATE};
use plica_kernel::canonical::{Hash, from_slice};
use plica_kernel::envelope::{Envelope, Links, Origin};
use plica_kernel::event::TaskSnapshot;
use plica_kernel::id::{Epoch, RunId, Seq, TaskId};
use plica_kernel::snapshot;
use plica_kernel::state::{Task, fold::fold_version};
use plica_kernel::time::Timestamp;
use serde::Deserialize;

use crate::fold::{go_on, reloaded};

/// What a snapshot says it is of; the rest is what is tested.
#[derive(Deserialize)]
struct Peek {
    state: PeekState,
}

#[derive(Deserialize)]
struct PeekState {
    head: PeekHead,
    task: TaskId,
}

#[derive(Deserialize)]
struct PeekHead {
    seq: Seq,
}

/// SN-2, SN-7, EV-9: the first line is taken for a snapshot's bytes and the others for the
/// segments that it asks for. They load or are passed over; what loads and is whole has
/// bytes, gives the same bytes through another snapshot, and can be carried on.
pub fn snapshot(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let state = lines.next().unwrap_or_default();
    let Some(mut task) = load(state) else { return };
    let mut sealed: Vec<(ContentRef, &[u8])> = Vec::new();
    'segments: loop {
        let unread = snapshot::unread(&task);
        if unread.is_empty() {
            break;
        }
        for (list, reference) in unread {
            let Some(segment) = lines.next() else { break 'segments };
            let before = task.clone();
            if snapshot::supply(&mut task, list, segment).is_err() {
                assert!(task == before, "a segment that does not fit leaves no trace");
                break 'segments;
            }
            if sealed.iter().any(|(known, bytes)| *known == reference && *bytes != segment) {
                return; // Two bodies under one hash: no content store gives that.
            }
            sealed.push((reference, segment));
        }
    }
    if !snapshot::unread(&task).is_empty() {
        assert!(task.to_bytes().is_err(), "a state with unread segments has no bytes");
        return;
    }
    let whole = task.to_bytes().expect("a whole state has bytes");
    assert_eq!(reloaded(&mut task, &sealed).to_bytes().as_deref(), Ok(&*whole));
    go_on(task);
}

fn load(state: &[u8]) -> Option<Task> {
    let peek: Peek = from_slice(state).ok()?;
    let through = peek.state.head.seq;
    let taken = TaskSnapshot { fold: fold_version(), state_ref: ContentRef::of(MEDIA_STATE, state), through };
    let event = Envelope {
        task: peek.state.task,
        seq: through.next(),
        actor: "engine".into(),
        origin: Origin::Engine,
        at: Timestamp::from_micros(0),
        epoch: Epoch(1),
        run: RunId::new("a-run").expect("an id"),
        links: Links::default(),
        more: 0,
        trace: None,
        metrics: BTreeMap::new(),
        prev: Hash::from_bytes([7; 32]),
        payload: taken.into(),
    };
    snapshot::load(&event, state)
}
