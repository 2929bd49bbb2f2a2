//! Logs made by hand: events with their hash chain and the row they leave, without the
//! kernel's own machinery of deciding and recording, which is tested elsewhere.

use std::collections::BTreeMap;

use plica_kernel::body::{Body, ContentRef, MEDIA_DEFINITION};
use plica_kernel::canonical::{Hash, genesis_hash};
use plica_kernel::envelope::{Envelope, Links, Origin, SealedEvent};
use plica_kernel::event::{
    Budget, ExtensionRecorded, Payload, SuspendReason, TaskCompleted, TaskCreated, TaskRewound, TaskSuspended,
    TaskWoken,
};
use plica_kernel::id::{Epoch, LedgerId, Queue, RunId, Seq, TaskId};
use plica_kernel::row::{Projection, Status};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{Wake, Woken};
use plica_ports::store::{Batch, ClaimAfter, Claimed, Facts, NewTask};

/// Facts of a root task in the main queue with nothing special about it.
pub fn opening_facts(now: Timestamp) -> Facts {
    Facts {
        agent: "tester".into(),
        goal: "hold the clauses".into(),
        parent: None,
        source: None,
        queue: Queue::main(),
        priority: 2,
        labels: BTreeMap::new(),
        not_before: None,
        created_at: now,
    }
}

/// An event that may follow any other of a task that is not over and changes no status.
pub fn note(text: &str) -> Payload {
    ExtensionRecorded { body: Body::Inline(text.into()), kind: "note".into(), plugin: "conformance".into() }.into()
}

/// A task's log as its writer knows it: the head to continue and the row it leaves.
#[derive(Debug, Clone)]
pub struct Log {
    /// The task.
    pub id: TaskId,
    /// The row after the last event.
    pub row: Projection,
    at: Timestamp,
}

impl Log {
    /// A new task: what to create, and its log once that is done.
    pub fn begin(ledger: &LedgerId, id: &TaskId, facts: Facts) -> (Self, NewTask) {
        let at = facts.created_at;
        let created = TaskCreated {
            background: false,
            agent: facts.agent.clone(),
            budget: Budget::default(),
            call: None,
            definition: ContentRef::of(MEDIA_DEFINITION, b"{}"),
            depth: u32::from(facts.parent.is_some()),
            goal: Body::Inline(facts.goal.clone()),
            interactive: false,
            key: None,
            labels: facts.labels.clone(),
            ledger: ledger.clone(),
            not_before: facts.not_before,
            parent: facts.parent.clone(),
            priority: facts.priority,
            queue: facts.queue.clone(),
        };
        let genesis = Projection {
            seq: Seq(0),
            hash: genesis_hash(ledger, id),
            status: Status::Ready,
            wake: Wake::default(),
            closed: false,
        };
        let before = Self { id: id.clone(), row: genesis, at };
        let run = RunId::new(format!("run-of-{id}")).expect("a task id has no white space");
        let (events, row) = before.continued(at, Epoch(0), &run, vec![created.into()]);
        let task = NewTask { id: id.clone(), events, blobs: Vec::new(), row: row.clone(), facts, key: None };
        (Self { id: id.clone(), row, at }, task)
    }

    /// The batch by which `claimed` appends these payloads; nothing is consumed, delivered or
    /// created, and everything up to the claim's own inbox tail counts as seen.
    pub fn batch(&self, claimed: &Claimed, payloads: Vec<Payload>) -> Batch {
        let at = self.at.max(claimed.verdict.now);
        let (events, row) = self.continued(at, claimed.claim.epoch, &claimed.claim.run, payloads);
        Batch {
            task: self.id.clone(),
            after: self.row.seq,
            after_hash: self.row.hash,
            events,
            blobs: Vec::new(),
            row,
            consumed: Vec::new(),
            seen: claimed.verdict.inbox_tail,
            deliveries: Vec::new(),
            children: Vec::new(),
            claim: ClaimAfter::ByStatus,
        }
    }

    /// A batch of one [`note`].
    pub fn noting(&self, claimed: &Claimed, text: &str) -> Batch {
        self.batch(claimed, vec![note(text)])
    }

    /// A batch that suspends the task.
    pub fn suspending(&self, claimed: &Claimed, wake: Wake) -> Batch {
        let suspended = TaskSuspended { answer: None, failure: None, reason: SuspendReason::Calls, wake };
        self.batch(claimed, vec![suspended.into()])
    }

