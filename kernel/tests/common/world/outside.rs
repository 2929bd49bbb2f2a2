//! What happens to a walk from outside: people, models, tools, children, jobs and crashes, as the
//! choices say.

use plica_kernel::body::{Body, ContentRef, MEDIA_DEFINITION};
use plica_kernel::decide::{
    AfterCrash, Answer, Aside, CallOutcome, CallPlan, ChangedFile, Draft, Foreseen, Orphan, PluginRecord, Prepared,
    Refusal, Spawn, refusal, reply,
};
use plica_kernel::event::{
    ApprovalVerdict, Budget, CallResolution, CallStatus, FileWas, JobEnd, PlannedFile, RestorePlan, Spent,
    SubtaskStatus, TaskCreated, TaskStatePatch,
};
use plica_kernel::id::{CallId, Position, Seq};
use plica_kernel::limits::CALLS_MAX;
use plica_kernel::message::Block;
use plica_kernel::wake::Item;

use super::{World, created};
use crate::common::fold_at;
use crate::common::scene::replied;

impl World {
    pub(super) fn happen(&mut self) {
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
    pub(super) fn children_end(&mut self, percent: usize) -> bool {
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
    pub(super) fn jobs_end(&mut self, percent: usize) -> bool {
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
    pub(super) fn rule_on_budget(&mut self) -> bool {
        let Some((call, _)) = self.task.governance().budget_approval() else { return false };
        if !self.calm && !self.choices.chance(self.habits.rule) {
            return false;
        }
        let approve = !self.calm && self.choices.chance(70);
        let verdict = if approve { ApprovalVerdict::Approve } else { ApprovalVerdict::Deny };
        self.deliver(Item::Verdict { call, reason: None, verdict });
        true
    }

    pub(super) fn lost(&mut self) -> bool {
        let lost = !self.calm && self.choices.chance(self.habits.crash);
        if lost {
            self.crash();
        }
        lost
    }

    pub(super) fn orphan(&mut self, call: CallId) -> Orphan {
        match self.choices.below(3) {
            0 => Orphan::Found(self.outcome(call)),
            1 => Orphan::RetrySafe,
            _ => Orphan::Lost,
        }
    }

    pub(super) fn after_crash(&mut self) -> AfterCrash {
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
    pub(super) fn prepare(&mut self, position: Position) -> Result<Prepared, String> {
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
    pub(super) fn text(&mut self, what: &str) -> String {
        self.texts += 1;
        let fill = if self.choices.chance(self.habits.long) { "é\n\"".repeat(400) } else { String::new() };
        format!("{what} {}{fill}", self.texts)
    }

    pub(super) fn ask(&mut self, draft: &mut Draft, action: Seq) {
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
        let extra = self.choices.chance(10).then(|| "{\"odd\": 1.50}".to_string());
        Answer { extra, patch, truncated, ..replied(blocks, calls) }
    }

    fn spawn(&mut self) -> CallPlan {
        let own = self.choices.chance(30).then(|| 1 + self.choices.below(20) as u64);
        let (background, any) = (self.choices.chance(30), self.choices.chance(20));
        let budget = Budget { steps: own, tokens: own, ..Budget::default() };
        let created = TaskCreated { background, ..created("child", budget, false) };
        CallPlan::Spawn(Box::new(Spawn { any, created, goal: self.text("goal") }))
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
