//! From what tasks do to what is shown of it: no clock, no terminal, no queue.

mod paint;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plica_kernel::body::Body;
use plica_kernel::envelope::Envelope;
use plica_kernel::event::{
    CallStatus, DecisionKind, LLMRequestFinished, MessageOrigin, MessagesAppended, Payload, RequestStatus, Role,
    SubtaskStatus, TaskSuspended, ToolCallFinished,
};
use plica_kernel::id::{CallId, TaskId};
use plica_kernel::message::{Block, read_blocks};
use plica_kernel::wake::WakeKey;
use plica_ports::Delta;

use self::paint::{Look, room, short};
use super::words::{self, arguments, span};
use super::{Ending, Totals};
use crate::render::{counted, cut, harmless, summary};
use crate::talk::Style;

/// Bytes of a reply that are remembered to know whether the answer was shown.
const REMEMBERED: usize = 1 << 20;
/// Characters of a message or an output that a line shows.
const GLIMPSE: usize = 100;

/// Whose doings are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Centre {
    /// One task, with what it spawns; its answer is printed when it is done.
    Task(TaskId),
    /// Whatever a worker takes.
    Worker,
}

/// One thing to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Out {
    /// A line of its own.
    Line(String),
    /// Text that goes on.
    Piece(String),
    /// What is going on, until something else is shown.
    Status(String),
}

/// Where what an event does not hold is read.
pub trait Reads {
    /// A task's agent and goal.
    fn about(&self, task: &TaskId) -> String;
    /// The text of a body that the task's log cites.
    fn text(&self, task: &TaskId, body: &Body) -> String;
}

/// One task on the screen.
#[derive(Default)]
struct Strip {
    asked: Option<Instant>,
    calls: BTreeMap<CallId, (String, Instant)>,
    /// Text that is not shown yet: the beginning of a line, or a reply that may be the answer.
    pending: String,
    /// What of this request's reply came, up to a bound.
    reply: String,
    thinks: bool,
    totals: Totals,
}

/// What is shown of tasks.
pub struct Screen {
    style: Style,
    centre: Centre,
    tasks: BTreeMap<TaskId, Strip>,
    /// The call that the last line began: the next line need not name it.
    last_begun: Option<(TaskId, CallId)>,
    /// What tasks took that are shown no more.
    totals: Totals,
    out: Vec<Out>,
}

impl Screen {
    pub fn new(style: Style, centre: Centre) -> Self {
        let (tasks, totals) = (BTreeMap::new(), Totals::default());
        Self { style, centre, tasks, last_begun: None, totals, out: Vec::new() }
    }

