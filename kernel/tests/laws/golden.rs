//! The golden corpus: one file a readable event type, with an event that has every member and
//! one that has none it can leave out, and whole logs with the states they fold to.
//!
//! The files are frozen at the first release and never edited after it: a log that was written
//! once has these bytes and these hashes for ever (EV-3). A format that grows gets new files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use plica_kernel::body::{Body, ContentRef};
use plica_kernel::canonical::{Hash, content_hash, to_vec};
use plica_kernel::decode::decode;
use plica_kernel::envelope::{Envelope, Links, Origin, SealedEvent, read_line, write_line};
use plica_kernel::event::*;
use plica_kernel::id::{CallId, DedupKey, Epoch, LedgerId, Position, Queue, RunId, Seq, TaskId};
use plica_kernel::ledger::Identity;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{Alternative, Wake, WakeKey, Woken};

use crate::common::world::text_of;
use crate::common::{Log, fold, log};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn text(text: &str) -> Body {
    Body::Inline(text.into())
}

fn content(of: &str) -> ContentRef {
    ContentRef::of("text/plain; charset=utf-8", of.as_bytes())
}

fn big(of: &str) -> Body {
    Body::Ref(content(of))
}

fn hash(of: &str) -> Hash {
    content_hash(of.as_bytes())
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(1_796_031_682_123_456 + micros)
}

