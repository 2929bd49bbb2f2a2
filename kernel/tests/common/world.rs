//! A random walk over the real decide functions: a worker, its claim, an inbox and an outside
//! world that does whatever the choices say.

mod outside;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plica_kernel::body::{ContentRef, MEDIA_DEFINITION};
use plica_kernel::decide::{
    Act, Answer, Aside, Birth, CallPlan, Composer, Draft, Drafted, Inputs, Orphan, Prepared, Revision, Spawn, Stamp,
    advance, born, call_outcome, reply, restored, revise, settle_orphans,
};
use plica_kernel::decode::decode;
use plica_kernel::event::{Budget, LeftFile, PluginKind, PluginPin, TaskCreated, Usage};
use plica_kernel::id::{CallId, DedupKey, Epoch, LedgerId, Position, Queue, RunId, Seq, TaskId};
use plica_kernel::message::Block;
use plica_kernel::state::Task;
use plica_kernel::state::fold::landing_of;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};

use super::{Choices, Habits, Log, fold, fold_at, fold_with};

/// A task, its worker and everything around them.
#[derive(Clone)]
pub struct World {
    pub log: Log,
    pub task: Task,
    /// The same state, folded from stored bytes event by event.
    replica: Task,
    /// All that was delivered, and how much of it before each append.
    pub delivered: Vec<InboxItem>,
    pub taken: Vec<Vec<Position>>,
    /// The calls whose children have said how they ended.
    ended: BTreeSet<CallId>,
    /// The background jobs whose ends were delivered.
    jobs_ended: BTreeSet<Seq>,
    seen: Vec<usize>,
    /// Heads of appends at which no turn was under way.
    pub boundaries: Vec<Seq>,
    /// What rewinds come to that were prepared.
    rewinds: BTreeMap<Position, Result<Prepared, String>>,
    pub now: Timestamp,
    run: RunId,
    epoch: Epoch,
    pub choices: Choices,
    pub habits: Habits,
    /// Nothing bad happens any more, and the model comes to an end.
    calm: bool,
    pub texts: usize,
    revisions: usize,
}

/// What is worth reading of a walk that broke a law: the types of its events, append by append.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.habits)?;
        for append in &self.log.appends {
            let kinds: Vec<&str> = append.iter().map(|event| event.kind.name()).collect();
            writeln!(f, "{}: {}", append[0].seq, kinds.join(" "))?;
        }
        Ok(())
    }
}

pub fn ledger() -> LedgerId {
    LedgerId::new("0197a000-0000-7000-8000-00000000000a").unwrap()
}

pub fn created(agent: &str, budget: Budget, interactive: bool) -> TaskCreated {
    TaskCreated {
        background: false,
        agent: agent.into(),
        budget,
        call: None,
        definition: ContentRef::of(MEDIA_DEFINITION, b"{}"),
        depth: 0,
        goal: Default::default(),
        interactive,
        key: None,
        labels: Default::default(),
        ledger: ledger(),
        not_before: None,
        parent: None,
        priority: 2,
        queue: Queue::main(),
    }
}

fn plain(blocks: Vec<Block>, calls: Vec<CallPlan>) -> Answer {
    Answer {
        aside: Aside::default(),
        blocks,
        calls,
        cost_nano_usd: None,
        elapsed_ms: 1,
        extra: None,
        patch: None,
        stop: "end".into(),
        truncated: false,
        usage: Usage::default(),
    }
}

pub fn composer() -> Composer {
    Composer { version: "plain.v1".into(), model: "script:walk".into() }
}

impl World {
    pub fn born(seed: u64, habits: Habits) -> Self {
        let created = created("walker", habits.budget, habits.interactive);
        let id = TaskId::new("0197a000-0000-7000-8000-000000000001").unwrap();
        let now = Timestamp::from_micros(1_796_031_682_123_456);
        let run = RunId::new("birth").unwrap();
        let birth = Birth { id, actor: "user:ada".into(), goal: "walk".into(), created, blobs: vec![] };
        let drafted = born(birth, Stamp { now, epoch: Epoch(0), run }).unwrap();
        Self::begun(seed, habits, drafted, None)
    }

    /// A task that was born so, a fork of `ancestor` if there is one, with a worker.
    pub fn begun(seed: u64, habits: Habits, drafted: Drafted, ancestor: Option<&Task>) -> Self {
        let first = &drafted.events[0];
        let envelope = decode(&first.body, &first.hash).unwrap();
        let replica = Task::begin(&envelope, first.hash, ancestor).unwrap();
        let (now, run) = (envelope.at, envelope.run);
        let mut world = Self {
            log: Log::default(),
            task: drafted.task.clone(),
            replica,
            delivered: vec![],
            taken: vec![],
            ended: BTreeSet::new(),
            jobs_ended: BTreeSet::new(),
            seen: vec![],
            boundaries: vec![],
            rewinds: BTreeMap::new(),
            now,
            run,
            epoch: Epoch(0),
            choices: Choices::new(seed),
            habits,
            calm: false,
            texts: 0,
            revisions: 0,
        };
        world.committed(drafted, 1);
        world.claim();
        world
    }

