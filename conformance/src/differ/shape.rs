//! What is picked from: times, names, items, wakes; and answers without what each store draws
//! for itself.

use std::time::Duration;

use plica_kernel::body::{Blob, Body};
use plica_kernel::canonical::Hash;
use plica_kernel::event::{ApprovalVerdict, CallStatus, Spent, SubtaskStatus};
use plica_kernel::id::{CallId, Epoch, InstanceId, Queue, RunId, Seq, TaskId, WorkerId};
use plica_kernel::ledger::Identity;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{Alternative, InboxItem, Item, Wake, WakeKey};
use plica_ports::store::{
    AppendError, Claim, ClaimError, Claimed, CreateError, DeliverError, Row, StoreError, Token, Verdict, Worker,
};

use super::op::{Pick, WrongClaim};

/// One of `all`.
pub(crate) fn one<T>(all: &[T], pick: Pick) -> Option<&T> {
    if all.is_empty() { None } else { all.get(pick % all.len()) }
}

/// How far the clock is moved: within leases, past them, past rests.
pub(crate) fn tick(pick: Pick) -> Duration {
    let millis = [0, 0, 1, 1, 50, 900, 1_000, 4_000, 31_000, 600_000];
    Duration::from_millis(millis[pick % millis.len()])
}

pub(crate) fn lease(pick: Pick) -> Duration {
    let millis = [0, 1_000, 3_000, 30_000, 30_000, 3_600_000, 3_600_000, 3_600_000];
    Duration::from_millis(millis[pick % millis.len()])
}

/// A time that is due soon, later or already.
pub(crate) fn due(pick: Pick, now: Timestamp) -> Timestamp {
    let millis = [0, 1, 500, 2_000, 60_000];
    now.plus_millis(millis[pick % millis.len()])
}

/// How many bodies there are that no batch brings.
pub(crate) const KEPT: usize = 5;

/// One of them.
pub(crate) fn kept(pick: Pick) -> Blob {
    Blob::new("text/plain", format!("kept {}", pick % KEPT).into_bytes())
}

/// A time before which a body counts as old: now, and up to longer ago than anything.
pub(crate) fn aged(pick: Pick, now: Timestamp) -> Timestamp {
    let micros = [0, 1_000_000, 90_000_000, 200_000_000, 700_000_000, i64::MAX];
    Timestamp::from_micros(now.micros().saturating_sub(micros[pick % micros.len()]))
}

pub(crate) fn worker(pick: Pick) -> Worker {
    let name = ["ada", "bob", "cem"][pick % 3];
    Worker {
        id: WorkerId::new(name).expect("a name is an id"),
        instance: InstanceId::new(format!("{name}-instance")).expect("a name is an id"),
        host: "bench".into(),
        version: "1".into(),
        process: None,
    }
}

pub(crate) fn queue(pick: Pick) -> Queue {
    if pick.is_multiple_of(3) { Queue::new("red").expect("a colour is a queue") } else { Queue::main() }
}

pub(crate) fn queues(pick: Pick) -> Vec<Queue> {
    match pick % 6 {
        0 => vec![queue(0)],
        1 => vec![queue(1)],
        2 => vec![queue(1), queue(0), queue(1)],
        3 => vec![Queue::new("blue").expect("a colour is a queue")],
        _ => Vec::new(),
    }
}

pub(crate) fn wake(pick: Pick, now: Timestamp) -> Wake {
    let event = |kind: &str| WakeKey::Event(kind.into());
    let need = |key, need| Alternative { key, need };
    match pick % 9 {
        0 => Wake::on(event("a")),
        1 => Wake::on(event("b")),
        2 => Wake::on(WakeKey::Message),
        3 => Wake { any: vec![need(WakeKey::Group(Seq(2)), 2)], at: None },
        4 => Wake::on(WakeKey::Answer(Seq(2))),
        5 => Wake { any: Vec::new(), at: Some(now.plus_millis(1_000)) },
        6 => Wake { any: vec![need(event("a"), 2), need(event("b"), 1)], at: Some(now.plus_millis(60_000)) },
        7 => Wake::on(WakeKey::Background),
        _ => Wake::default(),
    }
}