fn call() -> CallId {
    CallId { decision: Seq(7), index: 1 }
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn ledger() -> LedgerId {
    LedgerId::new("0197a000-0000-7000-8000-00000000000a").unwrap()
}

fn caps() -> Budget {
    Budget { nano_usd: Some(5_000_000_000), steps: Some(40), tokens: Some(1_000_000), wall_ms: Some(3_600_000) }
}

fn failure() -> Failure {
    Failure { detail: Some("rate_limited: slow down".into()), reason: FailureReason::LlmError }
}

fn usage() -> Usage {
    Usage { cache_read: 1, cache_write: 2, output: 3, reasoning: 1, uncached: 5 }
}

fn identity() -> Identity {
    Identity { attempt: 1, fence: Epoch(4), generation: 1, resume: 2, run: RunId::new("run").unwrap() }
}

fn beginnings() -> Vec<[Payload; 2]> {
    let bare = TaskCreated {
        background: false,
        agent: "helper".into(),
        budget: Budget::default(),
        call: None,
        definition: content("definition"),
        depth: 0,
        goal: text("tidy up"),
        interactive: false,
        key: None,
        labels: BTreeMap::new(),
        ledger: ledger(),
        not_before: None,
        parent: None,
        priority: 2,
        queue: Queue::main(),
    };
    let full = TaskCreated {
        background: false,
        budget: caps(),
        call: Some(call()),
        depth: 1,
        goal: big("a long goal"),
        interactive: true,
        key: Some(DedupKey::new("key").unwrap()),
        labels: BTreeMap::from([("team".into(), "ops \u{1f600} \u{0}\n".into())]),
        not_before: Some(time(0)),
        parent: Some(id("parent")),
        ..bare.clone()
    };
    let forked =
        TaskForked { ledger: ledger(), source: id("source"), source_hash: hash("source"), source_seq: Seq(40) };
    vec![[full.into(), bare.into()], [forked.clone().into(), forked.into()]]
}

fn conversation() -> Vec<[Payload; 2]> {
    let message = |role, origin, blocks| Message { blocks, origin, role };
    let said = [
        message(Role::User, Some(MessageOrigin::Human), text(r#"[{"text":"go","type":"text"}]"#)),
        message(Role::System, Some(MessageOrigin::System), text("[]")),
        message(Role::User, Some(MessageOrigin::Memory), text("[]")),
        message(Role::Assistant, None, big("blocks")),
    ];
    let plan = ContextPlanComposed {
        composer: "plain.v1".into(),
        definition: content("definition"),
        refs: vec![content("skill")],
        through: Seq(2),
    };
    let started = LLMRequestStarted { attempt: 1, model: "anthropic:claude".into() };
    let bare = LLMRequestFinished {
        cost_nano_usd: None,
        elapsed_ms: 0,
        error: None,
        extra: None,
        reply: None,
        status: RequestStatus::Interrupted,
        stop: None,
        usage: Usage::default(),
    };
    let full = LLMRequestFinished {
        cost_nano_usd: Some(12_345),
        elapsed_ms: 900,
        error: Some(ModelFailure { kind: "overloaded".into(), message: "busy".into() }),
        extra: Some(text("{\"logprobs\": 1.50}")),
        reply: Some(content("blocks")),
        status: RequestStatus::Ok,
        stop: Some("end".into()),
        usage: usage(),
    };
    let thinking = AssistantThinkingRecorded { blocks: text("[]"), call: Some(call()) };
    vec![
        [
            MessagesAppended { jobs: vec![], messages: said.to_vec() }.into(),
            MessagesAppended { jobs: vec![], messages: vec![] }.into(),
        ],
        [plan.clone().into(), ContextPlanComposed { refs: vec![], ..plan }.into()],
        [started.clone().into(), started.into()],
        [full.into(), bare.into()],
        [
            LLMRetryScheduled { attempt: 2, due: time(500_000) }.into(),
            LLMRetryScheduled { attempt: 9, due: time(0) }.into(),
        ],
        [thinking.clone().into(), AssistantThinkingRecorded { call: None, ..thinking }.into()],
    ]
}

fn calls() -> Vec<[Payload; 2]> {
    let entry = |rule: Option<&str>| CallEntry { rule: rule.map(Into::into), tool: "Bash".into(), wait: None };
    let decision = DecisionRecorded {
        answer: Some(text("done")),
        calls: vec![entry(Some("Bash(git status:*)")), entry(None)],
        kind: DecisionKind::Calls,
        over: 2,
    };
    let patch = TaskStatePatch {
        add_notes: vec!["noted".into()],
        goal: Some(text("tidy up more")),
        next_action: Some("look".into()),
        phase: Some("explore".into()),
        todos: Some(text(r#"[{"content":"look","status":"in_progress"}]"#)),
    };
    let started = ToolCallStarted {
        args: text("{\"command\": \"ls\"}"),
        attempt: 1,
        call: call(),
        files: Vec::new(),
        tool: "Bash".into(),
    };
    let finished = ToolCallFinished {
        again: true,
        call: call(),
        elapsed_ms: 14,
        files: vec![
            FileChange { after: None, before: FileWas::Kept(content("old")), path: big("path") },
            FileChange { after: Some(hash("new")), before: FileWas::Absent, path: text("a") },
            FileChange { after: None, before: FileWas::Large(hash("big")), path: text("b") },
            FileChange { after: None, before: FileWas::Unknown, path: text("c") },
        ],
        files_over: 2,
        output: big("files"),
        status: CallStatus::Interrupted,
        whole: Some(content("all files")),
    };
    let denied = ToolCallDenied { call: call(), reason: text("not allowed"), tool: "Bash".into() };
    vec![
        [decision.into(), DecisionRecorded { answer: None, calls: vec![], kind: DecisionKind::Empty, over: 0 }.into()],
        [
            TaskStatePatched { call: Some(call()), patch }.into(),
            TaskStatePatched { call: None, patch: TaskStatePatch::default() }.into(),
        ],
        [
            started.clone().into(),
            ToolCallStarted { args: big("args"), files: vec![finished.files[0].clone()], ..started }.into(),
        ],
        [
            finished.clone().into(),
            ToolCallFinished {
                again: false,
                elapsed_ms: 0,
                files: vec![],
                files_over: 0,
                output: text("ok"),
                whole: None,
                status: CallStatus::Ok,
                ..finished
            }
            .into(),
        ],
        [denied.clone().into(), denied.into()],
    ]
}

fn people_and_children() -> Vec<[Payload; 2]> {
    let asked = ApprovalRequested {
        args: text("{}"),
        call: call(),
        digest: hash("call"),
        expires: Some(time(60_000_000)),
        rule: Some("ask: Bash".into()),
        subject: None,
        tool: "Bash".into(),
    };
    let ruled = ApprovalResolved {
        call: call(),
        digest: hash("call"),
        reason: Some(text("too risky")),
        verdict: ApprovalVerdict::Deny,
    };
    let question = QuestionAsked { call: call(), question: text("which one?") };
    let answered = QuestionAnswered { answer: text("that one"), call: call() };
    let spawned = SubtaskSpawned {
        agent: "child".into(),
        any: true,
        background: true,
        budget: caps(),
        call: call(),
        child: id("parent").child(call(), 1),
        definition: content("child definition"),
        goal: text("look there"),
    };
    let done = SubtaskCompleted {
        answer: text("found"),
        call: call(),
        child: id("parent").child(call(), 1),
        failure: Some(failure()),
        spent: Spent { nano_usd: 1, steps: 2, tokens: 3, wall_ms: 4 },
        status: SubtaskStatus::Failed,
        unsettled: false,
    };
    vec![
        [asked.clone().into(), ApprovalRequested { expires: None, rule: None, ..asked }.into()],
        [ruled.clone().into(), ApprovalResolved { reason: None, verdict: ApprovalVerdict::Approve, ..ruled }.into()],
        [question.clone().into(), question.into()],
        [answered.clone().into(), QuestionAnswered { answer: text("another"), ..answered }.into()],
        [
            spawned.clone().into(),
            SubtaskSpawned { any: false, background: false, budget: Budget::default(), ..spawned }.into(),
        ],
        [
            done.clone().into(),
            SubtaskCompleted { failure: None, spent: Spent::default(), status: SubtaskStatus::Completed, ..done }
                .into(),
        ],
    ]
}

fn jobs() -> Vec<[Payload; 2]> {
    let started = BackgroundJobStarted { call: call(), tool: "Bash".into(), what: "make \u{e9}".into() };
    let ended = BackgroundJobEnded { code: Some(-1), how: JobEnd::Exited, output: big("built") };
    vec![
        [started.clone().into(), started.into()],
        [ended.into(), BackgroundJobEnded { code: None, how: JobEnd::Lost, output: text("") }.into()],
    ]
}

fn waits() -> Vec<[Payload; 2]> {
    let keys = [
        WakeKey::Message,
        WakeKey::Answer(Seq(7)),
        WakeKey::Group(Seq(7)),
        WakeKey::Background,
        WakeKey::Event("ci:done".into()),
    ];
    let any = keys.into_iter().zip(1..).map(|(key, need)| Alternative { key, need }).collect();
    let full = TaskSuspended {
        answer: Some(text("done")),
        failure: Some(failure()),
        reason: SuspendReason::Calls,
        wake: Wake { any, at: Some(time(1_000_000)) },
    };
    let bare = TaskSuspended { answer: None, failure: None, reason: SuspendReason::Message, wake: Wake::default() };
    let carried = Woken {
        data: None,
        due: Some(time(0)),
        key: Some(WakeKey::Answer(Seq(7))),
        kind: "answer".into(),
        position: Some(Position(3)),
    };
    let timer = Woken { data: None, due: None, key: None, kind: "timer".into(), position: None };
    vec![
        [full.into(), bare.into()],
        [TaskWoken { item: carried }.into(), TaskWoken { item: timer }.into()],
        [TurnInterrupted { reason: Some("stop".into()) }.into(), TurnInterrupted { reason: None }.into()],
    ]
}

fn marks_and_ends() -> Vec<[Payload; 2]> {
    let why = || Some("why".to_string());
    let snapshot = TaskSnapshot { fold: hash("fold"), state_ref: content("state"), through: Seq(6) };
    let seal = |verdict| StepAttemptAbandoned { from_seq: Seq(5), verdict };
    let late = LateResultRecorded {
        answers: Seq(4),
        call: Some(call()),
        identity: identity(),
        kind: LateKind::Stale,
        output: text("too late"),
        spent: None,
        status: Some(CallStatus::Ok),
    };
    let extension = ExtensionRecorded { body: text("{}"), kind: "progress".into(), plugin: "env".into() };
    let pin = |parameters| PluginPin {
        kind: PluginKind::Tool,
        name: "Read".into(),
        parameters,
        source: "host".into(),
        version: "1".into(),
    };
    let revised = AgentRevised {
        agent: "coder".into(),
        budget: caps(),
        definition: content("definition"),
        interactive: true,
        refused: why(),
    };
    let kept = AgentRevised { budget: Budget::default(), interactive: false, refused: None, ..revised.clone() };
    let rewound = TaskRewound { to_seq: Seq(5) };
    let restoring = FilesRestoring { files: 2, plan: content("plan") };
    let failed = TaskFailed { detail: why(), reason: FailureReason::Budget };
    vec![
        [snapshot.clone().into(), snapshot.into()],
        [rewound.clone().into(), rewound.into()],
        [seal(SealVerdict::Redrive).into(), seal(SealVerdict::Park).into()],
        [
            CallResolved { call: call(), output: Some(big("what it brought")), verdict: CallResolution::Landed }.into(),
            CallResolved { call: call(), output: None, verdict: CallResolution::NotLanded }.into(),
        ],
        [StepAttemptResumed { seal: Seq(9) }.into(), StepAttemptResumed { seal: Seq(9) }.into()],
        [restoring.clone().into(), restoring.into()],
        [
            FilesRestored { left: Some(text("[]")), plan: Seq(6), restored: 1 }.into(),
            FilesRestored { left: None, plan: Seq(6), restored: 2 }.into(),
        ],
        [late.clone().into(), LateResultRecorded { call: None, kind: LateKind::Late, status: None, ..late }.into()],
        [extension.clone().into(), extension.into()],
        [
            PluginsPinned { plugins: vec![pin(Some(hash("schema"))), pin(None)] }.into(),
            PluginsPinned { plugins: vec![] }.into(),
        ],
        [revised.into(), kept.into()],
        [ConversationClosed { reason: why() }.into(), ConversationClosed { reason: None }.into()],
        [ConversationReopened { reason: why() }.into(), ConversationReopened { reason: None }.into()],
        [TaskCompleted { answer: big("a long answer") }.into(), TaskCompleted { answer: text("") }.into()],
        [failed.clone().into(), TaskFailed { detail: None, ..failed }.into()],
        [TaskCancelled { reason: why() }.into(), TaskCancelled { reason: None }.into()],
    ]
}

/// For each readable type an event with all that it can have, and one with what it must have.
pub fn samples() -> Vec<[Payload; 2]> {
    [beginnings(), conversation(), calls(), people_and_children(), jobs(), waits(), marks_and_ends()].concat()
}

/// The line of one event; `full` has every member of an envelope too.
fn line(payload: Payload, full: bool) -> String {
    let event = Envelope {
        task: id("0197a000-0000-7000-8000-000000000001"),
        seq: Seq(7),
        actor: "user:ada".into(),
        origin: Origin::Engine,
        at: time(0),
        epoch: Epoch(3),
        run: RunId::new("0197a000-0000-7000-8000-0000000000ff").unwrap(),
        links: if full {
            Links { parent: Some(Seq(4)), decision: Some(Seq(5)), action: Some(Seq(6)) }
        } else {
            Links::default()
        },
        more: u32::from(full),
        trace: full.then(|| "4bf92f3577b34da6a3ce929d0e0e4736".into()),
        metrics: if full { BTreeMap::from([("wait_ms".into(), 9)]) } else { BTreeMap::new() },
        prev: hash("prev"),
        payload,
    };
    let sealed = event.seal().unwrap();
    assert_eq!(decode(&sealed.body, &sealed.hash), Ok(event), "what was sealed is read back");
    String::from_utf8(write_line(&sealed.body, &sealed.hash)).unwrap()
}

fn assert_golden(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => folder(),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn ev_3_each_readable_type_has_its_golden_bytes() {
    let mut seen = BTreeSet::new();
    for [full, bare] in samples() {
        let kind = full.kind();
        assert_eq!(kind, bare.kind());
        assert!(seen.insert(kind), "{kind} stands twice");
        assert_golden(kind.name(), &(line(full, true) + &line(bare, false)));
    }
    let readable: BTreeSet<EventType> = EventType::ALL.iter().copied().filter(|kind| kind.is_readable()).collect();
    assert_eq!(seen, readable, "every readable type has golden lines");
}

/// Members that were added later, each with a line of its own: the lines from before them stand
/// as they were written.
#[test]
fn ev_3_members_added_later_have_their_golden_bytes() {
    let grants = String::from_utf8(to_vec(&Budget { steps: Some(4), ..Budget::default() }).unwrap()).unwrap();
    let asked = ApprovalRequested {
        args: text(&grants),
        call: call(),
        digest: hash("budget"),
        expires: None,
        rule: None,
        subject: Some(ApprovalSubject::Budget),
        tool: "budget".into(),
    };
    let stopped = SubtaskCompleted {
        answer: text("cancelled"),
        call: call(),
        child: id("parent").child(call(), 1),
        failure: None,
        spent: Spent::default(),
        status: SubtaskStatus::Cancelled,
        unsettled: true,
    };
    let late = LateResultRecorded {
        answers: Seq(4),
        call: Some(call()),
        identity: identity(),
        kind: LateKind::Late,
        output: text("cancelled"),
        spent: Some(Spent { nano_usd: 1, steps: 2, tokens: 3, wall_ms: 4 }),
        status: None,
    };
    let waits = TaskSuspended {
        answer: None,
        failure: None,
        reason: SuspendReason::Budget,
        wake: Wake::on(WakeKey::Answer(Seq(7))),
    };
    let lines = [asked.into(), stopped.into(), late.into(), waits.into()].map(|payload| line(payload, false));
    assert_golden("budgets", &lines.concat());
}

#[test]
fn ev_3_what_tells_of_background_jobs_has_its_golden_bytes() {
    let told = MessagesAppended { jobs: vec![Seq(12), Seq(40)], messages: vec![] };
    assert_golden("jobs", &line(told.into(), false));
}

/// Old data under the code of today, whatever became of the samples above: each line is read,
/// and written again as the same bytes.
#[test]
fn ev_3_golden_lines_are_read_and_written_alike() {
    for kind in EventType::ALL.iter().filter(|kind| kind.is_readable()) {
        let file = fs::read_to_string(folder().join(format!("{kind}.snap"))).unwrap();
        let lines: Vec<&str> = file.lines().filter(|line| line.starts_with("{\"event\":")).collect();
        assert!(lines.len() >= 2, "{kind}");
        for line in lines {
            let (body, hash) = read_line(line.as_bytes()).unwrap();
            let event = decode(body, &hash).unwrap();
            assert_eq!(event.kind(), *kind);
            assert_eq!(event.seal().unwrap().body, body);
        }
    }
}

/// A log from a file, each line an append of its own as far as a fold is concerned.
fn read_log(name: &str) -> Log {
    let file = fs::read_to_string(folder().join(name)).unwrap();
    let stored = file.lines().map(|line| {
        let (body, hash) = read_line(line.as_bytes()).unwrap();
        let event = decode(body, &hash).unwrap();
        vec![SealedEvent { seq: event.seq, kind: event.kind(), hash, body: body.to_vec() }]
    });
    Log { appends: stored.collect(), blobs: BTreeMap::new() }
}

/// Whole logs that were written once, and the states they fold to.
#[test]
fn fo_1_golden_logs_fold_to_their_golden_states() {
    for name in ["log-calls", "log-interactive", "log-cancelled"] {
        let log = read_log(&format!("{name}.jsonl"));
        let state = text_of(&fold(&log));
        assert_golden(&name.replace("log", "state"), &format!("{}\n{state}", hash(&state)));
        assert_eq!(log::verify_log(&log).breaks, vec![]);
    }
}