    /// A walk of at most `steps` steps.
    pub fn walk(seed: u64, steps: usize, habits: Habits) -> Self {
        let mut world = Self::born(seed, habits);
        for _ in 0..steps {
            if !world.step() {
                break;
            }
        }
        world
    }

    /// Another claimant takes over.
    pub fn claim(&mut self) {
        self.epoch = self.epoch.next();
        self.run = RunId::new(format!("run-{}", self.epoch)).unwrap();
    }

    /// The worker is gone; the next one knows what the log and the content store hold.
    pub fn crash(&mut self) {
        self.claim();
        self.task = if self.choices.chance(50) {
            fold(&self.log)
        } else {
            fold_with(&self.log, |hash| self.log.blobs.get(hash).cloned())
        };
    }

    /// What another claimant finds after the first `appends` appends.
    pub fn prefix(&self, appends: usize) -> Self {
        let log = self.log.prefix(appends);
        let task = fold(&log);
        let mut world = Self {
            replica: task.clone(),
            task,
            log,
            delivered: self.delivered[..self.seen[appends - 1]].to_vec(),
            rewinds: BTreeMap::new(),
            taken: self.taken[..appends].to_vec(),
            seen: self.seen[..appends].to_vec(),
            ..self.clone()
        };
        let call_of = |item: &InboxItem| match item.item {
            Item::Child { call, .. } => Some(call),
            _ => None,
        };
        world.ended = world.delivered.iter().filter_map(call_of).collect();
        let job_of = |item: &InboxItem| match item.item {
            Item::Job { job, .. } => Some(job),
            _ => None,
        };
        world.jobs_ended = world.delivered.iter().filter_map(job_of).collect();
        world.claim();
        world
    }

    pub fn deliver(&mut self, item: Item) {
        let position = Position(self.delivered.len() as u64 + 1);
        self.delivered.push(InboxItem {
            at: self.now,
            actor: "user:ada".into(),
            dedup: DedupKey::new(format!("key-{position}")).unwrap(),
            item,
            position,
        });
    }

    pub fn say(&mut self) {
        let text = self.text("said");
        self.deliver(Item::Message { text });
    }

    pub fn untaken(&self) -> Vec<InboxItem> {
        let taken: Vec<Position> = self.taken.iter().flatten().copied().collect();
        self.delivered.iter().filter(|item| !taken.contains(&item.position)).cloned().collect()
    }

    pub fn inputs(&self) -> Inputs {
        let (items, run) = (self.untaken(), self.run.clone());
        Inputs {
            now: self.now,
            items,
            run,
            pins: self.pins(),
            foreseen: Default::default(),
            spawns: Default::default(),
            rewinds: self.rewinds.clone(),
            stopping: false,
            unusable: None,
        }
    }

    /// Every other worker has another version of the tool.
    fn pins(&self) -> Vec<PluginPin> {
        vec![PluginPin {
            kind: PluginKind::Tool,
            name: "Tool".into(),
            parameters: None,
            source: "host".into(),
            version: (self.epoch.0 / 2).to_string(),
        }]
    }

    pub fn draft(&self) -> Draft {
        Draft::new(self.task.clone(), Stamp { now: self.now, epoch: self.epoch, run: self.run.clone() })
    }

    /// Commits, unless there is nothing to commit.
    pub fn commit(&mut self, draft: Draft) {
        if draft.is_empty() {
            return;
        }
        let drafted = draft.finish().unwrap();
        self.committed(drafted, 0);
    }

    /// FO-2: the state in hand equals the folded one, byte for byte, after every append.
    pub fn committed(&mut self, drafted: Drafted, folded: usize) {
        for event in &drafted.events[folded..] {
            let envelope = decode(&event.body, &event.hash).unwrap();
            match landing_of(&envelope) {
                None => self.replica.apply(&envelope, event.hash).unwrap(),
                Some(seq) => {
                    let landing = fold_at(&self.log, seq);
                    self.replica.apply_landing(&envelope, event.hash, &landing).unwrap();
                }
            }
        }
        self.log.keep(drafted.blobs);
        self.log.appends.push(drafted.events);
        self.taken.push(drafted.consumed);
        self.seen.push(self.delivered.len());
        self.task = drafted.task;
        if self.task.is_turn_boundary() {
            self.boundaries.push(self.task.head().seq);
        }
        if !self.log.appends.len().is_multiple_of(self.habits.compare) {
            return;
        }
        assert_eq!(
            text_of(&self.task),
            text_of(&self.replica),
            "FO-2: live and folded state differ after event {}",
            self.task.head().seq
        );
    }