    /// A batch that wakes the task.
    pub fn waking(&self, claimed: &Claimed) -> Batch {
        let item = Woken { data: None, due: None, key: None, kind: "message".into(), position: None };
        self.batch(claimed, vec![TaskWoken { item }.into()])
    }

    /// A batch that completes the task.
    pub fn completing(&self, claimed: &Claimed) -> Batch {
        self.batch(claimed, vec![TaskCompleted { answer: Body::Inline("done".into()) }.into()])
    }

    /// A batch that rewinds the task to its first event.
    pub fn rewinding(&self, claimed: &Claimed) -> Batch {
        self.batch(claimed, vec![TaskRewound { to_seq: Seq(1) }.into()])
    }

    /// Takes note that `batch` was written.
    pub fn accept(&mut self, batch: &Batch) {
        self.row = batch.row.clone();
    }

    fn continued(
        &self,
        at: Timestamp,
        epoch: Epoch,
        run: &RunId,
        payloads: Vec<Payload>,
    ) -> (Vec<SealedEvent>, Projection) {
        let mut row = self.row.clone();
        let mut events = Vec::with_capacity(payloads.len());
        let mut more = payloads.len() as u32;
        for payload in payloads {
            more -= 1;
            follow(&mut row, &payload);
            let event = self.envelope((row.seq.next(), row.hash), at, (epoch, run), more, payload);
            let sealed = event.seal().expect("payloads of the suite are small");
            (row.seq, row.hash) = (sealed.seq, sealed.hash);
            events.push(sealed);
        }
        (events, row)
    }

    fn envelope(
        &self,
        (seq, prev): (Seq, Hash),
        at: Timestamp,
        (epoch, run): (Epoch, &RunId),
        more: u32,
        payload: Payload,
    ) -> Envelope {
        Envelope {
            task: self.id.clone(),
            seq,
            actor: "engine".into(),
            origin: Origin::Engine,
            at,
            epoch,
            run: run.clone(),
            links: Links::default(),
            more,
            trace: None,
            metrics: BTreeMap::new(),
            prev,
            payload,
        }
    }
}

/// Status and wake after an event, as the fold has it.
fn follow(row: &mut Projection, payload: &Payload) {
    match payload {
        Payload::TaskSuspended(suspended) => {
            (row.status, row.wake) = (Status::Waiting, suspended.wake.clone());
        }
        Payload::TaskWoken(_) => (row.status, row.wake) = (Status::Ready, Wake::default()),
        Payload::TaskRewound(_) => (row.status, row.wake) = (Status::Waiting, Wake::default()),
        Payload::TaskCompleted(_) => (row.status, row.wake) = (Status::Completed, Wake::default()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use plica_kernel::decode::decode;
    use plica_kernel::id::Position;
    use plica_kernel::state::Task;
    use plica_kernel::wake::WakeKey;
    use plica_ports::store::{Claim, Token, Verdict};

    use super::*;

    fn claimed(log: &Log) -> Claimed {
        let run = RunId::new("a-run").expect("an id");
        Claimed {
            claim: Claim { task: log.id.clone(), epoch: Epoch(1), run, token: Token([0; 32]) },
            seq: log.row.seq,
            hash: log.row.hash,
            items: Vec::new(),
            verdict: Verdict { now: Timestamp::from_micros(9), inbox_tail: Position(0) },
            lease_until: Timestamp::from_micros(99),
        }
    }

    /// FO-4: the suite's logs are such as the kernel folds, to the rows that come with them.
    #[test]
    fn fo_4_logs_made_by_hand_fold_to_their_rows() {
        let (ledger, id) = (LedgerId::new("a-ledger").expect("an id"), TaskId::new("a-task").expect("an id"));
        let (mut log, created) = Log::begin(&ledger, &id, opening_facts(Timestamp::from_micros(1)));
        let first = &created.events[0];
        let first_event = decode(&first.body, &first.hash).expect("it decodes");
        let mut task = Task::begin(&first_event, first.hash, None).expect("it begins a task");
        let makes: [fn(&Log, &Claimed) -> Batch; 4] = [
            |log, claimed| log.batch(claimed, vec![note("one"), note("two")]),
            |log, claimed| log.suspending(claimed, Wake::on(WakeKey::Background)),
            Log::waking,
            Log::completing,
        ];
        for make in makes {
            let batch = make(&log, &claimed(&log));
            for sealed in &batch.events {
                let event = decode(&sealed.body, &sealed.hash).expect("it decodes");
                task.apply(&event, sealed.hash).expect("it follows");
            }
            log.accept(&batch);
            assert_eq!(task.projection(), log.row);
        }
    }
}
