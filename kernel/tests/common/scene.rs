//! A scene: a task, what happens to it, and a text of all that is recorded. Where a walk is left
//! to chance, a scene says what comes next.

use std::fmt::Write as _;

use plica_kernel::body::{Blob, Body, MEDIA_SEGMENT, MEDIA_STATE};
use plica_kernel::canonical::to_vec;
use plica_kernel::decide::{
    Act, AfterCrash, Answer, Aside, CallOutcome, CallPlan, Draft, Drafted, Foreseen, Inputs, Orphan, Prepared, Refusal,
    Sent, Spawn, advance, call_outcome, refusal, reply, settle_orphans,
};
use plica_kernel::event::{
    ApprovalVerdict, Budget, CallResolution, CallStatus, EventType, JobEnd, PluginPin, RestorePlan, Spent,
    SubtaskStatus, TaskCreated, Usage,
};
use plica_kernel::id::{CallId, Position, Seq};
use plica_kernel::ledger::Identity;
use plica_kernel::message::Block;
use plica_kernel::state::Task;
use plica_kernel::wake::Item;
use serde_json::Value;

use super::log::verify_log;
use super::world::{World, composer, created, text_of};
use super::{Habits, fold_at};

/// JSON without the hashes that follow from how the kernel folds: those change with its sources,
/// and a scene only with what the kernel decides.
fn shown(json: &Value) -> String {
    fn hide(json: &mut Value) {
        match json {
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    match name.as_str() {
                        "fold" | "hash" | "source_hash" => *value = Value::from("…"),
                        "state_ref" => value["sha256"] = Value::from("…"),
                        _ => hide(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(hide),
            _ => {}
        }
    }
    let mut json = json.clone();
    hide(&mut json);
    json.to_string()
}

/// A task, and what was recorded of it so far.
pub struct Scene {
    pub world: World,
    /// What a worker sees beside the state and the inbox: changed before [`Scene::goes_on`].
    pub seen: Inputs,
    /// The plugins of this worker, where they are others than the world's.
    pub pins: Option<Vec<PluginPin>>,
    /// What comes next, by the last look.
    pub act: Act,
    /// The children that were born, as they were born.
    pub children: Vec<Drafted>,
    /// What was sent to other tasks.
    pub sent: Vec<Sent>,
    text: String,
}

/// A task that is worked on until the model is to be asked.
pub fn scene(interactive: bool, budget: Budget) -> Scene {
    let quiet = Habits { interactive, budget, compare: 1, ..Habits::rounds() };
    let mut scene = Scene::in_world(World::born(0, quiet));
    let born = scene.world.log.appends[0].clone();
    scene.write_events(&born);
    scene.goes_on();
    scene
}

/// A task that was just born so, a child or a fork of `ancestor`; nobody has worked on it yet.
pub fn scene_of(drafted: Drafted, ancestor: Option<&Task>) -> Scene {
    let quiet = Habits { compare: 1, ..Habits::rounds() };
    let mut scene = Scene::in_world(World::begun(0, quiet, drafted.clone(), ancestor));
    scene.write_drafted(&drafted);
    scene
}

/// A call of the reply that decision `decision` is about.
pub fn call(decision: Seq, index: u32) -> CallId {
    CallId { decision, index }
}

/// A call that runs at once.
pub fn start(args: &str) -> CallPlan {
    let (foreseen, rule) = (Foreseen::default(), None);
    CallPlan::Start { args: args.into(), foreseen, rule, tool: "Tool".into() }
}

/// A call that someone rules on first.
pub fn ask(args: &str) -> CallPlan {
    CallPlan::Ask { args: args.into(), expires_ms: None, rule: Some("ask".into()), tool: "Tool".into() }
}

/// A call that waits.
pub fn wait(seconds: Option<u64>, event: Option<&str>) -> CallPlan {
    CallPlan::Wait { event: event.map(str::to_owned), seconds }
}

/// A call that spawns a child.
pub fn spawn(background: bool, any: bool, budget: Budget) -> CallPlan {
    let created = TaskCreated { background, ..created("child", budget, false) };
    CallPlan::Spawn(Box::new(Spawn { any, created, goal: "help".into() }))
}

/// A call that does not run.
pub fn deny(reason: &str) -> CallPlan {
    CallPlan::Deny { reason: reason.into(), tool: "Tool".into() }
}

/// A call that asks a person.
pub fn question(question: &str) -> CallPlan {
    CallPlan::Question(question.into())
}

/// A call that replaces the list of todos.
pub fn todo(todos: &str) -> CallPlan {
    CallPlan::Todo { todos: todos.into() }
}

/// How a call ended, with nothing beside it.
pub fn outcome(status: CallStatus, output: &str) -> CallOutcome {
    CallOutcome {
        aside: Aside::default(),
        blobs: vec![],
        elapsed_ms: 13,
        files: vec![],
        job: None,
        output: output.into(),
        status,
        whole: None,
    }
}

/// A reply that says this and comes to these calls.
pub fn answer(text: &str, calls: Vec<CallPlan>) -> Answer {
    let mut blocks: Vec<Block> = if text.is_empty() { vec![] } else { vec![Block::Text { text: text.into() }] };
    let uses =
        calls.iter().map(|plan| Block::ToolUse { args: args_of(plan), id: Some("id".into()), tool: tool_of(plan) });
    blocks.extend(uses);
    replied(blocks, calls)
}

/// A whole reply of these blocks and calls, with some of everything used.
pub fn replied(blocks: Vec<Block>, calls: Vec<CallPlan>) -> Answer {
    Answer {
        aside: Aside::default(),
        blocks,
        calls,
        cost_nano_usd: Some(7),
        elapsed_ms: 11,
        extra: None,
        patch: None,
        stop: "end".into(),
        truncated: false,
        usage: Usage { cache_read: 1, cache_write: 2, output: 3, reasoning: 1, uncached: 5 },
    }
}

fn args_of(plan: &CallPlan) -> String {
    match plan {
        CallPlan::Start { args, .. } | CallPlan::Ask { args, .. } => args.clone(),
        _ => "{}".into(),
    }
}

fn tool_of(plan: &CallPlan) -> String {
    match plan {
        CallPlan::Start { tool, .. } | CallPlan::Ask { tool, .. } | CallPlan::Deny { tool, .. } => tool.clone(),
        CallPlan::Question(_) => "AskUser".into(),
        CallPlan::Wait { .. } => "Wait".into(),
        CallPlan::Spawn(_) => "Task".into(),
        CallPlan::Todo { .. } => "TodoWrite".into(),
    }
}

impl Scene {
    fn in_world(world: World) -> Self {
        let seen = Inputs { items: vec![], ..world.inputs() };
        Self { world, seen, pins: None, act: Act::Rest, children: vec![], sent: vec![], text: String::new() }
    }

    /// Says in the text what happens now.
    pub fn note(&mut self, what: &str) -> &mut Self {
        writeln!(self.text, "\n# {what}").unwrap();
        self
    }

    /// Something is put into the inbox.
    pub fn deliver(&mut self, item: Item) -> &mut Self {
        let body = String::from_utf8(to_vec(&item).unwrap()).unwrap();
        self.world.deliver(item);
        let position = self.world.delivered.len();
        writeln!(self.text, "inbox {position}: {body}").unwrap();
        self
    }

    /// A person says something.
    pub fn say(&mut self, text: &str) -> &mut Self {
        self.deliver(Item::Message { text: text.into() })
    }

    /// Time passes.
    pub fn passes(&mut self, ms: u64) -> &mut Self {
        self.world.now = self.world.now.plus_millis(ms);
        writeln!(self.text, "{ms} ms pass").unwrap();
        self
    }

    /// The worker is gone, and another takes over.
    pub fn crash(&mut self) -> &mut Self {
        self.world.crash();
        self.text.push_str("another worker takes over\n");
        self
    }

    /// Records whatever needs no outside world, and sees what comes next.
    pub fn goes_on(&mut self) -> &mut Self {
        let draft = self.world.draft();
        self.goes_on_from(draft)
    }

    fn goes_on_from(&mut self, mut draft: Draft) -> &mut Self {
        let now = self.world.inputs();
        let pins = self.pins.clone().unwrap_or(now.pins);
        let mut inputs = Inputs { now: now.now, items: now.items, run: now.run, pins, ..self.seen.clone() };
        self.act = advance(&mut draft, &mut inputs, &composer()).unwrap();
        self.commit(draft);
        writeln!(self.text, "-> {:?}", self.act).unwrap();
        self
    }

    /// The model replies to the request that is open.
    pub fn reply(&mut self, answer: Answer) -> &mut Self {
        let Act::Ask(action) = self.act else { panic!("the model was not asked: {:?}", self.act) };
        let mut draft = self.world.draft();
        reply(&mut draft, action, answer).unwrap();
        self.goes_on_from(draft)
    }

    /// The model's reply says this and comes to these calls.
    pub fn replies(&mut self, text: &str, calls: Vec<CallPlan>) -> &mut Self {
        self.reply(answer(text, calls))
    }

    /// The request that is open fails, and is to be tried again after so many milliseconds.
    pub fn refuses(&mut self, retry_in: Option<u64>) -> &mut Self {
        let Act::Ask(action) = self.act else { panic!("the model was not asked: {:?}", self.act) };
        let retry_at = retry_in.map(|ms| self.world.now.plus_millis(ms));
        let failed = Refusal { elapsed_ms: 3, kind: "overloaded".into(), message: "busy".into(), retry_at };
        let mut draft = self.world.draft();
        refusal(&mut draft, action, failed).unwrap();
        self.goes_on_from(draft)
    }

    /// A call that runs ends.
    pub fn ends(&mut self, index: u32, outcome: CallOutcome) -> &mut Self {
        let Act::Run(running) = &self.act else { panic!("no call runs: {:?}", self.act) };
        let (_, action) = *running.iter().find(|(call, _)| call.index == index).expect("the call runs");
        let mut draft = self.world.draft();
        call_outcome(&mut draft, action, outcome).unwrap();
        self.goes_on_from(draft)
    }

    /// What a look at the outside says of each call that a former worker left open.
    pub fn settles(&mut self, found: &[Orphan], after: AfterCrash) -> &mut Self {
        let Act::Settle(calls) = &self.act else { panic!("no call is to be settled: {:?}", self.act) };
        assert_eq!(calls.len(), found.len());
        let orphans: Vec<_> = calls.iter().map(|(_, action)| *action).zip(found.iter().cloned()).collect();
        let mut draft = self.world.draft();
        settle_orphans(&mut draft, &orphans, &after).unwrap();
        self.goes_on_from(draft)
    }

    /// The step is run again from before it began.
    pub fn redriven(&self) -> AfterCrash {
        let plan = self.world.task.governance().plan.expect("a step is under way");
        AfterCrash::Redrive(Box::new(fold_at(&self.world.log, Seq(plan.0 - 1))))
    }

    /// What a rewind comes to is known.
    pub fn prepared(&mut self, position: Position, to: Seq, blobs: Vec<Blob>, plan: RestorePlan) -> &mut Self {
        let landing = Box::new(fold_at(&self.world.log, to));
        self.seen.rewinds.insert(position, Ok(Prepared { blobs, landing, plan }));
        self
    }

    /// The seq of the last event.
    pub fn head(&self) -> Seq {
        self.world.task.head().seq
    }

    /// The last decision.
    pub fn decision(&self) -> Seq {
        self.world.task.runtime().round.as_ref().expect("a round is open").decision
    }

    /// Records what this puts into an append, and goes on.
    pub fn records(&mut self, record: impl FnOnce(&mut Draft)) -> &mut Self {
        let mut draft = self.world.draft();
        record(&mut draft);
        self.goes_on_from(draft)
    }

    fn commit(&mut self, draft: Draft) {
        if draft.is_empty() {
            return;
        }
        let drafted = draft.finish().unwrap();
        let projection = drafted.task.projection();
        let wake = String::from_utf8(to_vec(&projection.wake).unwrap()).unwrap();
        self.write_drafted(&drafted);
        self.children.extend(drafted.children.iter().cloned());
        self.sent.extend(drafted.sent.iter().cloned());
        let closed = if projection.closed { ", closed" } else { "" };
        writeln!(self.text, "  row: {}{closed}, wake {wake}", projection.status).unwrap();
        self.world.committed(drafted, 0);
    }

    fn write_drafted(&mut self, drafted: &Drafted) {
        self.write_events(&drafted.events);
        for blob in drafted.blobs.iter().filter(|blob| ![MEDIA_STATE, MEDIA_SEGMENT].contains(&&*blob.reference.media))
        {
            let text = String::from_utf8_lossy(&blob.bytes);
            let shown: String = text.chars().take(400).collect();
            writeln!(self.text, "  content {}: {shown}", blob.reference.media).unwrap();
        }
        if !drafted.consumed.is_empty() {
            let taken: Vec<String> = drafted.consumed.iter().map(ToString::to_string).collect();
            writeln!(self.text, "  taken: {}", taken.join(" ")).unwrap();
        }
        for sent in &drafted.sent {
            let item = String::from_utf8(to_vec(&sent.item).unwrap()).unwrap();
            writeln!(self.text, "  to {} from {} as {}: {item}", sent.task, sent.actor, sent.dedup).unwrap();
        }
        for child in &drafted.children {
            writeln!(self.text, "  child {}:", child.task.id()).unwrap();
            self.write_drafted(child);
        }
    }

    fn write_events(&mut self, events: &[plica_kernel::envelope::SealedEvent]) {
        for event in events {
            let body: Value = serde_json::from_slice(&event.body).unwrap();
            let links: Vec<String> = ["parent", "decision", "action"]
                .iter()
                .filter_map(|link| Some(format!("{link} {} ", body.get(*link)?)))
                .collect();
            let payload = shown(&body["payload"]);
            let (kind, actor) = (body["type"].as_str().unwrap(), body["actor"].as_str().unwrap());
            writeln!(self.text, "{:>4} {kind} by {actor} {}{}", event.seq.0, links.concat(), payload).unwrap();
        }
    }

    /// The text of all that was recorded, and the state that it comes to. A verifier finds nothing
    /// wrong with the log.
    pub fn text(&self) -> String {
        if self.world.log.events().next().is_some_and(|first| first.kind != EventType::TaskForked) {
            assert_eq!(verify_log(&self.world.log).breaks, []);
        }
        let state: Value = serde_json::from_str(&text_of(&self.world.task)).unwrap();
        let slices = state.as_object().expect("a state is an object").iter();
        let slices: Vec<String> = slices.map(|(name, slice)| format!("{name}: {}", shown(slice))).collect();
        format!("{}\n# The state\n{}\n", self.text, slices.join("\n"))
    }

    /// What comes next is put into the inbox by someone else.
    pub fn deliver_as(&mut self, actor: &str, item: Item) -> &mut Self {
        self.deliver(item);
        let delivered = self.world.delivered.last_mut().expect("it was delivered");
        actor.clone_into(&mut delivered.actor);
        self
    }

    /// A person answers a question.
    pub fn answers(&mut self, call: CallId, text: &str) -> &mut Self {
        self.deliver(Item::Answer { call, text: text.into() })
    }

    /// A person rules on a call.
    pub fn rules(&mut self, call: CallId, verdict: ApprovalVerdict, reason: Option<&str>) -> &mut Self {
        self.deliver(Item::Verdict { call, reason: reason.map(str::to_owned), verdict })
    }

    /// A person says what became of a call whose outcome is unknown.
    pub fn resolves(&mut self, call: CallId, verdict: CallResolution, output: Option<&str>) -> &mut Self {
        self.deliver(Item::Resolve { call, output: output.map(str::to_owned), verdict })
    }

    /// An event comes from outside.
    pub fn happens(&mut self, event: &str, data: Option<&str>) -> &mut Self {
        self.deliver_as("user:ci", Item::Event { data: data.map(str::to_owned), event: event.into() })
    }

    /// The first child of a call says how it ended, and that it made two steps.
    pub fn child_ends(&mut self, call: CallId, background: bool, status: SubtaskStatus, answer: &str) -> &mut Self {
        let child = self.world.task.id().child(call, 1);
        let spent = Spent { nano_usd: 9, steps: 2, tokens: 20, wall_ms: 30 };
        let answer = Body::Inline(answer.into());
        let item = Item::Child { answer, background, call, child: child.clone(), failure: None, spent, status };
        self.deliver_as(&format!("task:{child}"), item)
    }

    /// The holder says how a job ended.
    pub fn job_ends(&mut self, job: Seq, how: JobEnd, code: Option<i32>, output: &str) -> &mut Self {
        self.deliver_as("tool:Tool", Item::Job { code, how, job, output: output.into() })
    }

    /// A worker that lost its claim says how the call that it began at `action` ended.
    pub fn reports(
        &mut self,
        (call, action): (CallId, Seq),
        identity: &Identity,
        said: (CallStatus, &str),
    ) -> &mut Self {
        let (identity, (status, output)) = (identity.clone(), (said.0, said.1.into()));
        self.deliver_as("tool:Tool", Item::Evidence { action, call, identity, output, status })
    }

    /// The identity under which the result of an open action counts.
    pub fn identity(&self, action: Seq) -> Identity {
        self.world.task.governance().action(action).expect("the action is open").identity.clone()
    }

    /// The seq of the start of a call that runs.
    pub fn begun(&self, call: CallId) -> Seq {
        self.world.task.governance().action_of(call).expect("the call runs").seq
    }

    /// The last decision, also when its round is over.
    pub fn last_decision(&self) -> Seq {
        self.world.task.governance().decision.expect("something was decided")
    }
}
