//! Plain text for people: rows, events and messages as lines. Pure functions without colour;
//! programs use `--json`.
//!
//! What models, tools and people wrote is shown with its control characters taken out, so no
//! stored text can move the cursor, retitle the terminal or forge another line.

mod budget;
mod event;
mod jobs;
mod show;
mod text;
mod ways;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plica_kernel::envelope::Envelope;
use plica_kernel::event::{MessageOrigin, Role};
use plica_kernel::id::{CallId, TaskId};
use plica_kernel::message::Block;
use plica_kernel::row::Status;
use plica_kernel::state::ResultStatus;
use plica_kernel::time::Timestamp;
use plica_ports::store::Row;

pub use event::summary;
pub use jobs::jobs_lost_here;
pub use show::{Attendance, failure_words, show, show_row};
pub use ways::{Around, Subtask, ways_to_wake};

use crate::args::origin_name;
use text::indented;
pub use text::{clean, cut, harmless};

/// Characters of a goal in a list.
const GOAL_CHARS: usize = 60;
/// Characters of an agent's name in a list.
const AGENT_CHARS: usize = 20;
/// Characters of a call's arguments in a conversation.
const ARGS_CHARS: usize = 200;
/// Characters of an actor in a line of an event.
const ACTOR_CHARS: usize = 40;
/// Width of the column of types; the few longer names push the rest to the right.
const TYPE_WIDTH: usize = 20;
/// Lines of a call's result in a conversation.
const RESULT_LINES: usize = 12;

/// A text on one line, whatever a terminal would make of it.
pub fn line(text: &str) -> String {
    text::clean(text)
}

/// The tasks as a table with a head line, in the order given; `now` is the store's time. No
/// tasks are no lines: that there are none is said elsewhere than on standard output.
pub fn task_table(rows: &[Row], now: Timestamp) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = vec![TABLE_HEAD.map(str::to_owned)];
    table.extend(rows.iter().map(|row| table_line(row, row.id.to_string(), now)));
    aligned(&table)
}

/// Roots in the order given, each with its subtasks below it in the order of their creation,
/// indented by depth.
pub fn task_tree(roots: Vec<Row>, subtasks: Vec<Row>, now: Timestamp) -> String {
    let mut below: BTreeMap<TaskId, Vec<Row>> = BTreeMap::new();
    // They come newest first, and are taken from the end.
    for row in subtasks {
        if let Some(parent) = row.facts.parent.clone().or_else(|| row.facts.source.clone()) {
            below.entry(parent).or_default().push(row);
        }
    }
    let mut table = vec![TABLE_HEAD.map(str::to_owned)];
    let mut to_show: Vec<(usize, Row)> = roots.into_iter().rev().map(|row| (0, row)).collect();
    while let Some((depth, row)) = to_show.pop() {
        table.push(table_line(&row, format!("{}{}", "  ".repeat(depth), row.id), now));
        to_show.extend(below.remove(&row.id).into_iter().flatten().map(|row| (depth + 1, row)));
    }
    aligned(&table)
}

const TABLE_HEAD: [&str; 5] = ["TASK", "STATUS", "AGENT", "UPDATED", "GOAL"];

fn table_line(row: &Row, name: String, now: Timestamp) -> [String; 5] {
    [
        name,
        standing(row, now),
        cut(&row.facts.agent, AGENT_CHARS),
        format!("{} ago", span(now.millis_since(row.updated_at))),
        cut(&row.facts.goal, GOAL_CHARS),
    ]
}

/// Columns as wide as their widest cell, two spaces apart; the last one is as long as it is.
fn aligned<const N: usize>(table: &[[String; N]]) -> String {
    let width = |column: usize| table.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut lines = String::new();
    for cells in table {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    lines
}

/// A task's status in a few words, with what keeps it from moving.
fn standing(row: &Row, now: Timestamp) -> String {
    let status = row.projection.status;
    if row.blocked.is_some() {
        return format!("{status}, blocked");
    }
    let held = row.holder.is_some() && row.lease_until.is_some_and(|until| until > now);
    match status {
        Status::Ready if held => format!("{status}, claimed"),
        Status::Running if !held => format!("{status}, no worker"),
        Status::Ready | Status::Waiting => match row.claimable_at.filter(|at| !held && *at > now) {
            Some(at) => format!("{status}, in {}", span(at.millis_since(now))),
            None => status.to_string(),
        },
        _ => status.to_string(),
    }
}

/// A number of things: `1 task`, `2 tasks`.
pub fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// A number of bytes in its largest unit.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let Some((power, unit)) = (1..).zip(UNITS).take_while(|(power, _)| bytes >> (10 * power) > 0).last() else {
        return counted(bytes, "byte");
    };
    let tenths = u128::from(bytes) * 10 / (1 << (10 * power));
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// A span of time in its largest unit, rounded down.
fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// One event: `seq  time  type  origin/actor  summary`, without a line feed. The origin stands
/// alone where the actor has the same name.
pub fn event_line(event: &Envelope) -> String {
    let at = event.at.to_string();
    // Seconds are enough to read; the exact time is in the event.
    let seconds = at.get(..19).unwrap_or(&at);
    let kind = event.kind().name();
    let origin = origin_name(event.origin);
    let actor = cut(&event.actor, ACTOR_CHARS);
    let who = if origin == actor { actor } else { format!("{origin}/{actor}") };
    let summary = summary(&event.payload);
    let line = format!("{:>5}  {seconds}Z  {kind:<TYPE_WIDTH$}  {who:<10}  {summary}", event.seq);
    line.trim_end().to_owned()
}

/// One message of a conversation: who speaks, then what, indented, calls by name.
pub fn message_lines(role: Role, origin: Option<MessageOrigin>, blocks: &[Block]) -> String {
    let speaker = match (role, origin) {
        (Role::Assistant, _) => "assistant",
        (_, Some(MessageOrigin::Human)) => "human",
        (_, Some(MessageOrigin::Memory)) => "memory",
        (_, Some(MessageOrigin::System)) | (Role::System, None) => "system",
        (Role::User, None) => "user",
    };
    let mut lines = format!("{speaker}:\n");
    for block in blocks {
        match block {
            Block::Text { text } => lines.push_str(&indented(text, usize::MAX)),
            Block::Thinking { text, .. } => lines.push_str(&indented(&format!("(thinking) {text}"), usize::MAX)),
            Block::ToolUse { args, tool, .. } => {
                lines.push_str(&format!("  -> {} {}\n", clean(tool), cut(args, ARGS_CHARS)));
            }
        }
    }
    lines
}

/// The result of one call: which, how it ended, and the first lines of what it says.
pub fn result_lines(call: CallId, tool: &str, status: ResultStatus, output: &str) -> String {
    format!("{} {call} {}:\n{}", clean(tool), status.name(), indented(output, RESULT_LINES))
}
