//! What may come where (FO-4): for each event, the places in a task's life where it may come next and
//! the rules by which it is refused in the others, as one text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plica_kernel::body::{Body, ContentRef, MEDIA_RESTORE};
use plica_kernel::canonical::{Hash, to_vec};
use plica_kernel::envelope::{Envelope, Origin};
use plica_kernel::event::*;
use plica_kernel::id::{CallId, Epoch, LedgerId, RunId, Seq, TaskId};
use plica_kernel::ledger::Identity;
use plica_kernel::state::fold::fold_version;
use plica_kernel::state::{ActionKind, Phase, Task};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{Wake, WakeKey, Woken};

use crate::common::hand::*;

fn ready() -> Hand {
    let mut hand = Hand::begin(true);
    hand.say("go");
    hand
}

fn planned() -> Hand {
    let mut hand = ready();
    hand.compose();
    hand
}

fn requested() -> (Hand, Seq) {
    let mut hand = planned();
    let request = hand.ask(hand.head(), 1);
    (hand, request)
}

fn ended(status: RequestStatus) -> Hand {
    let (mut hand, request) = requested();
    hand.answered(request, status);
    hand
}

fn replied() -> Hand {
    let mut hand = ended(RequestStatus::Ok);
    hand.push(MessagesAppended { jobs: vec![], messages: vec![message(Role::Assistant, None, &[tool_use()])] });
    hand
}

/// Two calls are decided on; the first is the one that the offered events are about.
fn decided() -> (Hand, CallId) {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use(), tool_use()]);
    (hand, call(decision, 0))
}

fn running() -> (Hand, CallId, Seq) {
    let (mut hand, first) = decided();
    let action = hand.start(first, 1);
    (hand, first, action)
}

fn ruled_on(verdict: Option<ApprovalVerdict>) -> Hand {
    let (mut hand, first) = decided();
    hand.push(asked(first));
    if let Some(verdict) = verdict {
        hand.push(ruled(first, verdict));
    }
    hand
}

fn asking() -> Hand {
    let (mut hand, first) = decided();
    hand.push(question(first));
    hand
}

fn waiting_for_an_answer() -> Hand {
    let mut hand = asking();
    let wake = Wake::on(WakeKey::Answer(hand.task().governance().decision.unwrap()));
    hand.push(TaskSuspended { reason: SuspendReason::Calls, wake, ..suspended(None) });
    hand
}

fn delegating(background: bool) -> Hand {
    let (mut hand, first) = decided();
    hand.caused(first.decision, SubtaskSpawned { background, ..spawned(first, 1) });
    hand
}

/// A job runs; the call that started it has ended, or not.
fn job(ends: bool) -> (Hand, Seq) {
    let (mut hand, first, action) = running();
    let started = BackgroundJobStarted { call: first, tool: "Tool".into(), what: "make".into() };
    let job = hand.caused(first.decision, started);
    if ends {
        hand.finish(action, first, CallStatus::Ok, "started");
    }
    (hand, job)
}

fn job_over() -> Hand {
    let (mut hand, job) = job(true);
    hand.caused(job, BackgroundJobEnded { code: Some(0), how: JobEnd::Exited, output: Body::default() });
    hand
}

fn finishing() -> Hand {
    let mut hand = ready();
    hand.reply(&[text("done")]);
    hand
}

fn rested() -> Hand {
    let mut hand = finishing();
    hand.rest();
    hand
}

fn woken() -> Hand {
    let mut hand = rested();
    hand.wake();
    hand
}

/// A call of unknown outcome is known of, and the next step is to be composed.
fn unknown() -> (Hand, CallId) {
    let mut hand = ready();
    let decision = hand.reply(&[tool_use()]);
    let first = call(decision, 0);
    let action = hand.start(first, 1);
    hand.finish(action, first, CallStatus::Unknown, "cut off");
    (hand, first)
}

fn to_run_again() -> (Hand, CallId, Seq) {
    let (mut hand, first) = unknown();
    let resolved = hand.push(CallResolved { call: first, output: None, verdict: CallResolution::NotLanded });
    (hand, first, resolved)
}

fn running_again() -> Hand {
    let (mut hand, first, resolved) = to_run_again();
    hand.caused(resolved, started(first, 2));
    hand
}

