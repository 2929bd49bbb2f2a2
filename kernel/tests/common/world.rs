//! A random walk over the real decide functions: a worker, its claim, an inbox and an outside
//! world that does whatever the choices say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plica_kernel::body::{Body, ContentRef, MEDIA_DEFINITION};
use plica_kernel::decide::{
    Act, AfterCrash, Answer, Aside, Birth, CallOutcome, CallPlan, ChangedFile, Composer, Draft, Drafted, Foreseen,
    Inputs, Orphan, PluginRecord, Prepared, Refusal, Revision, Spawn, Stamp, advance, born, call_outcome, refusal,
    reply, restored, revise, settle_orphans,
};
use plica_kernel::decode::decode;
use plica_kernel::event::{
    ApprovalVerdict, Budget, CallResolution, CallStatus, FileWas, JobEnd, LeftFile, PlannedFile, PluginKind, PluginPin,
    RestorePlan, Spent, SubtaskStatus, TaskCreated, TaskStatePatch, Usage,
};
use plica_kernel::id::{CallId, DedupKey, Epoch, LedgerId, Position, Queue, RunId, Seq, TaskId};
use plica_kernel::limits::CALLS_MAX;
use plica_kernel::message::Block;
use plica_kernel::state::Task;
use plica_kernel::state::fold::landing_of;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};

use super::{Choices, Log, fold, fold_at, fold_with};

/// How a walk goes: percentages, and what the task may spend.
#[derive(Debug, Clone)]
pub struct Habits {
    pub interactive: bool,
    pub budget: Budget,
    pub crash: usize,
    pub message: usize,
    pub cancel: usize,
    /// People who want to go back.
    pub rewind: usize,
    /// Broken attempts that are redriven or parked.
    pub seal: usize,
    /// Requests that fail.
    pub refusal: usize,
    /// Replies that ask for calls.
    pub calls: usize,
    /// Texts that do not fit inline.
    pub long: usize,
    /// Replies that are truncated or empty.
    pub odd: usize,
    /// Orders to move to another definition.
    pub revise: usize,
    /// Calls that spawn a child.
    pub spawn: usize,
    /// Calls that leave a background job running.
    pub job: usize,
    /// Waits for more budget that someone rules on.
    pub rule: usize,
    /// Appends after which live and folded state are compared: one test affords all of them.
    pub compare: usize,
}

impl Habits {
    /// Everything happens.
    pub fn wild(interactive: bool, budget: Budget) -> Self {
        Self {
            interactive,
            budget,
            crash: 12,
            message: 10,
            cancel: 1,
            rewind: 4,
            seal: 40,
            refusal: 15,
            calls: 60,
            long: 10,
            odd: 10,
            revise: 4,
            spawn: 0,
            job: 10,
            rule: 90,
            compare: 10,
        }
    }

    /// Everything happens, and children are spawned who spend what they were given.
    pub fn families(interactive: bool, budget: Budget) -> Self {
        Self { spawn: 40, ..Self::wild(interactive, budget) }
    }

