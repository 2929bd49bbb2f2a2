//! What a run came to, and what of it may differ when it was cut.

use std::collections::{BTreeMap, BTreeSet};

use plica_engine::{Client, Said, Verdict};
use plica_kernel::decode::decode;
use plica_kernel::envelope::Envelope;
use plica_kernel::event::{CallStatus, EventType, JobEnd, Payload, RequestStatus};
use plica_kernel::id::{Queue, Seq, TaskId};
use plica_kernel::message::Block;
use plica_kernel::row::Status;
use plica_ports::store::{Page, TaskFilter};

use crate::agents::note_of;
use crate::watch::{is_audits, is_exact};

/// How a call ended, by its note.
pub type Calls = BTreeMap<String, CallStatus>;

/// The end of a run, without what may differ:
///
/// * epoch, run, time and durations of every event, and the seqs that follow from the rest;
/// * requests that were cut off, the attempts that follow them, and so how many of them the
///   provider refuses;
/// * further starts of calls that may run again, and the outcome that says so;
/// * how a call that was cut off ended (`unknown`, `recovered`, `interrupted` or `cancelled`
///   instead of what it would have said), and so what the model was told of it;
/// * the order in which calls or children of one reply end;
/// * whether a rewind finds a file to put back, since a call that was cut off may not have changed it;
/// * late evidence, how far observers were when, and where snapshots fall, since both follow from the above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub status: Status,
    /// What was said, results of calls apart.
    pub said: Vec<String>,
    /// The log of each task, event by event; children by their goals.
    pub stories: BTreeMap<String, Vec<String>>,
}

/// An end, and what is judged besides.
pub struct Judged {
    pub end: End,
    pub calls: Calls,
    /// How background jobs ended.
    pub jobs: Vec<JobEnd>,
    pub kinds: BTreeSet<EventType>,
}

/// The end of the tasks in `queue`, the root of which is `root`. Their logs have to be sound.
pub async fn end_of(client: &Client, root: &TaskId, queue: &Queue, watched: bool) -> Judged {
    let filter = TaskFilter { queue: Some(queue.clone()), ..TaskFilter::default() };
    let rows = client.list(&filter, &Page::first(100)).await.expect("the list can be read");
    let mut judged = Judged {
        end: End { status: Status::Ready, said: Vec::new(), stories: BTreeMap::new() },
        calls: Calls::new(),
        jobs: Vec::new(),
        kinds: BTreeSet::new(),
    };
    for row in rows {
        let mut verdict = Verdict::new();
        client.verify(&row.id, &mut verdict).await.expect("the log can be read");
        assert!(verdict.is_ok(), "task {}: {:?}", row.id, verdict.breaks);
        assert_eq!((row.holder, row.blocked), (None, None), "task {}", row.id);
        let stored = client.events(&row.id, Seq(1), usize::MAX).await.expect("the log can be read");
        let events: Vec<Envelope> =
            stored.iter().map(|event| decode(&event.body, &event.hash).expect("it decodes")).collect();
        judged.jobs.extend(jobs(&row.id, &events));
        judged.kinds.extend(events.iter().map(Envelope::kind));
        if watched {
            is_exact(&format!("task {}", row.id), &events);
        }
        let name = if row.id == *root { "root".to_owned() } else { row.facts.goal.clone() };
        judged.calls.extend(calls(&name, &events));
        judged.end.stories.insert(name, story(&events));
        if row.id == *root {
            judged.end.status = row.projection.status;
        }
    }
    let messages = client.messages(root).await.expect("the conversation can be read");
    judged.end.said = messages.iter().map(line).collect();
    judged
}

fn line(said: &Said) -> String {
    match said {
        Said::Message { role, blocks, .. } => {
            let texts: Vec<&str> = blocks.iter().filter_map(text).collect();
            format!("{role:?}: {}", without_ids(&texts.join(" ")))
        }
        Said::Result { tool, .. } => format!("result of {tool}"),
    }
}

fn text(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } => Some(text),
        Block::ToolUse { args, .. } => Some(args),
    }
}

/// Ids of tasks are other ones in every run, and those of jobs in one that was cut before.
fn without_ids(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split(' ') {
        let is_job = words.last() == Some(&"job") && word.parse::<u64>().is_ok();
        words.push(if is_job || word.matches('-').count() >= 4 { "ID" } else { word });
    }
    words.join(" ")
}