fn budget_asked(seq: Seq) -> ApprovalRequested {
    let args = Body::Inline("{\"steps\":1}".into());
    ApprovalRequested { args, subject: Some(ApprovalSubject::Budget), ..asked(call(seq, 0)) }
}

fn out_of_budget() -> Hand {
    let mut hand = ready();
    hand.push(budget_asked(hand.head().next()));
    hand
}

fn waiting_for_budget(mut hand: Hand) -> Hand {
    hand.push(TaskSuspended { reason: SuspendReason::Budget, ..suspended(None) });
    hand
}

fn parked() -> Hand {
    let mut hand = ended(RequestStatus::Interrupted);
    hand.push(StepAttemptAbandoned { from_seq: Seq(3), verdict: SealVerdict::Park });
    hand.push(suspended(None));
    hand
}

fn restoring() -> Hand {
    let mut hand = rested();
    hand.push(restoring_files());
    hand
}

fn closed() -> Hand {
    let mut hand = rested();
    hand.push(ConversationClosed { reason: None });
    hand
}

fn over(payload: impl Into<Payload>) -> Hand {
    let mut hand = rested();
    hand.push(payload.into());
    hand
}

fn restoring_files() -> FilesRestoring {
    FilesRestoring { files: 1, plan: ContentRef::of(MEDIA_RESTORE, b"{\"files\":[]}") }
}

fn places() -> Vec<(&'static str, Hand)> {
    vec![
        ("created", Hand::begin(true)),
        ("ready", ready()),
        ("composed", planned()),
        ("requested", requested().0),
        ("request failed", ended(RequestStatus::Error)),
        ("request cut off", ended(RequestStatus::Interrupted)),
        ("answered", ended(RequestStatus::Ok)),
        ("replied", replied()),
        ("decided on two calls", decided().0),
        ("call runs", running().0),
        ("call to start again", {
            let (mut hand, first, action) = running();
            hand.caused(action, ToolCallFinished { again: true, ..finished(first, CallStatus::Interrupted, "") });
            hand
        }),
        ("approval pending", ruled_on(None)),
        ("call approved", ruled_on(Some(ApprovalVerdict::Approve))),
        ("call refused", ruled_on(Some(ApprovalVerdict::Deny))),
        ("question pending", asking()),
        ("waiting for the answer", waiting_for_an_answer()),
        ("child runs", delegating(false)),
        ("child goes on by itself", delegating(true)),
        ("waiting beside a job", {
            let mut hand = job(true).0;
            hand.push(suspended(Some("later")));
            hand
        }),
        ("approvals pending", {
            let mut hand = ruled_on(None);
            let decision = hand.task().governance().decision.unwrap();
            hand.push(asked(call(decision, 1)));
            hand
        }),
        ("call and its job run", job(false).0),
        ("job goes on by itself", job(true).0),
        ("job over", job_over()),
        ("finishing", finishing()),
        ("waiting for a message", rested()),
        ("woken", woken()),
        ("call unknown", unknown().0),
        ("call to run again", to_run_again().0),
        ("call runs again", running_again()),
        ("budget asked for", out_of_budget()),
        ("waiting for budget", waiting_for_budget(out_of_budget())),
        ("waiting for budget with two calls", waiting_for_budget(decided().0)),
        ("waiting for budget with a request", waiting_for_budget(requested().0)),
        ("waiting for budget with a reply", waiting_for_budget(replied())),
        ("woken with a request", {
            let mut hand = waiting_for_budget(requested().0);
            hand.wake();
            hand
        }),
        ("interrupted with a request", {
            let mut hand = requested().0;
            hand.push(TurnInterrupted { reason: None });
            hand
        }),
        ("call unknown and a request", {
            let mut hand = unknown().0;
            let plan = hand.compose();
            hand.ask(plan, 1);
            hand
        }),
        ("call unknown and two calls", {
            let mut hand = unknown().0;
            hand.reply(&[tool_use(), tool_use()]);
            hand
        }),
        ("call unknown at rest", {
            let mut hand = unknown().0;
            hand.push(suspended(None));
            hand
        }),
        ("call unknown and one to run again", {
            let mut hand = ready();
            let decision = hand.reply(&[tool_use(), tool_use()]);
            for index in 0..2 {
                let action = hand.start(call(decision, index), 1);
                hand.finish(action, call(decision, index), CallStatus::Unknown, "cut off");
            }
            let second = call(decision, 1);
            hand.push(CallResolved { call: second, output: None, verdict: CallResolution::NotLanded });
            hand
        }),
        ("told by the model unasked", {
            let mut hand = ready();
            hand.push(MessagesAppended { jobs: vec![], messages: vec![message(Role::Assistant, None, &[])] });
            hand
        }),
        ("parked", parked()),
        ("restoring files", restoring()),
        ("closed", closed()),
        ("completed", over(TaskCompleted { answer: Body::default() })),
        ("failed", over(TaskFailed { detail: None, reason: FailureReason::Budget })),
        ("cancelled", over(TaskCancelled { reason: None })),
    ]
}

