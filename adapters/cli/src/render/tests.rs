use plica_kernel::body::{Blob, Body, ContentRef};
use plica_kernel::canonical::Hash;
use plica_kernel::envelope::{Envelope, Links, Origin};
use plica_kernel::event::*;
use plica_kernel::id::{Epoch, InstanceId, LedgerId, Position, Queue, RunId, Seq, TaskId, WorkerId};
use plica_kernel::row::{Blocked, Projection};
use plica_kernel::wake::{Alternative, Wake, WakeKey, Woken};
use plica_ports::store::{Facts, Worker};

use super::*;

const HASH: Hash = Hash::from_bytes([0; 32]);
const NOW: i64 = 1_796_031_682_123_456;

fn now() -> Timestamp {
    Timestamp::from_micros(NOW)
}

fn row(id: &str, status: Status, goal: &str) -> Row {
    Row {
        id: TaskId::new(id).unwrap(),
        facts: Facts {
            agent: "coder".into(),
            goal: goal.into(),
            parent: None,
            source: None,
            queue: Queue::main(),
            priority: 2,
            labels: Default::default(),
            not_before: None,
            created_at: now(),
        },
        projection: Projection { seq: Seq(1), hash: HASH, status, wake: Wake::default(), closed: false },
        updated_at: Timestamp::from_micros(NOW - 61_000_000),
        epoch: Epoch(0),
        holder: None,
        run: None,
        acquired_at: None,
        lease_until: None,
        claimable_at: None,
        inbox_tail: Position(0),
        idle_claims: 0,
        blocked: None,
    }
}

fn held(mut row: Row, until: i64) -> Row {
    row.holder = Some(Worker {
        id: WorkerId::new("w").unwrap(),
        instance: InstanceId::new("i").unwrap(),
        host: "h".into(),
        version: "v".into(),
        process: None,
    });
    row.lease_until = Some(Timestamp::from_micros(NOW + until));
    row
}

#[test]
fn cl_8_a_list_is_aligned_and_says_why_a_task_does_not_move() {
    let mut later = row("later", Status::Ready, "g");
    later.claimable_at = Some(now().plus_millis(900_000));
    let mut blocked = row("blocked", Status::Ready, "g");
    blocked.blocked = Some(Blocked::Poison);
    let rows = [
        row("a-long-task-id", Status::Completed, "Make the\ntests\t pass"),
        held(row("b", Status::Running, "g"), 1_000_000),
        held(row("c", Status::Running, "g"), -1_000_000),
        held(row("d", Status::Ready, "g"), 1_000_000),
        later,
        blocked,
        row("e", Status::Waiting, &"x".repeat(61)),
    ];
    let expected = "\
TASK            STATUS              AGENT  UPDATED  GOAL
a-long-task-id  completed           coder  1m ago   Make the tests pass
b               running             coder  1m ago   g
c               running, no worker  coder  1m ago   g
d               ready, claimed      coder  1m ago   g
later           ready, in 15m       coder  1m ago   g
blocked         ready, blocked      coder  1m ago   g
e               waiting             coder  1m ago   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
";
    assert_eq!(task_table(&rows, now()), expected);
    assert_eq!(task_table(&[], now()), "");
}

#[test]
fn cl_8_spans_are_in_their_largest_unit() {
    for (millis, text) in [
        (0, "0s"),
        (59_999, "59s"),
        (60_000, "1m"),
        (3_599_999, "59m"),
        (3_600_000, "1h"),
        (86_400_000, "1d"),
        (u64::MAX, "213503982334d"),
    ] {
        assert_eq!(span(millis), text);
    }
}

fn event(origin: Origin, actor: &str, payload: impl Into<Payload>) -> Envelope {
    Envelope {
        task: TaskId::new("t").unwrap(),
        seq: Seq(12),
        actor: actor.into(),
        origin,
        at: now(),
        epoch: Epoch(1),
        run: RunId::new("r").unwrap(),
        links: Links::default(),
        more: 0,
        trace: None,
        metrics: Default::default(),
        prev: HASH,
        payload: payload.into(),
    }
}

fn inline(text: &str) -> Body {
    Body::Inline(text.into())
}

fn call(text: &str) -> CallId {
    text.parse().unwrap()
}

fn reference() -> ContentRef {
    ContentRef::of("text/plain", b"abc")
}