/// How each background job ended: once, and the model was told once (section 19).
fn jobs(task: &TaskId, events: &[Envelope]) -> Vec<JobEnd> {
    let of = |job: Seq| {
        let ends = events.iter().filter(move |event| event.links.action == Some(job)).filter_map(ended);
        let told = events.iter().filter(move |event| tells_of(event, job)).count();
        (ends.collect::<Vec<_>>(), told)
    };
    let started = events.iter().filter(|event| event.kind() == EventType::BackgroundJobStarted);
    let ends = started.map(|event| match of(event.seq) {
        (ends, 1) if ends.len() == 1 => ends[0],
        other => panic!("task {task}: job {} ended and was told {other:?}", event.seq),
    });
    ends.collect()
}

fn ended(event: &Envelope) -> Option<JobEnd> {
    match &event.payload {
        Payload::BackgroundJobEnded(ended) => Some(ended.how),
        _ => None,
    }
}

fn tells_of(event: &Envelope, job: Seq) -> bool {
    matches!(&event.payload, Payload::MessagesAppended(said) if said.jobs.contains(&job))
}

/// Status of every call that was started, by the name of its task and its note.
fn calls(task: &str, events: &[Envelope]) -> Calls {
    let mut notes = BTreeMap::new();
    let mut calls = Calls::new();
    for event in events {
        match &event.payload {
            Payload::ToolCallStarted(started) => {
                let note = note_of(started.args.inline().expect("arguments are short"));
                notes.insert(started.call, format!("{task}/{}/{note}", started.call.index));
            }
            Payload::ToolCallFinished(finished) if !finished.again => {
                calls.insert(notes[&finished.call].clone(), finished.status);
            }
            _ => {}
        }
    }
    calls
}

/// The log without what may differ.
fn story(events: &[Envelope]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for event in events.iter().filter(|event| !is_audits(event)) {
        let line = match &event.payload {
            Payload::TaskSnapshot(_) | Payload::LateResultRecorded(_) | Payload::LLMRetryScheduled(_) => continue,
            Payload::FilesRestoring(_) | Payload::FilesRestored(_) => continue,
            Payload::LLMRequestFinished(finished) if finished.status != RequestStatus::Ok => continue,
            Payload::LLMRequestStarted(started) if started.attempt > 1 => continue,
            Payload::ToolCallStarted(started) if started.attempt > 1 => continue,
            Payload::ToolCallFinished(finished) if finished.again => continue,
            Payload::ToolCallStarted(started) => format!("ToolCallStarted {}", started.tool),
            Payload::ToolCallFinished(finished) => format!("ToolCallFinished {}", finished.call.index),
            Payload::SubtaskCompleted(done) => format!("SubtaskCompleted {} {:?}", done.call.index, done.status),
            Payload::TaskWoken(woken) => format!("TaskWoken {}", woken.item.kind),
            Payload::TaskCompleted(done) => format!("TaskCompleted {:?}", done.answer),
            Payload::TaskFailed(failed) => format!("TaskFailed {:?}", failed.reason),
            Payload::DecisionRecorded(decision) => {
                format!("DecisionRecorded {:?} {:?}", decision.kind, decision.answer)
            }
            payload => payload.kind().to_string(),
        };
        lines.push(line);
    }
    // A child that goes on by itself may end just before its parent waits or just after.
    while let Some(at) = lines.windows(2).position(|two| two[0] == "TaskSuspended" && two[1] == "TaskWoken child") {
        lines.drain(at..at + 2);
    }
    for outcomes in lines.chunk_by_mut(|before, after| same_kind(before, after)) {
        outcomes.sort();
    }
    lines
}

/// Whether both are ends of calls, or both of children.
fn same_kind(before: &str, after: &str) -> bool {
    ["ToolCallFinished", "SubtaskCompleted"].iter().any(|kind| before.starts_with(kind) && after.starts_with(kind))
}

/// How a call may end in a run that was cut, when it ends as `whole` in one that was not.
pub fn may_end_as(whole: CallStatus, cut: CallStatus) -> bool {
    cut == whole
        || matches!(cut, CallStatus::Unknown | CallStatus::Recovered | CallStatus::Interrupted | CallStatus::Cancelled)
}
