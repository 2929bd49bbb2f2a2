//! How a line looks, where it ends, and whose it is.

use plica_kernel::id::TaskId;

use super::{Out, Screen};
use crate::render::harmless;

/// A line of one of several tasks ends at the next space after so many bytes.
const LINE: usize = 100;
/// The narrowest line that is worth cutting for.
const NARROW: usize = 20;

/// What a line's parts look like.
#[derive(Clone, Copy)]
pub(super) enum Look {
    Quiet,
    Bold,
    Good,
    Bad,
    Odd,
}

impl Screen {
    /// Lines of one of several tasks are shown as they are complete, or long enough.
    pub(super) fn show_whole_lines(&mut self, task: &TaskId) {
        if self.awaits_answer(task) {
            return;
        }
        loop {
            let Some(strip) = self.tasks.get_mut(task) else { return };
            let end = strip.pending.find('\n').or_else(|| {
                let (at, _) = strip.pending.char_indices().find(|(at, c)| *at >= LINE && *c == ' ')?;
                Some(at)
            });
            let Some(end) = end else { return };
            let line: String = strip.pending.drain(..=end).collect();
            self.say(task, &line);
        }
    }

    pub(super) fn show_pending(&mut self, task: &TaskId) {
        let Some(strip) = self.tasks.get_mut(task) else { return };
        let pending = std::mem::take(&mut strip.pending);
        for line in pending.lines() {
            self.say(task, line);
        }
    }

    /// A line that the model said.
    fn say(&mut self, task: &TaskId, line: &str) {
        let line = harmless(line.trim_end());
        if !line.is_empty() {
            let line = format!("{}{line}", self.name(task));
            self.out.push(Out::Line(line));
        }
    }

    pub(super) fn line(&mut self, task: &TaskId, look: Look, text: &str) {
        let line = format!("{}{}", self.name(task), self.paint(look, text));
        self.out.push(Out::Line(line));
    }

    /// Which task a line is of, where it may be another than the one in the centre.
    pub(super) fn name(&self, task: &TaskId) -> String {
        if self.is_centre(task) { String::new() } else { self.paint(Look::Quiet, &format!("[{}] ", short(task))) }
    }

    /// With the sequence that makes it look so (ECMA-48: SGR), where there are such.
    pub(super) fn paint(&self, look: Look, text: &str) -> String {
        if !self.style.escapes || text.is_empty() {
            return text.to_owned();
        }
        let code = match look {
            Look::Quiet => "2",
            Look::Bold => "1",
            Look::Good => "32",
            Look::Bad => "31",
            Look::Odd => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Columns that are left beside `taken` of them, never next to none.
pub(super) fn room(columns: usize, taken: usize) -> usize {
    columns.saturating_sub(taken).max(NARROW)
}

/// The end of a task's id, where ids of one day differ, with what makes it a subtask.
pub(super) fn short(task: &TaskId) -> String {
    let (root, rest) = task.as_str().split_at(task.as_str().find('.').unwrap_or(task.as_str().len()));
    let from = root.char_indices().rev().nth(5).map_or(0, |(at, _)| at);
    format!("{}{rest}", &root[from..])
}