/// The open action of this kind, or any action there is, or the decision on the calls.
fn action(task: &Task, kind: fn(&ActionKind) -> bool) -> Option<Seq> {
    let actions = &task.governance().actions;
    actions.iter().find(|action| kind(&action.what)).or(actions.first()).map(|action| action.seq)
}

/// Events of every type, as they would have to be in this place if the type can come at all: they
/// cite what allows them, and are about the first call there is.
fn offers(hand: &Hand) -> Vec<(&'static str, Envelope)> {
    let task = hand.task();
    let (governance, runtime) = (task.governance(), task.runtime());
    let settled = runtime.unknown.first().or(runtime.rerun.as_ref()).map(|unknown| unknown.call);
    let about = settled.unwrap_or(call(governance.decision.unwrap_or(Seq(1)), 0));
    let ruling = governance.approvals.get(&about).and_then(|approval| approval.resolved).map(|ruling| ruling.seq);
    let allowed = governance.resolved.map(|(_, seq)| seq).or(ruling).or(governance.decision);
    let starts = match (&runtime.rerun, &runtime.round) {
        (Some(rerun), _) => rerun.starts,
        (None, round) => round.as_ref().map_or(0, |round| round.calls[0].starts),
    };
    let attempts = if let Phase::Request(request) = &runtime.phase { request.attempts } else { 0 };
    let any = |payload: Payload| (payload.kind().name(), hand.next(None, payload));
    let caused = |cause: Option<Seq>, payload: Payload| (payload.kind().name(), hand.next(cause, payload));
    let named = |name: &'static str, payload: Payload| (name, hand.next(None, payload));
    let said = MessagesAppended { jobs: vec![], messages: vec![message(Role::User, None, &[text("more")])] };
    let told = MessagesAppended {
        jobs: governance.jobs.iter().map(|job| job.job).collect(),
        messages: vec![message(Role::User, Some(MessageOrigin::System), &[text("a job has ended")])],
    };
    let model = action(task, |what| *what == ActionKind::Model);
    let tool = action(task, |what| matches!(what, ActionKind::Call(_)));
    let child = action(task, |what| matches!(what, ActionKind::Child(_)));
    let job = action(task, |what| matches!(what, ActionKind::Job(_)));
    let plan = ContextPlanComposed {
        composer: "plain.v1".into(),
        definition: task.definition().clone(),
        refs: vec![],
        through: hand.head(),
    };
    let wake = Woken { data: None, due: None, key: None, kind: "timer".into(), position: None };
    let patch = TaskStatePatch { phase: Some("next".into()), ..TaskStatePatch::default() };
    let record = ExtensionRecorded { body: Body::default(), kind: "k".into(), plugin: "p".into() };
    let mut by_model = hand.next(None, said.clone());
    by_model.origin = Origin::Llm;
    let mut by_person = hand.next(None, said);
    by_person.origin = Origin::System;
    let mut observed = hand.next(None, record.clone());
    observed.origin = Origin::Observer;
    vec![
        any(created(false).into()),
        any(TaskForked {
            ledger: LedgerId::new("ledger").unwrap(),
            source: task.id().clone(),
            source_hash: task.head().hash,
            source_seq: hand.head(),
        }
        .into()),
        ("MessagesAppended by a person", by_person),
        ("MessagesAppended by the model, as a person's", by_model),
        ("MessagesAppended on all jobs that ended", hand.next(None, told)),
        any(plan.into()),
        caused(governance.plan, LLMRequestStarted { attempt: attempts + 1, model: "m".into() }.into()),
        caused(model, answered(RequestStatus::Ok).into()),
        any(LLMRetryScheduled { attempt: attempts + 1, due: Timestamp::from_micros(9) }.into()),
        any(AssistantThinkingRecorded { blocks: Body::default(), call: None }.into()),
        any(decision(1).into()),
        named("TaskStatePatched by a policy", TaskStatePatched { call: None, patch: patch.clone() }.into()),
        named("TaskStatePatched by the call", TaskStatePatched { call: Some(about), patch }.into()),
        caused(allowed, started(about, starts + 1).into()),
        caused(tool, finished(about, CallStatus::Ok, "out").into()),
        any(ToolCallDenied { call: about, reason: Body::default(), tool: "Tool".into() }.into()),
        named("ApprovalRequested for the call", asked(about).into()),
        named("ApprovalRequested for more budget", budget_asked(hand.head().next()).into()),
        named("ApprovalResolved on the call", ruled(about, ApprovalVerdict::Approve).into()),
        named(
            "ApprovalResolved on the budget",
            ruled(governance.budget_approval().map_or(call(Seq(1), 9), |(call, _)| call), ApprovalVerdict::Deny).into(),
        ),
        any(CallResolved { call: about, output: None, verdict: CallResolution::Skip }.into()),
        any(question(about).into()),
        any(QuestionAnswered { answer: Body::default(), call: about }.into()),
        caused(allowed, spawned(about, 1).into()),
        caused(child, child_done(about, 1).into()),
        caused(allowed, BackgroundJobStarted { call: about, tool: "Tool".into(), what: "make".into() }.into()),
        caused(job, BackgroundJobEnded { code: None, how: JobEnd::Lost, output: Body::default() }.into()),
        any(suspended(None).into()),
        any(TaskWoken { item: wake }.into()),
        any(TurnInterrupted { reason: None }.into()),
        any(TaskSnapshot { fold: fold_version(), state_ref: ContentRef::of("state", b"{}"), through: hand.head() }
            .into()),
        any(TaskRewound { to_seq: boundary(hand) }.into()),
        named("StepAttemptAbandoned, parked", seal(hand, SealVerdict::Park).into()),
        named("StepAttemptAbandoned, redriven", seal(hand, SealVerdict::Redrive).into()),
        any(StepAttemptResumed { seal: runtime.parked.unwrap_or(Seq(1)) }.into()),
        any(restoring_files().into()),
        any(FilesRestored {
            left: None,
            plan: governance.restoring.as_ref().map_or(Seq(1), |restoring| restoring.seq),
            restored: 1,
        }
        .into()),
        any(late(hand).into()),
        any(PluginsPinned { plugins: vec![pin("Tool")] }.into()),
        named("PluginsPinned of no name", PluginsPinned { plugins: vec![pin("Tool"), pin("")] }.into()),
        any(AgentRevised {
            agent: "other".into(),
            budget: Budget::default(),
            definition: task.definition().clone(),
            interactive: true,
            refused: None,
        }
        .into()),
        ("ExtensionRecorded by a plugin", hand.next(None, record)),
        ("ExtensionRecorded by an observer", observed),
        any(ConversationClosed { reason: None }.into()),
        any(ConversationReopened { reason: None }.into()),
        any(TaskCompleted { answer: Body::default() }.into()),
        any(TaskFailed { detail: None, reason: FailureReason::LlmError }.into()),
        any(TaskCancelled { reason: None }.into()),
    ]
}