    /// Only tool rounds, as many as there is time for.
    pub fn rounds() -> Self {
        Self {
            interactive: false,
            budget: Budget::default(),
            crash: 4,
            message: 4,
            cancel: 0,
            rewind: 0,
            seal: 0,
            refusal: 0,
            calls: 100,
            long: 2,
            odd: 0,
            revise: 0,
            spawn: 0,
            job: 0,
            rule: 0,
            compare: 40,
        }
    }
}

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

    fn happen(&mut self) {
        self.now = self.now.plus_millis(self.choices.below(2_000) as u64);
        if self.calm {
            return;
        }
        if self.choices.chance(self.habits.message) {
            self.say();
        }
        if self.choices.chance(self.habits.rewind) {
            let anywhere = Seq(self.choices.below(self.task.head().seq.0 as usize + 3) as u64);
            let to_seq = match self.boundaries.len() {
                0 => anywhere,
                many if self.choices.chance(80) => self.boundaries[self.choices.below(many)],
                _ => anywhere,
            };
            self.deliver(Item::Rewind { to_seq });
        }
        self.children_end(20);
        self.jobs_end(20);
        if let Some(unknown) = self.task.runtime().unknown.last().map(|unknown| unknown.call)
            && self.choices.chance(self.habits.message)
        {
            let verdict =
                *self.choices.pick(&[CallResolution::Landed, CallResolution::NotLanded, CallResolution::Skip]);
            let output = (verdict == CallResolution::Landed).then(|| self.text("landed"));
            self.deliver(Item::Resolve { call: unknown, output, verdict });
        }
        if self.choices.chance(self.habits.revise) {
            self.revisions += 1;
            let definition = ContentRef::of(MEDIA_DEFINITION, format!("{{}}{}", self.revisions).as_bytes());
            self.deliver(Item::Revise { definition });
        }
        if self.choices.chance(self.habits.cancel) {
            let reason = self.choices.chance(50).then(|| "enough".to_string());
            self.deliver(Item::Cancel { reason });
        }
        self.lost();
    }

    /// Some children that have not said so yet end; a child spends its slice at most.
    fn children_end(&mut self, percent: usize) -> bool {
        let governance = self.task.governance();
        let open = governance.children().map(|(_, child)| (child.call, child.background, child.budget));
        let stopped = governance.stopped.iter().map(|(call, slice)| (*call, false, *slice));
        let children: Vec<_> = open.chain(stopped).collect();
        let mut ended = false;
        for (call, background, slice) in children {
            if self.ended.contains(&call) || !self.choices.chance(percent) {
                continue;
            }
            let mut spend = |most: Option<u64>| self.choices.below(most.unwrap_or(5) as usize + 1) as u64;
            let spent = Spent {
                nano_usd: spend(slice.nano_usd),
                steps: spend(slice.steps),
                tokens: spend(slice.tokens),
                wall_ms: spend(slice.wall_ms),
            };
            let status = *self.choices.pick(&[SubtaskStatus::Completed, SubtaskStatus::Failed]);
            let answer = Body::Inline(self.text("child"));
            let child = self.task.id().child(call, 1);
            self.deliver(Item::Child { answer, background, call, child, failure: None, spent, status });
            self.ended.insert(call);
            ended = true;
        }
        ended
    }

    /// Some of the jobs that this worker runs end, and it says so to the task.
    fn jobs_end(&mut self, percent: usize) -> bool {
        let open = self.task.governance().open_jobs().filter(|(action, _)| action.identity.run == self.run);
        let jobs: Vec<Seq> = open.map(|(action, _)| action.seq).collect();
        let mut ended = false;
        for job in jobs {
            if !self.choices.chance(percent) || !self.jobs_ended.insert(job) {
                continue;
            }
            let how = *self.choices.pick(&[JobEnd::Exited, JobEnd::Killed]);
            let code = (how == JobEnd::Exited).then(|| self.choices.below(3) as i32 - 1);
            let output = self.text("job");
            self.deliver(Item::Job { code, how, job, output });
            ended = true;
        }
        ended
    }

    /// Someone rules on more budget, if that is asked for.
    fn rule_on_budget(&mut self) -> bool {
        let Some((call, _)) = self.task.governance().budget_approval() else { return false };
        if !self.calm && !self.choices.chance(self.habits.rule) {
            return false;
        }
        let approve = !self.calm && self.choices.chance(70);
        let verdict = if approve { ApprovalVerdict::Approve } else { ApprovalVerdict::Deny };
        self.deliver(Item::Verdict { call, reason: None, verdict });
        true
    }

    fn lost(&mut self) -> bool {
        let lost = !self.calm && self.choices.chance(self.habits.crash);
        if lost {
            self.crash();
        }
        lost
    }

    fn orphan(&mut self, call: CallId) -> Orphan {
        match self.choices.below(3) {
            0 => Orphan::Found(self.outcome(call)),
            1 => Orphan::RetrySafe,
            _ => Orphan::Lost,
        }
    }

    fn after_crash(&mut self) -> AfterCrash {
        if self.calm || !self.choices.chance(self.habits.seal) {
            return AfterCrash::Resolve;
        }
        let plan = self.task.governance().plan.unwrap();
        if self.choices.chance(30) {
            AfterCrash::Park
        } else {
            AfterCrash::Redrive(Box::new(fold_at(&self.log, Seq(plan.0 - 1))))
        }
    }

    /// What a rewind comes to: where it lands, and a file that was changed since.
    fn prepare(&mut self, position: Position) -> Result<Prepared, String> {
        let item = self.untaken().into_iter().find(|item| item.position == position).unwrap();
        let Item::Rewind { to_seq } = item.item else { panic!("a rewind") };
        if to_seq.0 == 0 || to_seq > self.task.head().seq {
            return Err("there is no such event".into());
        }
        let landing = fold_at(&self.log, to_seq);
        if !landing.is_turn_boundary() {
            return Err("a turn is under way there".into());
        }
        let file = PlannedFile {
            after: FileWas::Absent,
            before: FileWas::Unknown,
            left: None,
            path: "a.txt".into(),
            workspace: "/w".into(),
        };
        let files = if self.choices.chance(50) { vec![file] } else { vec![] };
        Ok(Prepared { blobs: vec![], landing: Box::new(landing), plan: RestorePlan { files } })
    }

    /// A text that no other is equal to, sometimes too long to stay inline.
    fn text(&mut self, what: &str) -> String {
        self.texts += 1;
        let fill = if self.choices.chance(self.habits.long) { "é\n\"".repeat(400) } else { String::new() };
        format!("{what} {}{fill}", self.texts)
    }

    fn ask(&mut self, draft: &mut Draft, action: Seq) {
        if !self.calm && self.choices.chance(self.habits.refusal) {
            let due = self.now.plus_millis(self.choices.below(3_000) as u64);
            let failed = Refusal {
                elapsed_ms: 3,
                kind: "overloaded".into(),
                message: self.text("busy"),
                retry_at: self.choices.chance(90).then_some(due),
            };
            return refusal(draft, action, failed).unwrap();
        }
        let answer = self.answer();
        reply(draft, action, answer).unwrap();
    }

    pub fn answer(&mut self) -> Answer {
        let asks = !self.calm && self.choices.chance(self.habits.calls);
        let count = match self.choices.below(50) {
            0 => CALLS_MAX + 2,
            many => 1 + many % 4,
        };
        let count = if asks { count } else { 0 };
        let odd = !asks && !self.calm && self.choices.chance(self.habits.odd);
        let truncated = odd && self.choices.chance(50);
        let mut blocks = vec![];
        if self.choices.chance(20) {
            blocks.push(Block::Thinking { signature: Some("sig".into()), text: self.text("thought") });
        }
        if !odd || truncated {
            blocks.push(Block::Text { text: self.text("reply") });
        }
        let mut calls = vec![];
        for index in 0..count {
            let args = format!("{{\"n\": {:?}}}", self.text("args"));
            blocks.push(Block::ToolUse { args: args.clone(), id: Some("same".into()), tool: "Tool".into() });
            if index < CALLS_MAX {
                calls.push(if self.choices.chance(self.habits.spawn) {
                    self.spawn()
                } else if self.choices.chance(25) {
                    CallPlan::Deny { reason: self.text("no"), tool: "Tool".into() }
                } else {
                    let foreseen = Foreseen { blobs: vec![], files: self.files() };
                    CallPlan::Start { args, foreseen, rule: Some("rule".into()), tool: "Tool".into() }
                });
            }
        }
        let patch = self.choices.chance(10).then(|| {
            let add_notes = vec![format!("note {}", self.texts)];
            ("react".to_string(), TaskStatePatch { add_notes, ..Default::default() })
        });
        Answer {
            aside: Aside::default(),
            blocks,
            calls,
            cost_nano_usd: Some(7),
            elapsed_ms: 11,
            extra: self.choices.chance(10).then(|| "{\"odd\": 1.50}".to_string()),
            patch,
            stop: "end".into(),
            truncated,
            usage: Usage { cache_read: 1, cache_write: 2, output: 3, reasoning: 1, uncached: 5 },
        }
    }

    fn spawn(&mut self) -> CallPlan {
        let own = self.choices.chance(30).then(|| 1 + self.choices.below(20) as u64);
        let (background, any) = (self.choices.chance(30), self.choices.chance(20));
        let budget = Budget { steps: own, tokens: own, ..Budget::default() };
        let created = TaskCreated { background, ..created("child", budget, false) };
        CallPlan::Spawn(Box::new(Spawn { any, created, goal: self.text("goal") }))
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

    pub fn outcome(&mut self, call: CallId) -> CallOutcome {
        let status = *self.choices.pick(&[CallStatus::Ok, CallStatus::Error, CallStatus::Unknown]);
        let output = self.text(&format!("result of {call}"));
        let records = if self.choices.chance(10) {
            vec![PluginRecord { plugin: "env".into(), kind: "progress".into(), body: self.text("seen") }]
        } else {
            vec![]
        };
        let files = self.files();
        let job = (status == CallStatus::Ok && self.choices.chance(self.habits.job)).then(|| self.text("sleep"));
        CallOutcome {
            aside: Aside { records, sent: vec![] },
            blobs: vec![],
            elapsed_ms: 13,
            files,
            job,
            output,
            status,
            whole: None,
        }
    }

    fn files(&mut self) -> Vec<ChangedFile> {
        let file = ChangedFile { after: None, before: FileWas::Absent, path: self.text("file") };
        vec![file; self.choices.below(8) / 3]
    }
}

/// A state as text, for messages that can be read.
pub fn text_of(task: &Task) -> String {
    String::from_utf8(task.to_bytes().unwrap()).unwrap()
}