#[test]
fn cl_9_an_event_is_one_line() {
    let started = ToolCallStarted {
        args: inline(r#"{"command":"ls"}"#),
        attempt: 1,
        call: call("9.0"),
        files: Vec::new(),
        tool: "Bash".into(),
    };
    for (event, line) in [
        (
            event(Origin::Tool, "engine", started.clone()),
            r#"   12  2026-11-30T09:41:22Z  ToolCallStarted       tool/engine  9.0 Bash {"command":"ls"}"#,
        ),
        (
            event(Origin::Llm, "llm", LLMRequestStarted { attempt: 2, model: "m".into() }),
            "   12  2026-11-30T09:41:22Z  LLMRequestStarted     llm         m (attempt 2)",
        ),
        (
            event(Origin::System, "user:ada\n\u{1b}[2J", TaskCancelled { reason: None }),
            "   12  2026-11-30T09:41:22Z  TaskCancelled         system/user:ada \u{fffd}[2J",
        ),
    ] {
        assert_eq!(event_line(&event), line);
    }
}

#[test]
fn cl_9_a_summary_says_what_matters() {
    let created = TaskCreated {
        background: false,
        agent: "coder".into(),
        budget: Budget::default(),
        call: None,
        definition: reference(),
        depth: 0,
        goal: inline("Go.\nNow."),
        interactive: false,
        key: None,
        labels: Default::default(),
        ledger: LedgerId::new("l").unwrap(),
        not_before: None,
        parent: None,
        priority: 2,
        queue: Queue::main(),
    };
    let mut blobs: Vec<Blob> = vec![];
    let blocks = [
        Block::Text { text: "hi".into() },
        Block::ToolUse { args: "{}".into(), id: None, tool: "Read".into() },
        Block::Thinking { signature: None, text: "secret".into() },
    ];
    let blocks = plica_kernel::message::blocks_body(&blocks, &mut blobs).unwrap();
    let message = |role, blocks| Message { blocks, origin: None, role };
    let wake = Wake {
        any: vec![
            Alternative { key: WakeKey::Answer(Seq(9)), need: 2 },
            Alternative { key: WakeKey::Event("go".into()), need: 1 },
        ],
        at: Some(now()),
    };
    let entry = |tool: &str| CallEntry { rule: None, tool: tool.into(), wait: None };
    let payloads: [(Payload, &str); 17] = [
        (created.into(), "coder: Go. Now."),
        (
            MessagesAppended {
                jobs: vec![],
                messages: vec![message(Role::Assistant, blocks), message(Role::User, Body::Ref(reference()))],
            }
            .into(),
            "assistant: hi -> Read (thinking); user: (3 bytes)",
        ),
        (
            LLMRequestFinished {
                cost_nano_usd: None,
                elapsed_ms: 7,
                error: None,
                extra: None,
                reply: None,
                status: RequestStatus::Ok,
                stop: None,
                usage: Usage { uncached: 1, cache_read: 2, cache_write: 3, output: 4, reasoning: 0 },
            }
            .into(),
            "ok in 7 ms, 6 tokens in, 4 out",
        ),
        (
            DecisionRecorded {
                answer: None,
                calls: vec![entry("Read"), entry("Bash")],
                kind: DecisionKind::Calls,
                over: 3,
            }
            .into(),
            "calls Read, Bash, 3 too many",
        ),
        (
            TaskStatePatched {
                call: None,
                patch: TaskStatePatch { phase: Some("p".into()), goal: Some(inline("g")), ..Default::default() },
            }
            .into(),
            "goal, phase",
        ),
        (
            ToolCallFinished {
                again: false,
                call: call("9.1"),
                elapsed_ms: 5,
                files: vec![],
                files_over: 0,
                output: Body::Ref(reference()),
                status: CallStatus::Unknown,
                whole: None,
            }
            .into(),
            "9.1 unknown in 5 ms: (3 bytes)",
        ),
        (
            ApprovalResolved {
                call: call("9.1"),
                digest: HASH,
                reason: Some(inline("too risky")),
                verdict: ApprovalVerdict::Deny,
            }
            .into(),
            "9.1 denied: too risky",
        ),
        (
            TaskSuspended { answer: None, failure: None, reason: SuspendReason::Calls, wake }.into(),
            "waits for its calls (2 x answer:9 or event:go or 2026-11-30T09:41:22.123456Z)",
        ),
        (
            TaskSuspended {
                answer: None,
                failure: Some(Failure { detail: Some("no key".into()), reason: FailureReason::LlmError }),
                reason: SuspendReason::Failed,
                wake: Wake::on(WakeKey::Message),
            }
            .into(),
            "turn failed, waits for a message: llm_error: no key",
        ),
        (
            TaskWoken {
                item: Woken {
                    data: None,
                    due: None,
                    key: Some(WakeKey::Answer(Seq(9))),
                    kind: "verdict".into(),
                    position: None,
                },
            }
            .into(),
            "verdict (answer:9)",
        ),
        (
            TaskWoken { item: Woken { data: None, due: Some(now()), key: None, kind: "timer".into(), position: None } }
                .into(),
            "timer (2026-11-30T09:41:22.123456Z)",
        ),
        (
            TaskWoken {
                item: Woken {
                    data: None,
                    due: None,
                    key: Some(WakeKey::Message),
                    kind: "message".into(),
                    position: None,
                },
            }
            .into(),
            "message",
        ),
        (StepAttemptAbandoned { from_seq: Seq(4), verdict: SealVerdict::Park }.into(), "park, from event 4"),
        (StepAttemptResumed { seal: Seq(9) }.into(), "event 9 parked it"),
        (FilesRestoring { files: 2, plan: ContentRef::of("application/json", b"{}") }.into(), "2 files"),
        (
            FilesRestored { left: Some(Body::Inline("[]".into())), plan: Seq(7), restored: 1 }.into(),
            "1 file as before, left: []",
        ),
        (TaskFailed { detail: None, reason: FailureReason::Budget }.into(), "budget"),
    ];
    for (payload, expected) in payloads {
        let line = event_line(&event(Origin::Engine, "engine", payload));
        let summary = line.split_once("  engine      ").map(|(_, summary)| summary);
        assert_eq!(summary, Some(expected));
    }
}

#[test]
fn cl_8_a_conversation_is_shown_by_speaker() {
    let blocks = [
        Block::Text { text: "one\n\n\ttwo\u{1b}]0;x\u{7}\u{202e}".into() },
        Block::Thinking { signature: None, text: "hm".into() },
        Block::ToolUse { args: "{\"a\":\n1}".into(), id: None, tool: "Re\nad".into() },
    ];
    assert_eq!(
        message_lines(Role::Assistant, None, &blocks),
        "assistant:\n  one\n\n  \ttwo\u{fffd}]0;x\u{fffd}\u{fffd}\n  (thinking) hm\n  -> Re ad {\"a\": 1}\n"
    );
    for (role, origin, speaker) in [
        (Role::User, Some(MessageOrigin::Human), "human"),
        (Role::User, Some(MessageOrigin::System), "system"),
        (Role::User, Some(MessageOrigin::Memory), "memory"),
        (Role::User, None, "user"),
        (Role::System, None, "system"),
    ] {
        assert_eq!(message_lines(role, origin, &[]), format!("{speaker}:\n"));
    }
    assert_eq!(result_lines(call("9.0"), "Bash", ResultStatus::Ok, "a\nb\n"), "Bash 9.0 ok:\n  a\n  b\n");
    let long = "x\n".repeat(RESULT_LINES + 2);
    let shown = result_lines(call("9.0"), "Bash", ResultStatus::Error, &long);
    assert!(shown.starts_with("Bash 9.0 error:\n  x\n") && shown.ends_with("  x\n  … 2 more lines\n"), "{shown}");
}

#[test]
fn cl_8_a_long_text_is_cut_to_one_line() {
    for (text, chars, expected) in [
        ("", 5, ""),
        ("12345", 5, "12345"),
        ("123456", 5, "1234…"),
        (" 1 \r\n 2 ", 5, "1 2"),
        ("折折折折折折", 5, "折折折折…"),
    ] {
        assert_eq!(text::cut(text, chars), expected);
    }
    assert_eq!(text::cut(&" ".repeat(1_000_000), 5), "…");
}

#[test]
fn cl_1_sizes_are_told_in_their_largest_unit() {
    for (bytes, told) in [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1023.9 KiB"),
        (5 << 30, "5.0 GiB"),
        (u64::MAX, "16777215.9 TiB"),
    ] {
        assert_eq!(size(bytes), told);
    }
}