/// The last place where no turn was under way; the log's first event when there is none.
fn boundary(hand: &Hand) -> Seq {
    hand.states.iter().rfind(|task| task.is_turn_boundary()).map_or(Seq(1), |task| task.head().seq)
}

/// A seal of the last step.
fn seal(hand: &Hand, verdict: SealVerdict) -> StepAttemptAbandoned {
    StepAttemptAbandoned { from_seq: hand.task().governance().plan.unwrap_or(Seq(2)), verdict }
}

fn late(hand: &Hand) -> LateResultRecorded {
    let run = RunId::new("gone").unwrap();
    LateResultRecorded {
        answers: hand.head(),
        call: None,
        identity: Identity { attempt: 1, fence: Epoch(1), generation: 0, resume: 0, run },
        kind: LateKind::Late,
        output: Body::default(),
        spent: None,
        status: None,
    }
}

fn pin(name: &str) -> PluginPin {
    PluginPin {
        kind: PluginKind::Tool,
        name: name.into(),
        parameters: None,
        source: "host".into(),
        version: "1".into(),
    }
}

/// Of one event: where it may come, the rules by which it is refused in some places, and the one by
/// which it is refused everywhere else.
fn told(name: &str, verdicts: &[(&str, Option<String>)]) -> String {
    let mut by_rule: BTreeMap<Option<&String>, Vec<&str>> = BTreeMap::new();
    for (place, rule) in verdicts {
        by_rule.entry(rule.as_ref()).or_default().push(place);
    }
    let elsewhere = by_rule.iter().max_by_key(|(_, places)| places.len()).map(|(rule, _)| *rule);
    let mut shown = format!("# {name}\n");
    for (rule, places) in &by_rule {
        let places = if elsewhere == Some(*rule) { "anywhere else".to_string() } else { places.join(", ") };
        let rule = rule.map_or_else(|| "may come".to_string(), |rule| format!("\"{rule}\""));
        writeln!(shown, "  {rule}: {places}").unwrap();
    }
    shown
}