    /// Goes on until the outside world has something to do, and lets it do that. False when
    /// nothing more can happen.
    pub fn step(&mut self) -> bool {
        self.happen();
        let mut inputs = self.inputs();
        let mut draft = self.draft();
        loop {
            let act = advance(&mut draft, &mut inputs, &composer()).unwrap();
            match act {
                Act::Ask(action) => {
                    self.commit(draft);
                    if self.lost() {
                        return true;
                    }
                    draft = self.draft();
                    self.ask(&mut draft, action);
                }
                Act::Run(calls) => {
                    self.commit(draft);
                    if self.lost() {
                        return true;
                    }
                    let (call, action) = *self.choices.pick(&calls);
                    let outcome = self.outcome(call);
                    draft = self.draft();
                    call_outcome(&mut draft, action, outcome).unwrap();
                }
                Act::Settle(calls) => {
                    let orphans: Vec<(Seq, Orphan)> =
                        calls.into_iter().map(|(call, action)| (action, self.orphan(call))).collect();
                    // A step is redriven from the log, as an engine does it.
                    self.commit(draft);
                    draft = self.draft();
                    let after = self.after_crash();
                    settle_orphans(&mut draft, &orphans, &after).unwrap();
                }
                Act::Prepare(position) => {
                    self.commit(draft);
                    if self.lost() {
                        return true;
                    }
                    draft = self.draft();
                    let prepared = self.prepare(position);
                    self.rewinds.insert(position, prepared);
                    inputs.rewinds.clone_from(&self.rewinds);
                }
                Act::Restore(_) => {
                    self.commit(draft);
                    if self.lost() {
                        return true;
                    }
                    draft = self.draft();
                    let left = LeftFile { path: "a.txt".into(), why: self.text("changed") };
                    let left = if self.choices.chance(50) { vec![left] } else { vec![] };
                    restored(&mut draft, 1, &left).unwrap();
                }
                Act::Revise(position) => {
                    let checked = match self.choices.below(3) {
                        0 => Err("not this one".to_string()),
                        _ => Ok(Revision {
                            agent: "reviser".into(),
                            budget: self.habits.budget,
                            interactive: self.choices.chance(50),
                        }),
                    };
                    revise(&mut draft, position, &inputs.items, checked).unwrap();
                }
                Act::WaitUntil(due) => {
                    self.commit(draft);
                    self.now = self.now.max(due);
                    return true;
                }
                Act::Rest => {
                    self.commit(draft);
                    let moved = self.children_end(100) || self.jobs_end(100) || self.rule_on_budget();
                    if !moved && !self.calm {
                        self.say();
                    }
                    return moved || !self.calm;
                }
                Act::Over => {
                    self.commit(draft);
                    return false;
                }
                Act::HandBack => panic!("only a stopping worker hands back"),
            }
            if self.choices.chance(50) {
                self.commit(draft);
                return true;
            }
            // What comes next goes into the same append.
        }
    }

    /// Comes to an end without any more mishaps, or panics.
    pub fn finish(&mut self) {
        self.calm = true;
        for _ in 0..200 {
            if !self.step() {
                if self.task.status().is_over() {
                    return;
                }
                self.deliver(Item::Cancel { reason: None });
            }
        }
        panic!("no end in sight: {}", text_of(&self.task));
    }

    /// Asks the model, if it is to be asked, and is answered with one text.
    pub fn finish_turn(&mut self) {
        let Act::Ask(action) = self.advance() else { return };
        let blocks = vec![Block::Text { text: "done".into() }];
        let mut draft = self.draft();
        reply(&mut draft, action, plain(blocks, vec![])).unwrap();
        self.commit(draft);
    }

    /// Asks the model, whose reply spawns a child a cap of steps.
    pub fn delegate(&mut self, steps: &[Option<u64>]) {
        let action = self.advance();
        let spawns = steps.iter().map(|steps| {
            let budget = Budget { steps: *steps, ..Budget::default() };
            let created = created("child", budget, false);
            CallPlan::Spawn(Box::new(Spawn { any: false, created, goal: "goal".into() }))
        });
        let tool_use = Block::ToolUse { args: "{}".into(), id: None, tool: "Task".into() };
        let answer = plain(vec![tool_use; steps.len()], spawns.collect());
        let Act::Ask(action) = action else { panic!("{action:?}") };
        let mut draft = self.draft();
        reply(&mut draft, action, answer).unwrap();
        self.commit(draft);
    }

    /// Records whatever needs no outside world.
    pub fn advance(&mut self) -> Act {
        let mut draft = self.draft();
        let act = advance(&mut draft, &mut self.inputs(), &composer()).unwrap();
        self.commit(draft);
        act
    }
}

/// A state as text, for messages that can be read.
pub fn text_of(task: &Task) -> String {
    String::from_utf8(task.to_bytes().unwrap()).unwrap()
}
