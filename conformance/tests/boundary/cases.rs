//! The reference tasks: between them they use every event type that the engine writes today.

use plica_kernel::body::{Blob, Body, ContentRef, MEDIA_DEFINITION};
use plica_kernel::envelope::Envelope;
use plica_kernel::event::{ApprovalVerdict, CallResolution, CallStatus, JobEnd, Payload, SuspendReason};
use plica_kernel::id::Seq;
use plica_kernel::ledger::Identity;
use plica_kernel::wake::Item;
use plica_ports::{Definition, ModelChoice, ModelErrorKind, OnCrash, PermissionMode};

use crate::agents::{BLOCK, FAIL, LOOK, MAIL, NOTE, PUT, SERVE, STUDY, Say, call, call_with, say};
use crate::cut::Reaction;

/// A reference task.
pub struct Case {
    pub name: &'static str,
    /// The model's replies.
    pub replies: fn() -> Vec<Say>,
    /// The first append that is cut; those before are like those of the other tasks.
    pub cut_from: usize,
    pub interactive: bool,
    /// Whether what is cut is the branch that a person made off its first turn's end, and sent on.
    pub forked: bool,
    /// What becomes of a step that is cut in a call. Where its attempt is left behind and a person or
    /// another step takes it on, the course of the run is another one: its log is to be sound, its end
    /// as good, and no effect to happen more often than its agent allows.
    pub on_crash: OnCrash,
    pub ask: &'static [&'static str],
    /// The cap on tokens; a reply costs two.
    pub tokens: Option<u64>,
    pub reactions: &'static [Reaction],
}

const PLAIN: Case = Case {
    name: "plain",
    replies: || vec![say("hello")],
    cut_from: 1,
    interactive: false,
    forked: false,
    on_crash: OnCrash::Resolve,
    ask: &[],
    tokens: None,
    reactions: &[],
};

/// The script of the agent that others delegate to.
pub const CHILD: &str = "child";

pub fn child_replies() -> Vec<Say> {
    vec![call(&[(NOTE, "by the child")]), say("the child is done")]
}