#[test]
fn fo_4_what_may_come_where() {
    let places = places();
    let mut verdicts: BTreeMap<&str, Vec<(&str, Option<String>)>> = BTreeMap::new();
    for (place, hand) in &places {
        for (name, event) in offers(hand) {
            let refused = hand.clone().write(&event).err();
            if let Some(error) = &refused {
                assert_eq!((&error.task, error.seq), (&event.task, event.seq), "FO-4: the error names both");
            }
            verdicts.entry(name).or_default().push((place, refused.map(|error| error.rule)));
        }
    }
    let places: Vec<String> = places.iter().map(|(place, hand)| standing(place, hand.task())).collect();
    let text: Vec<String> = verdicts.iter().map(|(name, verdicts)| told(name, verdicts)).collect();
    super::scenes::assert_text("places", &format!("{}\n{}", places.concat(), text.join("\n")));
}

/// How a task stands in a place: its status and what the row says wakes it, whether a rewind may land
/// there, whether its definition may change, and the tools of calls that wait to be let run.
fn standing(place: &str, task: &Task) -> String {
    let row = task.projection();
    let wake = String::from_utf8(to_vec(&row.wake).unwrap()).unwrap();
    let mut shown = format!("{place}: {}, wake {wake}", row.status);
    assert_eq!((row.seq, row.hash, row.closed), (task.head().seq, task.head().hash, task.is_closed()));
    for (holds, what) in [
        (row.closed, "closed"),
        (task.is_turn_boundary(), "a turn boundary"),
        (task.is_between_steps(), "between steps"),
    ] {
        if holds {
            write!(shown, ", {what}").unwrap();
        }
    }
    task.tools_to_start().for_each(|tool| write!(shown, ", {tool} to start").unwrap());
    shown.push('\n');
    shown
}

/// The first events of logs: nothing else can be one.
#[test]
fn fo_4_nothing_but_a_creation_or_a_fork_begins_a_log() {
    let hand = Hand::begin(true);
    for (name, event) in offers(&hand) {
        let begins = Task::begin(&event, Hash::from_bytes([0; 32]), None);
        assert_eq!(begins.unwrap_err().rule, "seq gap: expected 1", "{name}");
        let ledger = LedgerId::new("ledger").unwrap();
        let first = Envelope { links: event.links, ..first("hand", &ledger, event.payload) };
        let begun = Task::begin(&first, Hash::from_bytes([0; 32]), None);
        match first.kind() {
            EventType::TaskCreated => assert_eq!(begun.unwrap().id(), &TaskId::new("hand").unwrap()),
            EventType::TaskForked => assert_eq!(begun.unwrap_err().rule, "a fork needs the state of its source"),
            _ => assert_eq!(begun.unwrap_err().rule, "a log begins with TaskCreated or TaskForked", "{name}"),
        }
    }
}