pub(crate) fn item(pick: Pick) -> Item {
    let call = CallId { decision: Seq(2), index: 0 };
    let event = |kind: &str| Item::Event { data: None, event: kind.into() };
    match pick % 13 {
        0 | 1 => event("a"),
        2 => event("b"),
        3 => Item::Message { text: "hi".into() },
        4 => Item::Message { text: "ho \u{0}".into() },
        5 => Item::Cancel { reason: None },
        6 => Item::Rewind { to_seq: Seq(1) },
        7 => Item::Reopen { reason: Some("more".into()) },
        8 => Item::Answer { call, text: "42".into() },
        9 => Item::Verdict { call, reason: None, verdict: ApprovalVerdict::Approve },
        10 | 11 => child(call),
        _ => evidence(call),
    }
}

fn child(call: CallId) -> Item {
    Item::Child {
        answer: Body::Inline("done".into()),
        background: false,
        call,
        child: TaskId::new("a-child").expect("a name is an id"),
        failure: None,
        spent: Spent::default(),
        status: SubtaskStatus::Completed,
    }
}

fn evidence(call: CallId) -> Item {
    let identity = Identity { attempt: 1, fence: Epoch(1), generation: 0, resume: 0, run: run() };
    Item::Evidence { action: Seq(1), call, identity, output: "late".into(), status: CallStatus::Ok }
}

/// An item that cannot be written down.
pub(crate) fn unwritable() -> Item {
    Item::Rewind { to_seq: Seq(u64::MAX) }
}

/// The run that stands for all that the stores draw.
pub(crate) fn run() -> RunId {
    RunId::new("some-run").expect("a name is an id")
}

/// A claim that is wrong in some way.
pub(crate) fn spoil(claim: &Claim, wrong: Option<WrongClaim>) -> Claim {
    let mut claim = claim.clone();
    match wrong {
        None => {}
        Some(WrongClaim::Token) => claim.token = Token([9; 32]),
        Some(WrongClaim::OldEpoch) => claim.epoch = Epoch(claim.epoch.0.saturating_sub(1)),
        Some(WrongClaim::FutureEpoch) => claim.epoch = Epoch(claim.epoch.0 + 9),
        Some(WrongClaim::UnknownTask) => claim.task = TaskId::new("nobody").expect("a name is an id"),
    }
    claim
}

/// A claim as far as it is not drawn: without its token and run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    task: TaskId,
    epoch: Epoch,
    head: (Seq, Hash),
    items: Vec<InboxItem>,
    verdict: Verdict,
    lease_until: Timestamp,
}

impl From<&Claimed> for Given {
    fn from(claimed: &Claimed) -> Self {
        let Claimed { claim, seq, hash, items, verdict, lease_until } = claimed.clone();
        Self { task: claim.task, epoch: claim.epoch, head: (seq, hash), items, verdict, lease_until }
    }
}

/// A row without its run.
pub(crate) fn row(mut row: Row) -> Row {
    row.run = row.run.map(|_| run());
    row
}

/// What is broken is for people: two stores say it in their own words.
pub(crate) fn store_error(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(_) => StoreError::Unavailable(String::new()),
        StoreError::Unusable(_) => StoreError::Unusable(String::new()),
        StoreError::UnknownTask(task) => StoreError::UnknownTask(task),
    }
}

pub(crate) fn append_error(error: AppendError) -> AppendError {
    match error {
        AppendError::Invalid { task, .. } => AppendError::Invalid { task, rule: String::new() },
        AppendError::Store(error) => AppendError::Store(store_error(error)),
        other => other,
    }
}

pub(crate) fn claim_error(error: ClaimError) -> ClaimError {
    match error {
        ClaimError::Store(error) => ClaimError::Store(store_error(error)),
        other @ ClaimError::CommitUnknown(_) => other,
    }
}

pub(crate) fn create_error(error: CreateError) -> CreateError {
    match error {
        CreateError::Invalid { task, .. } => CreateError::Invalid { task, rule: String::new() },
        CreateError::Store(error) => CreateError::Store(store_error(error)),
        other => other,
    }
}

pub(crate) fn deliver_error(error: DeliverError) -> DeliverError {
    match error {
        DeliverError::Invalid { task, .. } => DeliverError::Invalid { task, rule: String::new() },
        DeliverError::Store(error) => DeliverError::Store(store_error(error)),
        other => other,
    }
}