    /// What is to be shown since it was last asked for.
    pub fn take(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    /// Nothing more comes. A reply that may be the answer is not shown: it is printed.
    pub fn end(&mut self) -> Ending {
        let tasks = std::mem::take(&mut self.tasks);
        tasks.values().for_each(|strip| self.totals.add(&strip.totals));
        let shown = match &self.centre {
            Centre::Task(task) if self.style.stream => tasks.get(task).map(|strip| strip.reply.clone()),
            _ => None,
        };
        Ending { totals: self.totals, shown: shown.filter(|reply| !reply.is_empty() && reply.len() < REMEMBERED) }
    }

    /// A piece of a reply.
    pub fn delta(&mut self, task: &TaskId, delta: Delta) {
        let streams = self.style.stream && self.is_centre(task);
        let strip = self.tasks.entry(task.clone()).or_default();
        match delta {
            Delta::Thinking(text) if streams => {
                let begins = !std::mem::replace(&mut strip.thinks, true);
                let text = if begins { format!("(thinking) {text}") } else { text };
                let text = self.paint(Look::Quiet, &harmless(&text));
                self.out.push(Out::Piece(text));
            }
            Delta::Thinking(_) => {}
            Delta::Text(text) => {
                if strip.reply.len() < REMEMBERED {
                    strip.reply.push_str(&text);
                }
                if !streams {
                    strip.pending.push_str(&text);
                    return self.show_whole_lines(task);
                }
                if std::mem::take(&mut strip.thinks) {
                    self.out.push(Out::Piece("\n".into()));
                }
                self.out.push(Out::Piece(harmless(&text)));
            }
        }
    }

    /// Says what is going on where nothing was shown for a while.
    pub fn tick(&mut self, now: Instant, columns: usize) {
        if !self.style.escapes {
            return;
        }
        let busy = self.tasks.values().flat_map(|strip| {
            let asked = strip.asked.map(|since| ("the model".to_owned(), since));
            strip.calls.values().cloned().chain(asked)
        });
        let busy: Vec<(String, Instant)> = busy.collect();
        let Some(since) = busy.iter().map(|(_, since)| *since).min() else { return };
        let names = busy.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let text = format!("… {} {}", cut(&names, room(columns, 16)), span(now.saturating_duration_since(since)));
        // It is taken back by what comes next, which it must not have made the terminal wrap.
        let text = self.paint(Look::Quiet, &cut(&text, columns.saturating_sub(1)));
        self.out.push(Out::Status(text));
    }

    /// A committed event.
    pub fn event(&mut self, event: &Envelope, now: Instant, columns: usize, reads: &dyn Reads) {
        let task = &event.task;
        if self.centre == Centre::Worker && !self.tasks.contains_key(task) {
            self.tasks.insert(task.clone(), Strip::default());
            self.line(task, Look::Quiet, &format!("task {task} {}", cut(&reads.about(task), room(columns, 60))));
        }
        match &event.payload {
            Payload::LLMRequestStarted(_) => self.asked(task, now),
            Payload::LLMRequestFinished(finished) => self.answered(task, finished),
            Payload::LLMRetryScheduled(retry) => {
                let wait = Duration::from_millis(retry.due.millis_since(event.at));
                self.line(task, Look::Odd, &format!("asking again in {}", span(wait)));
            }
            Payload::DecisionRecorded(decision) => match decision.kind {
                DecisionKind::Calls => self.show_pending(task),
                DecisionKind::Truncated => {
                    self.show_pending(task);
                    self.line(task, Look::Odd, "the reply was cut off at its length limit");
                }
                DecisionKind::Empty => self.line(task, Look::Odd, "the reply was empty"),
                DecisionKind::Finish => {}
            },
            Payload::MessagesAppended(messages) => self.messages(task, messages, reads),
            Payload::ToolCallStarted(call) => {
                let args = arguments(&reads.text(task, &call.args), room(columns, call.tool.len() + 16));
                self.begins(task, &call.tool, &args);
                let strip = self.tasks.entry(task.clone()).or_default();
                strip.totals.calls += u64::from(call.attempt == 1);
                strip.calls.insert(call.call, (cut(&call.tool, GLIMPSE), now));
                self.last_begun = Some((task.clone(), call.call));
            }
            Payload::ToolCallFinished(call) => self.finished(task, call, columns, reads),
            Payload::ToolCallDenied(call) => {
                self.show_pending(task);
                let reason = cut(&reads.text(task, &call.reason), GLIMPSE);
                self.line(task, Look::Bad, &format!("  {} denied: {reason}", cut(&call.tool, GLIMPSE)));
            }
            Payload::SubtaskSpawned(child) => {
                let goal = cut(&reads.text(task, &child.goal), GLIMPSE);
                self.begins(task, "Task", &format!("{} {}: {goal}", short(&child.child), cut(&child.agent, GLIMPSE)));
            }
            Payload::SubtaskCompleted(ended) => {
                self.show_pending(task);
                let (look, status) = match ended.status {
                    SubtaskStatus::Completed => (Look::Good, "completed"),
                    SubtaskStatus::Failed => (Look::Bad, "failed"),
                    SubtaskStatus::Cancelled => (Look::Odd, "cancelled"),
                };
                let answer = cut(&reads.text(task, &ended.answer), GLIMPSE);
                self.line(task, look, &format!("  {} {status}: {answer}", short(&ended.child)));
            }
            Payload::TaskStatePatched(patched) => {
                if let Some(todos) = &patched.patch.todos {
                    self.line(task, Look::Quiet, &words::todos(&reads.text(task, todos)));
                }
            }
            Payload::TaskSuspended(suspended) => self.suspended(task, suspended, event),
            payload => self.other(task, payload),
        }
    }

    /// What needs no more than its own words.
    fn other(&mut self, task: &TaskId, payload: &Payload) {
        let (look, words) = match payload {
            Payload::ApprovalResolved(_) => (Look::Quiet, ""),
            // What the task in the centre asks is told when it comes to rest, with how to answer.
            Payload::ApprovalRequested(_) | Payload::QuestionAsked(_) if self.is_centre(task) => return,
            Payload::ApprovalRequested(_) => (Look::Odd, "asks about "),
            Payload::QuestionAsked(_) => (Look::Odd, "asks "),
            Payload::QuestionAnswered(_) => (Look::Quiet, "answered "),
            Payload::BackgroundJobStarted(_) => (Look::Quiet, "goes on in the background: "),
            Payload::BackgroundJobEnded(_) => (Look::Quiet, "a background job has ended: "),
            Payload::TurnInterrupted(_) => (Look::Odd, "interrupted "),
            Payload::StepAttemptAbandoned(_) => (Look::Odd, "the attempt was given up: "),
            Payload::TaskRewound(_) => (Look::Odd, "rewound "),
            Payload::FilesRestored(_) => (Look::Quiet, "files put back: "),
            Payload::StepAttemptResumed(_) => (Look::Quiet, "the attempt goes on "),
            Payload::TaskCompleted(_) => return self.rests(task, Look::Good, "done"),
            Payload::TaskFailed(_) => return self.rests(task, Look::Bad, &format!("failed: {}", summary(payload))),
            Payload::TaskCancelled(_) => {
                return self.rests(task, Look::Odd, &format!("cancelled {}", summary(payload)));
            }
            _ => return,
        };
        self.show_pending(task);
        let text = format!("{words}{}", summary(payload));
        self.line(task, look, text.trim_end());
    }

    /// A task that ended, or that a worker put aside, with what it took here; how the task in the
    /// centre came to rest is told elsewhere.
    fn rests(&mut self, task: &TaskId, look: Look, words: &str) {
        if self.is_centre(task) {
            return;
        }
        self.show_pending(task);
        let strip = self.tasks.remove(task).unwrap_or_default();
        self.totals.add(&strip.totals);
        self.line(task, look, &format!("{}; {}", words.trim_end(), strip.totals.line()));
    }

    fn asked(&mut self, task: &TaskId, now: Instant) {
        // The turn goes on, so what was said was not the answer.
        self.show_pending(task);
        let strip = self.tasks.entry(task.clone()).or_default();
        strip.totals.requests += 1;
        strip.asked = Some(now);
        strip.reply.clear();
    }

    fn answered(&mut self, task: &TaskId, finished: &LLMRequestFinished) {
        let strip = self.tasks.entry(task.clone()).or_default();
        strip.asked = None;
        strip.totals.answered(&finished.usage, finished.cost_nano_usd, finished.elapsed_ms);
        let thought = std::mem::take(&mut strip.thinks);
        if self.style.stream && self.is_centre(task) && (thought || !self.reply(task).is_empty()) {
            self.out.push(Out::Piece(if self.reply(task).ends_with('\n') && !thought { "" } else { "\n" }.into()));
        }
        if !self.awaits_answer(task) {
            self.show_pending(task);
        }
        match (&finished.error, finished.status) {
            (Some(error), _) => {
                let why = format!("the model failed: {}: {}", error.kind, cut(&error.message, 3 * GLIMPSE));
                self.line(task, Look::Bad, &why);
            }
            (None, RequestStatus::Interrupted) => self.line(task, Look::Odd, "the request was cut off"),
            (None, RequestStatus::Cancelled) => self.line(task, Look::Odd, "the request was broken off"),
            (None, RequestStatus::Ok | RequestStatus::Error) => {}
        }
    }

    /// What people said meanwhile, and what the engine tells the model.
    fn messages(&mut self, task: &TaskId, appended: &MessagesAppended, reads: &dyn Reads) {
        for message in &appended.messages {
            let said = match (message.role, message.origin) {
                (Role::Assistant, _) => continue,
                (_, Some(MessageOrigin::Human)) => "»",
                _ => "system:",
            };
            let blocks = reads.text(task, &message.blocks);
            // What is too long to be read for a line is told by its size.
            let blocks = read_blocks(&blocks).unwrap_or_else(|_| vec![Block::Text { text: blocks }]);
            let words = blocks.iter().filter_map(|block| match block {
                Block::Text { text } => Some(text.as_str()),
                Block::ToolUse { .. } | Block::Thinking { .. } => None,
            });
            let words = cut(&words.collect::<Vec<_>>().join(" "), GLIMPSE);
            self.line(task, Look::Quiet, &format!("{said} {words}"));
        }
    }

    fn begins(&mut self, task: &TaskId, tool: &str, args: &str) {
        self.show_pending(task);
        let line = format!("→ {} {args}", self.paint(Look::Bold, &cut(tool, GLIMPSE)));
        let line = format!("{}{}", self.name(task), line.trim_end());
        self.out.push(Out::Line(line));
    }

    fn finished(&mut self, task: &TaskId, call: &ToolCallFinished, columns: usize, reads: &dyn Reads) {
        let strip = self.tasks.entry(task.clone()).or_default();
        strip.totals.time += Duration::from_millis(call.elapsed_ms);
        let begun = strip.calls.remove(&call.call);
        let follows = self.last_begun.take_if(|last| (&last.0, last.1) == (task, call.call)).is_some();
        let tool = match begun {
            Some(_) if follows => String::new(),
            Some((tool, _)) => format!("{tool} "),
            // Another worker began it.
            None => format!("call {} ", call.call),
        };
        let (look, status) = match call.status {
            CallStatus::Ok => (Look::Good, "ok"),
            CallStatus::Recovered => (Look::Good, "recovered"),
            CallStatus::Error => (Look::Bad, "error"),
            CallStatus::Interrupted => (Look::Odd, "interrupted"),
            CallStatus::Unknown => (Look::Odd, "unknown"),
            CallStatus::Cancelled => (Look::Odd, "cancelled"),
        };
        let took = span(Duration::from_millis(call.elapsed_ms));
        let output = reads.text(task, &call.output);
        let lines = output.lines().filter(|line| !line.trim().is_empty()).count();
        let first = output.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let more = if lines > 1 { format!(" (+{})", counted(lines as u64 - 1, "line")) } else { String::new() };
        let first = cut(first, room(columns, tool.len() + status.len() + took.len() + more.len() + 8));
        let glimpse = if first.is_empty() { String::new() } else { format!(": {first}{more}") };
        let line = format!(
            "{}  {tool}{}, {took}{}",
            self.name(task),
            self.paint(look, status),
            self.paint(Look::Quiet, &glimpse)
        );
        self.out.push(Out::Line(line));
    }

    /// `run` tells how it came to an end itself; what it waits out is told here.
    fn suspended(&mut self, task: &TaskId, suspended: &TaskSuspended, event: &Envelope) {
        let timer =
            suspended.wake.at.map(|at| format!("waits for {}", span(Duration::from_millis(at.millis_since(event.at)))));
        let waits = |wanted: fn(&WakeKey) -> bool| suspended.wake.any.iter().any(|one| wanted(&one.key));
        if self.centre == Centre::Worker {
            return self.rests(task, Look::Quiet, &summary(&event.payload));
        }
        match timer {
            Some(timer) => self.line(task, Look::Quiet, &timer),
            None if waits(|key| matches!(key, WakeKey::Group(_))) => {
                self.line(task, Look::Quiet, "waits for its subtasks")
            }
            None if waits(|key| *key == WakeKey::Background) => {
                self.line(task, Look::Quiet, "waits for what goes on in the background");
            }
            None => {}
        }
    }

    fn is_centre(&self, task: &TaskId) -> bool {
        matches!(&self.centre, Centre::Task(centre) if centre == task)
    }

    /// Whether a reply may be the answer that is printed when the task is done.
    fn awaits_answer(&self, task: &TaskId) -> bool {
        self.is_centre(task) && !self.style.stream
    }

    fn reply(&self, task: &TaskId) -> &str {
        self.tasks.get(task).map_or("", |strip| &strip.reply)
    }
}
