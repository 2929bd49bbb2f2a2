use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plica_kernel::body::Body;
use plica_kernel::canonical::content_hash;
use plica_kernel::envelope::{Envelope, Links, Origin};
use plica_kernel::event::{
    CallStatus, DecisionKind, DecisionRecorded, LLMRequestFinished, LLMRequestStarted, Payload, RequestStatus,
    TaskCancelled, ToolCallFinished, ToolCallStarted, Usage,
};
use plica_kernel::id::{CallId, Epoch, RunId, Seq, TaskId};
use plica_kernel::time::Timestamp;
use plica_ports::Delta;

use super::screen::{Centre, Out, Reads, Screen};
use crate::talk::Style;

const STREAM: Style = Style { stream: true, escapes: false };

struct Inline;

impl Reads for Inline {
    fn about(&self, _: &TaskId) -> String {
        "agent: the goal".into()
    }

    fn text(&self, _: &TaskId, body: &Body) -> String {
        body.inline().unwrap_or("elsewhere").to_owned()
    }
}

fn task(name: &str) -> TaskId {
    TaskId::new(name).expect("a valid id")
}

fn call(index: u32) -> CallId {
    CallId { decision: Seq(7), index }
}

struct Stage {
    screen: Screen,
    now: Instant,
}

impl Stage {
    fn new(style: Style, centre: Centre) -> Self {
        Self { screen: Screen::new(style, centre), now: Instant::now() }
    }

    fn event(&mut self, name: &str, payload: impl Into<Payload>) {
        let event = Envelope {
            task: task(name),
            seq: Seq(1),
            actor: "engine".into(),
            origin: Origin::Engine,
            at: Timestamp::from_micros(1_796_000_000_000_000),
            epoch: Epoch(1),
            run: RunId::new("run").expect("a valid id"),
            links: Links::default(),
            more: 0,
            trace: None,
            metrics: BTreeMap::new(),
            prev: content_hash(b""),
            payload: payload.into(),
        };
        self.screen.event(&event, self.now, 80, &Inline);
    }

    fn says(&mut self, name: &str, words: &[&str]) {
        for word in words {
            self.screen.delta(&task(name), Delta::Text((*word).to_owned()));
        }
    }

    fn asks(&mut self, name: &str) {
        self.event(name, LLMRequestStarted { attempt: 1, model: "m".into() });
    }

    fn answered(&mut self, name: &str, kind: DecisionKind) {
        let usage = Usage { uncached: 10, output: 5, ..Usage::default() };
        let (extra, reply, stop, error) = (None, None, None, None);
        let (status, elapsed_ms, cost_nano_usd) = (RequestStatus::Ok, 1_000, Some(2_000));
        self.event(name, LLMRequestFinished { cost_nano_usd, elapsed_ms, error, extra, reply, status, stop, usage });
        self.event(name, DecisionRecorded { answer: None, calls: vec![], kind, over: 0 });
    }

    fn calls(&mut self, name: &str, index: u32, command: &str) {
        let args = Body::Inline(serde_json::json!({ "command": command }).to_string());
        self.event(
            name,
            ToolCallStarted { args, attempt: 1, call: call(index), files: Vec::new(), tool: "Bash".into() },
        );
    }

    fn returned(&mut self, name: &str, index: u32, status: CallStatus, output: &str) {
        let output = Body::Inline(output.into());
        self.event(
            name,
            ToolCallFinished {
                again: false,
                call: call(index),
                elapsed_ms: 20,
                files: vec![],
                files_over: 0,
                output,
                status,
                whole: None,
            },
        );
    }

    fn shown(&mut self) -> String {
        let shown = self.screen.take().into_iter().map(|out| match out {
            Out::Line(line) => format!("|{line}\n"),
            Out::Piece(piece) => piece,
            Out::Status(status) => format!("({status})"),
        });
        shown.collect()
    }
}

/// A round with two calls, and the reply that ends the turn.
fn round(stage: &mut Stage, name: &str) {
    stage.asks(name);
    stage.says(name, &["I ", "look."]);
    stage.answered(name, DecisionKind::Calls);
    stage.calls(name, 0, "ls");
    stage.calls(name, 1, "false");
    stage.returned(name, 0, CallStatus::Ok, "a\nb\n");
    stage.returned(name, 1, CallStatus::Error, "\n exit 1\n");
    stage.asks(name);
    stage.says(name, &["Two ", "files."]);
    stage.answered(name, DecisionKind::Finish);
}

