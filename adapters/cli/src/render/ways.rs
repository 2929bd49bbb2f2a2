//! What would wake a waiting task: what it waits for, and the command that brings it.

use plica_kernel::id::{CallId, TaskId};
use plica_kernel::state::{OpenChild, Task, UnknownCall};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::WakeKey;

use super::budget::more_budget;
use super::jobs::jobs_waited_for;
use super::text::{clean, cut};
use super::{counted, span};
use crate::commands::word;

/// Characters of a call's arguments.
const ARGS_CHARS: usize = 200;
/// Characters of a question.
const QUESTION_CHARS: usize = 200;

/// An open subtask of a task, and what it is doing.
pub struct Subtask {
    /// The subtask.
    pub id: TaskId,
    /// What it is doing, as in `waits for …` or `is running`.
    pub doing: String,
}

/// What stands around a task.
#[derive(Default)]
pub struct Around {
    /// Its open subtasks.
    pub subtasks: Vec<Subtask>,
    /// Calls that people have answered, ruled on or said a word of, which is still to be taken.
    pub answered: Vec<CallId>,
}

/// One way to wake a task.
pub(super) struct Way {
    /// What is waited for.
    pub what: String,
    /// What brings it about, with the command to type where a person can.
    how: Option<String>,
}

impl Way {
    /// What somebody brings about.
    pub(super) fn by(what: String, how: String) -> Self {
        Self { what, how: Some(how) }
    }

    /// What comes by itself.
    fn alone(what: String) -> Self {
        Self { what, how: None }
    }

    pub(super) fn line(self) -> String {
        match self.how {
            // A list stands below.
            Some(list) if list.starts_with('\n') => format!("{}:{list}", self.what),
            Some(how) => format!("{}: {how}", self.what),
            None => self.what,
        }
    }
}

/// What would wake a waiting task, each way with the command to type.
pub fn ways_to_wake(state: &Task, around: &Around, now: Timestamp) -> Vec<String> {
    ways(state, around, now).into_iter().map(Way::line).collect()
}

pub(super) fn ways(state: &Task, around: &Around, now: Timestamp) -> Vec<Way> {
    let mut ways = asked_of_people(state, around);
    for alternative in &state.wake().any {
        match &alternative.key {
            WakeKey::Message => {
                ways.push(by_message(state));
                let unknown = state.runtime().unknown.iter();
                let unknown = unknown.filter(|unknown| !around.answered.contains(&unknown.call));
                ways.extend(unknown.map(|unknown| on_word(state.id(), unknown)));
            }
            WakeKey::Event(kind) => ways.push(Way::by(
                format!("the event {}", clean(kind)),
                format!("`plica signal {} --kind {}`", state.id(), word(kind)),
            )),
            WakeKey::Background => {
                ways.extend(jobs_waited_for(state).map(Way::alone));
                let goes_on = |child: &OpenChild| child.background && !child.any;
                ways.extend(of_subtasks(state, alternative.need, around, goes_on));
            }
            WakeKey::Group(decision) => {
                let of_group = |child: &OpenChild| child.call.decision == *decision && (child.any || !child.background);
                ways.extend(of_subtasks(state, alternative.need, around, of_group));
            }
            WakeKey::Answer(_) => {}
        }
    }
    if let Some(at) = state.wake().at {
        ways.push(Way::alone(format!("the time {at}, in {}", span(at.millis_since(now)))));
    }
    if ways.is_empty() {
        ways.push(Way::alone("a worker to take what was delivered to it".to_owned()));
    }
    ways
}

/// The rulings and answers that nobody has given yet.
pub(super) fn asked_of_people(state: &Task, around: &Around) -> Vec<Way> {
    let (id, governance) = (state.id(), state.governance());
    let is_open = |call: &CallId| !around.answered.contains(call);
    let approvals = governance.approvals.iter().filter(|(call, approval)| approval.resolved.is_none() && is_open(call));
    let rulings = approvals.map(|(call, approval)| match approval.grants() {
        Some(grants) => more_budget(id, *call, grants, governance),
        None => {
            let args = approval.args.inline().map(|args| cut(args, ARGS_CHARS));
            let args = args.unwrap_or_else(|| "(long arguments)".to_owned());
            Way::by(
                format!("a ruling on {} {args}", clean(&approval.tool)),
                format!("`plica approve {id} --call {call}` or `plica deny {id} --call {call}`"),
            )
        }
    });
    let answers = governance.questions.iter().filter(|(call, _)| is_open(call)).map(|(call, question)| {
        let question = question.inline().map(|text| cut(text, QUESTION_CHARS));
        let question = question.unwrap_or_else(|| "(a long question)".to_owned());
        Way::by(format!("an answer to {question:?}"), format!("`plica answer {id} --question {call} TEXT`"))
    });
    rulings.chain(answers).collect()
}

/// A closed conversation takes no message until it is opened again.
fn by_message(state: &Task) -> Way {
    let id = state.id();
    if state.is_closed() {
        return Way::by("a message, but is closed".to_owned(), format!("`plica reopen {id}` opens it"));
    }
    Way::by("a message".to_owned(), format!("`plica send {id} TEXT`"))
}

/// What a person may say of calls whose outcome is unknown while the task waits for something
/// else: it is taken with what ends the wait.
pub(super) fn words_beside(state: &Task, around: &Around) -> Vec<String> {
    let is_opened_by_words = state.wake().any.iter().any(|one| one.key == WakeKey::Message);
    let unknown = state.runtime().unknown.iter().filter(|_| !is_opened_by_words);
    let word = |unknown: &UnknownCall| {
        if around.answered.contains(&unknown.call) {
            return format!("the word on call {} ({}) that was delivered", unknown.call, clean(&unknown.tool));
        }
        on_word(state.id(), unknown).line()
    };
    unknown.map(word).collect()
}

/// How a person says what became of a call whose outcome is unknown.
fn on_word(task: &TaskId, unknown: &UnknownCall) -> Way {
    let UnknownCall { call, tool, .. } = unknown;
    Way::by(
        format!("a word on call {call} ({}), whose outcome is unknown", clean(tool)),
        format!("`plica resolve {task} --call {call} --landed TEXT`, or `--not-landed` to run it now, or `--skip`"),
    )
}

/// The subtasks that are waited for, a line for each of which it is known what it is doing;
/// nothing when there are none.
fn of_subtasks(state: &Task, need: u32, around: &Around, is_waited_for: impl Fn(&OpenChild) -> bool) -> Option<Way> {
    let children = state.governance().children().map(|(_, child)| child);
    let waited_for: Vec<&TaskId> = children.filter(|child| is_waited_for(child)).map(|child| &child.child).collect();
    if waited_for.is_empty() {
        return None;
    }
    let mut doing = String::new();
    for subtask in around.subtasks.iter().filter(|subtask| waited_for.contains(&&subtask.id)) {
        doing.push_str(&format!("\n    {} {}", subtask.id, subtask.doing.replace('\n', "\n    ")));
    }
    Some(Way::by(format!("{need} of {}", counted(waited_for.len() as u64, "subtask")), doing))
}
