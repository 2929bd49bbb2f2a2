//! What is compared across tasks, and when a world has come to its end.

use std::sync::Arc;

use plica_ports::RequestMessage;
use plica_ports::store::Row;

use super::Book;
use super::log::Status;
use super::waits::ChildEnd;

/// Every call of an assistant's message is answered by exactly one result, in order (TO-4).
pub fn results_follow(messages: &[Arc<RequestMessage>]) -> Result<(), String> {
    let mut owed: Vec<String> = Vec::new();
    for message in messages {
        match &**message {
            RequestMessage::ToolResult { call, .. } => {
                if owed.is_empty() || owed.remove(0) != call.to_string() {
                    return Err(format!("the model is shown a result of {call} out of place"));
                }
            }
            _ if !owed.is_empty() => return Err(format!("the model is shown no result of {owed:?}")),
            RequestMessage::Assistant { calls, .. } => owed = calls.iter().map(ToString::to_string).collect(),
            RequestMessage::Text { .. } => {}
        }
    }
    if owed.is_empty() { Ok(()) } else { Err(format!("the model is shown no result of {owed:?}")) }
}

/// What a parent's log says of a child against the child's own.
pub fn ended_as(book: &Book, end: &ChildEnd) -> Result<(), String> {
    let log = &book.log;
    let right = match end.status.as_str() {
        "completed" => log.status == Status::Completed && log.answer.as_ref() == Some(&end.answer),
        "failed" => log.status == Status::Failed,
        _ => log.status == Status::Cancelled,
    };
    if right && end.steps == log.rounds.spent() {
        return Ok(());
    }
    let (status, steps, answer) = (log.status, log.rounds.spent(), &log.answer);
    Err(format!("its parent hears {end:?}, it is {status:?} after {steps} steps with {answer:?}"))
}

pub fn finish_task(book: &Book, row: Option<&Row>, observed: bool) -> Result<(), String> {
    let status = book.log.status;
    if !book.log.rests() {
        return Err(format!("still {status:?} long after everything worked again: {row:?}"));
    }
    book.log.ended()?;
    book.inbox.settled(status.is_over(), &book.log.wake)?;
    if observed && book.watch.is_behind() {
        return Err(format!("at rest, and its observer was not told: {}", book.watch.behind()));
    }
    if status == Status::Cancelled && !book.inbox.has_cancel() {
        return Err("cancelled, but nobody asked for that".into());
    }
    if book.inbox.cancel_promised && !book.log.reopened && !matches!(status, Status::Cancelled | Status::Failed) {
        return Err(format!("{status:?}, though it was cancelled in time"));
    }
    let row = row.ok_or("there is no row")?;
    // One that keeps a job alive stays with its worker.
    if !book.log.jobs.any_open() && (row.claimable_at.is_some() || row.holder.is_some()) {
        return Err(format!("at rest, and yet there is work that nobody does: {row:?}"));
    }
    if !format!("{:?}", row.projection.status).eq_ignore_ascii_case(&format!("{status:?}")) {
        return Err(format!("the row says {}, the log {status:?}", row.projection.status));
    }
    Ok(())
}