/// CL-1: on a terminal text comes as it is said, and what was shown is known at the end.
#[test]
fn cl_1_a_terminal_shows_replies_as_they_come_and_each_call_with_its_outcome() {
    let mut stage = Stage::new(STREAM, Centre::Task(task("t")));
    round(&mut stage, "t");
    let calls = "|→ Bash ls\n|→ Bash false\n|  Bash ok, 20 ms: a (+1 line)\n|  error, 20 ms: exit 1\n";
    assert_eq!(stage.shown(), format!("I look.\n{calls}Two files.\n"));
    let ending = stage.screen.end();
    assert_eq!(ending.shown.as_deref(), Some("Two files."));
    let line = ending.totals.line();
    assert_eq!(line, "2 requests, 2 calls, 20 tokens in, 10 out, $0.000004, 2.0 s");
}

/// CL-4: where the answer is printed anyway, talk is in whole lines and the answer not among it.
#[test]
fn cl_4_in_plain_lines_the_answer_is_not_said_twice() {
    let mut stage = Stage::new(Style::PLAIN, Centre::Task(task("t")));
    round(&mut stage, "t");
    assert!(stage.shown().starts_with("|I look.\n|→ Bash ls\n"));
    assert_eq!((stage.shown(), stage.screen.end().shown), (String::new(), None));

    let mut stage = Stage::new(Style::PLAIN, Centre::Task(task("t")));
    round(&mut stage, "t");
    stage.shown();
    stage.asks("t");
    assert_eq!(stage.shown(), "|Two files.\n", "the turn went on, so it was no answer");
}

/// A call that another worker began is told by its name in the log.
#[test]
fn rc_2_the_outcome_of_a_call_that_another_began_names_it() {
    let mut stage = Stage::new(Style::PLAIN, Centre::Task(task("t")));
    stage.returned("t", 0, CallStatus::Unknown, "lost");
    assert_eq!(stage.shown(), "|  call 7.0 unknown, 20 ms: lost\n");
}

/// Tasks of a worker are told apart, whole line by whole line.
#[test]
fn cl_4_a_workers_tasks_are_told_apart_line_by_line() {
    let mut stage = Stage::new(STREAM, Centre::Worker);
    stage.asks("0198-aaaaaa");
    stage.asks("0198-bbbbbb.7.0.1");
    stage.shown();
    stage.says("0198-aaaaaa", &["one", " line\nand", " half"]);
    stage.says("0198-bbbbbb.7.0.1", &["other\n"]);
    assert_eq!(stage.shown(), "|[aaaaaa] one line\n|[bbbbbb.7.0.1] other\n");
    stage.event("0198-aaaaaa", TaskCancelled { reason: Some("enough".into()) });
    assert_eq!(stage.shown(), "|[aaaaaa] and half\n|[aaaaaa] cancelled enough; 1 request, 0 calls, 0 ms\n");
}

/// Nothing that a model or a tool says reaches the terminal as a command to it.
#[test]
fn cl_1_control_characters_are_harmless() {
    for style in [STREAM, Style::PLAIN] {
        for centre in [Centre::Task(task("t")), Centre::Worker] {
            let mut stage = Stage::new(style, centre);
            stage.asks("t");
            stage.says("t", &["a\u{1b}", "[2J\rb\u{7}\u{202e}\n"]);
            stage.screen.delta(&task("t"), Delta::Thinking("\u{9b}31m".into()));
            stage.answered("t", DecisionKind::Calls);
            stage.calls("t", 0, "echo \u{1b}]0;title\u{7}");
            stage.returned("t", 0, CallStatus::Ok, "\u{1b}[2J");
            let shown = stage.shown();
            assert!(shown.contains("a\u{fffd}[2J"), "{shown:?}");
            let acted_on = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!shown.contains(acted_on), "{shown:?}");
        }
    }
}

/// The status line says what is going on and for how long, on terminals that can take it back.
#[test]
fn cl_1_a_status_line_says_what_goes_on() {
    let mut stage = Stage::new(Style { stream: true, escapes: true }, Centre::Task(task("t")));
    stage.asks("t");
    stage.screen.tick(stage.now + Duration::from_millis(1_500), 80);
    assert_eq!(stage.shown(), "(\u{1b}[2m… the model 1.5 s\u{1b}[0m)");
    stage.answered("t", DecisionKind::Calls);
    stage.screen.take();
    stage.screen.tick(stage.now, 80);
    assert_eq!(stage.shown(), "", "nothing goes on");
    for index in 0..40 {
        stage.calls("t", index, "sleep 1");
    }
    stage.screen.take();
    stage.screen.tick(stage.now, 30);
    let status = stage.shown();
    assert!(status.chars().count() <= 30 + "()\u{1b}[2m\u{1b}[0m".len(), "{status:?}");
    let mut stage = Stage::new(STREAM, Centre::Task(task("t")));
    stage.asks("t");
    stage.screen.tick(stage.now, 80);
    assert_eq!(stage.shown(), "");
}