pub const CASES: &[Case] = &[
    PLAIN,
    Case {
        name: "calls",
        replies: || {
            let think = Say { thinking: Some("first a note"), ..call(&[(NOTE, "one")]) };
            vec![think, call(&[(MAIL, "two")]), call(&[(LOOK, "three")]), call(&[(FAIL, "four")]), say("done")]
        },
        ..PLAIN
    },
    Case {
        name: "parallel",
        replies: || vec![call(&[(NOTE, "a"), (LOOK, "b"), (MAIL, "c"), (NOTE, "d")]), say("done")],
        ..PLAIN
    },
    Case {
        name: "denied",
        replies: || {
            let nonsense = Say { calls: vec![(NOTE, r#"{"nope":1}"#.into())], ..Say::default() };
            vec![call(&[("Nothing", "x"), (NOTE, "fine")]), nonsense, say("done")]
        },
        ..PLAIN
    },
    Case {
        name: "retried",
        replies: || vec![Say { refused: 2, refusal: Some(ModelErrorKind::Overloaded), ..say("at last") }],
        ..PLAIN
    },
    Case {
        name: "refused",
        replies: || vec![Say { refused: u32::MAX, refusal: Some(ModelErrorKind::Invalid), ..say("never") }],
        ..PLAIN
    },
    Case {
        name: "cut and empty",
        replies: || vec![Say { cut: true, ..say("it is as foll") }, say(""), say("as follows")],
        ..PLAIN
    },
    Case { name: "much", replies: || vec![call(&[(STUDY, "everything")]), say("studied")], ..PLAIN },
    Case {
        name: "todo",
        replies: || {
            vec![call_with("TodoWrite", r#"{"todos":[{"content":"write","status":"pending"}]}"#), say("listed")]
        },
        ..PLAIN
    },
    Case {
        name: "long",
        replies: || {
            let mut rounds = vec![call(&[(LOOK, "again")]); 21];
            rounds.push(say("looked enough"));
            rounds
        },
        // The snapshot comes with the twentieth round.
        cut_from: 18,
        ..PLAIN
    },
    Case {
        name: "conversation",
        replies: || vec![say("first"), call(&[(NOTE, "on request")]), say("second"), say("third")],
        interactive: true,
        reactions: &[
            |event| after_answer(event, "first", Item::Message { text: "and then?".into() }),
            |event| after_answer(event, "second", Item::Close { reason: None }),
            |event| {
                let closed = matches!(event.payload, Payload::ConversationClosed(_));
                closed.then(|| Item::Reopen { reason: Some("one more thing".into()) })
            },
        ],
        ..PLAIN
    },
    Case {
        name: "message meanwhile",
        replies: || vec![call(&[(NOTE, "before")]), say("done?"), say("done")],
        reactions: &[|event| {
            // The model is asked again in the same append, so the message comes too late for that.
            let noted = matches!(&event.payload, Payload::ToolCallFinished(_));
            noted.then(|| Item::Message { text: "one more thing".into() })
        }],
        ..PLAIN
    },
    Case {
        name: "question",
        replies: || vec![call_with("AskUser", r#"{"question":"which?"}"#), call(&[(NOTE, "this")]), say("done")],
        reactions: &[|event| match &event.payload {
            Payload::QuestionAsked(asked) => Some(Item::Answer { call: asked.call, text: "this one".into() }),
            _ => None,
        }],
        ..PLAIN
    },
    Case {
        name: "approval",
        replies: || vec![call(&[(NOTE, "may I"), (MAIL, "and I")]), say("done")],
        ask: &[NOTE, MAIL],
        reactions: &[
            |event| ruling(event, NOTE, ApprovalVerdict::Approve),
            |event| ruling(event, MAIL, ApprovalVerdict::Deny),
            |event| unknown(event, NOTE_CALL),
            when_parked,
        ],
        ..PLAIN
    },
    Case {
        name: "budget",
        replies: || vec![call(&[(NOTE, "dear")]), say("done")],
        tokens: Some(2),
        reactions: &[|event| ruling(event, "budget", ApprovalVerdict::Approve)],
        ..PLAIN
    },
    Case {
        name: "revised",
        replies: || vec![say("first"), call(&[(NOTE, "as another")]), say("second")],
        interactive: true,
        reactions: &[
            |event| after_answer(event, "first", Item::Revise { definition: another().reference }),
            |event| after_answer(event, "first", Item::Message { text: "and then?".into() }),
        ],
        ..PLAIN
    },
    Case {
        name: "waits",
        replies: || vec![call_with("Wait", r#"{"seconds":0}"#), call_with("Wait", r#"{"event":"rain"}"#), say("wet")],
        reactions: &[|event| match &event.payload {
            Payload::TaskSuspended(suspended) if !suspended.wake.any.is_empty() => {
                Some(Item::Event { data: Some("much".into()), event: "rain".into() })
            }
            _ => None,
        }],
        ..PLAIN
    },
    Case {
        name: "children",
        replies: || {
            let task = |goal: &str| ("Task", format!(r#"{{"agent":"child","goal":"{goal}"}}"#));
            vec![Say { calls: vec![task("one"), task("two")], ..Say::default() }, say("both are done")]
        },
        ..PLAIN
    },
    Case {
        name: "child in the background",
        replies: || {
            let args = r#"{"agent":"child","goal":"aside","background":true}"#;
            vec![call_with("Task", args), say("started"), say("heard of it")]
        },
        interactive: true,
        ..PLAIN
    },
    Case {
        name: "background job",
        replies: || vec![call(&[(SERVE, "the page")]), say("serving"), say("heard of it")],
        interactive: true,
        reactions: &[|event| {
            let output = "served".to_owned();
            after_answer(event, "serving", Item::Job { code: Some(0), how: JobEnd::Exited, job: FIRST_JOB, output })
        }],
        ..PLAIN
    },
    Case {
        name: "interrupted",
        replies: || vec![call(&[(BLOCK, "for long")]), say("as you like")],
        reactions: &[
            |event| when_blocking(event, Item::Interrupt { reason: Some("stop that".into()) }),
            |event| match &event.payload {
                Payload::TaskSuspended(suspended) if suspended.reason == SuspendReason::Interrupted => {
                    Some(Item::Message { text: "something else".into() })
                }
                _ => None,
            },
        ],
        ..PLAIN
    },
    Case {
        name: "cancelled",
        replies: || vec![call(&[(BLOCK, "for ever")])],
        reactions: &[|event| when_blocking(event, Item::Cancel { reason: Some("enough".into()) })],
        ..PLAIN
    },
    Case {
        name: "rewound",
        replies: || vec![say("first"), call(&[(PUT, "two")]), say("second")],
        interactive: true,
        reactions: &[
            |event| after_answer(event, "first", Item::Message { text: "and then?".into() }),
            |event| after_answer(event, "second", Item::Rewind { to_seq: FIRST_TURN }),
            |event| {
                let rewound = matches!(event.payload, Payload::TaskRewound(_));
                rewound.then(|| Item::Message { text: "once more".into() })
            },
        ],
        ..PLAIN
    },
    Case {
        name: "forked",
        replies: || vec![say("first"), call(&[(NOTE, "in the branch"), (PUT, "two")]), say("second"), say("third")],
        interactive: true,
        forked: true,
        reactions: &[|event| after_answer(event, "second", Item::Message { text: "and more?".into() })],
        ..PLAIN
    },
    Case {
        name: "parked",
        replies: || vec![call(&[(NOTE, "once"), (LOOK, "whatever")]), say("done")],
        on_crash: OnCrash::Park,
        reactions: &[|event| unknown(event, NOTE_CALL), when_parked],
        ..PLAIN
    },
    Case {
        name: "redriven",
        replies: || vec![call(&[(LOOK, "once"), (LOOK, "twice")]), say("done")],
        on_crash: OnCrash::Redrive,
        ..PLAIN
    },
    Case {
        name: "late evidence",
        replies: || vec![call(&[(LOOK, "first")]), call(&[(LOOK, "second")]), say("done")],
        reactions: &[late],
        ..PLAIN
    },
];

fn after_answer(event: &Envelope, answer: &str, item: Item) -> Option<Item> {
    match &event.payload {
        Payload::TaskSuspended(suspended) if suspended.answer == Some(Body::Inline(answer.into())) => Some(item),
        _ => None,
    }
}

/// Stands for the event that started the first background job.
pub const FIRST_JOB: Seq = Seq(0);
/// Stands for the event that ended the first turn.
pub const FIRST_TURN: Seq = Seq(0);
/// The index of the call that notes.
const NOTE_CALL: u32 = 0;

/// A person knows that a call happened of which nobody else knows it.
fn unknown(event: &Envelope, index: u32) -> Option<Item> {
    match &event.payload {
        Payload::ToolCallFinished(finished)
            if finished.status == CallStatus::Unknown && finished.call.index == index =>
        {
            let output = Some("I have seen it".into());
            Some(Item::Resolve { call: finished.call, output, verdict: CallResolution::Landed })
        }
        _ => None,
    }
}

/// A person carries on with what no worker may (RC-4).
fn when_parked(event: &Envelope) -> Option<Item> {
    match &event.payload {
        Payload::TaskSuspended(suspended) if suspended.reason == SuspendReason::Parked => {
            Some(Item::Message { text: "go on".into() })
        }
        _ => None,
    }
}

fn ruling(event: &Envelope, tool: &str, verdict: ApprovalVerdict) -> Option<Item> {
    match &event.payload {
        Payload::ApprovalRequested(asked) if asked.tool == tool => {
            Some(Item::Verdict { call: asked.call, reason: None, verdict })
        }
        _ => None,
    }
}

fn when_blocking(event: &Envelope, item: Item) -> Option<Item> {
    match &event.payload {
        Payload::ToolCallStarted(started) if started.tool == BLOCK => Some(item),
        _ => None,
    }
}

/// A result comes once more after its call was settled.
fn late(event: &Envelope) -> Option<Item> {
    let Payload::ToolCallFinished(finished) = &event.payload else { return None };
    let identity = Identity { attempt: 1, fence: event.epoch, generation: 0, resume: 0, run: event.run.clone() };
    Some(Item::Evidence {
        action: event.links.action?,
        call: finished.call,
        identity,
        output: "as I said".into(),
        status: CallStatus::Ok,
    })
}

fn base(name: &str, script: &str) -> Definition {
    Definition {
        allow: Vec::new(),
        ask: Vec::new(),
        budget: Default::default(),
        deny: Vec::new(),
        env: Vec::new(),
        instructions: "Do as the script says.".into(),
        interactive: false,
        model: ModelChoice { provider: "test".into(), name: script.into(), script: None, options: Default::default() },
        name: name.into(),
        on_crash: OnCrash::Resolve,
        permission_mode: PermissionMode::Bypass,
        queue: None,
        subagents: Default::default(),
        tools: [NOTE, MAIL, LOOK, STUDY, FAIL, BLOCK, PUT, SERVE].map(str::to_owned).to_vec(),
        workspace: "/".into(),
    }
}

/// The definition that a task moves to.
pub fn another() -> Blob {
    Blob::new(MEDIA_DEFINITION, base("another", "revised").to_bytes().expect("a definition of texts"))
}

/// The definition of a case's agent, and the bodies that it cites.
pub fn definition(case: &Case) -> (Definition, Vec<Blob>) {
    let child = Blob::new(MEDIA_DEFINITION, base("child", CHILD).to_bytes().expect("a definition of texts"));
    let reference: ContentRef = child.reference.clone();
    let mut definition = base("tester", case.name);
    definition.interactive = case.interactive;
    definition.on_crash = case.on_crash;
    definition.budget.tokens = case.tokens;
    definition.ask = case.ask.iter().map(|rule| (*rule).to_owned()).collect();
    definition.tools.extend(["AskUser", "Wait", "Task", "TodoWrite"].map(str::to_owned));
    definition.subagents.insert("child".into(), reference);
    (definition, vec![child, another()])
}
