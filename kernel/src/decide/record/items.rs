//! Inbox items: each is taken by the append that records it (ST-8).

use alloc::{string::String, vec, vec::Vec};

use super::calls::{CallOutcome, Foreseen, SPAWNING_TOOL, deny_call, finish_call, spawn_child, start_call};
use super::jobs::end_job;
use super::plugins::pin;
use crate::body::Body;
use crate::decide::draft::{Draft, RecordError, Stamp, clip};
use crate::decide::next::{Inputs, came_too_late};
use crate::envelope::Origin;
use crate::event::{
    ApprovalResolved, ApprovalVerdict, CallResolution, CallResolved, CallStatus, ConversationClosed,
    ConversationReopened, LateKind, LateResultRecorded, Message, MessageOrigin, MessagesAppended, QuestionAnswered,
    Role, Spent, SubtaskCompleted, SubtaskStatus, TaskWoken,
};
use crate::id::{CallId, Position};
use crate::ledger::{Admission, Identity, admit};
use crate::limits::DETAIL_BYTES_MAX;
use crate::message::{Block, blocks_body};
use crate::state::{ActionKind, Entry, ResultStatus, RuntimeState};
use crate::wake::{InboxItem, Item, Woken};

/// Appends a message.
pub(in crate::decide) fn say(
    draft: &mut Draft,
    actor: &str,
    role: Role,
    origin: Option<MessageOrigin>,
    text: &str,
) -> Result<(), RecordError> {
    let blocks = blocks_body(&[Block::Text { text: text.into() }], draft.blobs())?;
    let messages = vec![Message { blocks, origin, role }];
    draft.push(actor, Origin::System, None, MessagesAppended { jobs: Vec::new(), messages }).map(|_| ())
}

/// Takes the untaken messages into the conversation, each an event of its own, so that its
/// sender is the event's actor.
pub(in crate::decide) fn join(draft: &mut Draft, items: &[InboxItem]) -> Result<(), RecordError> {
    for item in items {
        if let Item::Message { text } = &item.item {
            say(draft, &item.actor, Role::User, Some(MessageOrigin::Human), text)?;
            draft.consume(item.position);
        }
    }
    Ok(())
}

/// Wakes a waiting task; what woke it is recorded by the moves that follow in the same append,
/// but for an event from outside, which the wake itself records.
pub(in crate::decide) fn wake(draft: &mut Draft, mut woken: Woken, items: &[InboxItem]) -> Result<(), RecordError> {
    let item = items.iter().find(|item| Some(item.position) == woken.position);
    if let Some(InboxItem { item: Item::Event { data, .. }, position, .. }) = item {
        woken.data = data.as_ref().map(|data| Body::text(data, draft.blobs()));
        draft.consume(*position);
    }
    draft.push("engine", Origin::Engine, None, TaskWoken { item: woken }).map(|_| ())
}

/// Takes an item that answers something that is pending.
pub(in crate::decide) fn take(draft: &mut Draft, position: Position, inputs: &Inputs) -> Result<(), RecordError> {
    let item =
        inputs.items.iter().find(|item| item.position == position).ok_or_else(|| draft.misplaced("no such item"))?;
    match &item.item {
        late if came_too_late(draft.task(), late) => keep_late_answer(draft, item)?,
        Item::Answer { call, text } => {
            let answer = Body::text(text, draft.blobs());
            draft.push(&item.actor, Origin::System, None, QuestionAnswered { answer, call: *call })?;
        }
        Item::Verdict { call, reason, verdict } => {
            rule(draft, &item.actor, *call, (*verdict, reason.as_deref()), inputs)?;
        }
        Item::Child { .. } => complete_child(draft, item)?,
        Item::Job { .. } => return end_job(draft, item),
        Item::Evidence { .. } => judge_evidence(draft, item)?,
        Item::Close { reason } => {
            let reason = reason.as_ref().map(|reason| clip(reason, DETAIL_BYTES_MAX));
            draft.push(&item.actor, Origin::System, None, ConversationClosed { reason })?;
        }
        Item::Reopen { reason } => {
            let reason = reason.as_ref().map(|reason| clip(reason, DETAIL_BYTES_MAX));
            draft.push(&item.actor, Origin::System, None, ConversationReopened { reason })?;
        }
        Item::Message { .. }
        | Item::Cancel { .. }
        | Item::Interrupt { .. }
        | Item::Rewind { .. }
        | Item::Revise { .. }
        | Item::Resolve { .. }
        | Item::Event { .. } => {
            return Err(draft.misplaced("the item is taken in another way"));
        }
    }
    draft.consume(position);
    Ok(())
}

/// Keeps an answer to something that is no longer pending: it changes nothing, but who said what
/// is on record (ID-2, ST-8).
pub(super) fn keep_late_answer(draft: &mut Draft, item: &InboxItem) -> Result<(), RecordError> {
    let (call, output) = match &item.item {
        Item::Job { output, .. } => (None, Body::text(output, draft.blobs())),
        Item::Answer { call, text } => (Some(*call), Body::text(text, draft.blobs())),
        Item::Verdict { call, reason, verdict } => {
            let word = match verdict {
                ApprovalVerdict::Approve => "approve",
                ApprovalVerdict::Deny => "deny",
                ApprovalVerdict::Expire => "expire",
            };
            let said = reason.as_ref().map_or_else(|| word.into(), |reason| alloc::format!("{word}: {reason}"));
            (Some(*call), Body::text(&said, draft.blobs()))
        }
        Item::Child { answer, call, .. } => (Some(*call), answer.clone()),
        Item::Resolve { call, output, verdict } => {
            let said = output.as_ref().map_or_else(
                || resolution(*verdict).into(),
                |output| alloc::format!("{}: {output}", resolution(*verdict)),
            );
            (Some(*call), Body::text(&said, draft.blobs()))
        }
        _ => return Err(draft.misplaced("the item answers nothing")),
    };
    let answers = match (&item.item, call) {
        (Item::Job { job, .. }, _) => *job,
        (_, call) => call.map(|call| call.decision).unwrap_or_default(),
    };
    let Stamp { epoch, run, .. } = draft.stamp().clone();
    let late = LateResultRecorded {
        answers,
        call,
        identity: draft.task().identity(1, &run, epoch),
        kind: LateKind::Late,
        output,
        spent: spent_since_stopped(draft, &item.item),
        status: None,
    };
    draft.push(&item.actor, Origin::Engine, None, late).map(|_| ())
}

/// A person's word on a call, as it stands in the command line.
fn resolution(verdict: CallResolution) -> &'static str {
    match verdict {
        CallResolution::Landed => "landed",
        CallResolution::NotLanded => "not landed",
        CallResolution::Skip => "skip",
    }
}

/// A person settles a call whose outcome was unknown (TO-3): the model is told what it brought
/// or to go on without it; one that did not happen runs now, as it was recorded (RC-5).
pub(in crate::decide) fn resolve(draft: &mut Draft, position: Position, inputs: &Inputs) -> Result<(), RecordError> {
    let item =
        inputs.items.iter().find(|item| item.position == position).ok_or_else(|| draft.misplaced("no such item"))?;
    let Item::Resolve { call, output, verdict } = &item.item else {
        return Err(draft.misplaced("the item settles no call"));
    };
    let unknown = draft.task().runtime().unknown.iter().find(|unknown| unknown.call == *call).cloned();
    let unknown = unknown.ok_or_else(|| draft.misplaced("no such call is of unknown outcome"))?;
    let body = output.as_ref().map(|output| Body::text(output, draft.blobs()));
    let resolved = CallResolved { call: *call, output: body, verdict: *verdict };
    draft.push(&item.actor, Origin::System, None, resolved)?;
    draft.consume(position);
    let told = match verdict {
        CallResolution::Landed => alloc::format!("it happened. Its output:\n{}", output.as_deref().unwrap_or("(none)")),
        CallResolution::Skip => "go on without it".into(),
        CallResolution::NotLanded => {
            pin(draft, &inputs.pins)?;
            let start = (unknown.starts + 1, unknown.args);
            return start_call(draft, *call, &unknown.tool, start, foreseen(*call, inputs));
        }
    };
    let told = alloc::format!("Of call {call} ({}), whose outcome was unknown, a person says: {told}", unknown.tool);
    say(draft, "engine", Role::User, Some(MessageOrigin::System), &told)
}

fn foreseen(call: CallId, inputs: &Inputs) -> Foreseen {
    inputs.foreseen.get(&call).cloned().unwrap_or_default()
}

/// What a child that was told to stop says it had spent: that settles its slice (EN-4).
fn spent_since_stopped(draft: &Draft, item: &Item) -> Option<Spent> {
    let Item::Child { call, spent, .. } = item else { return None };
    draft.task().governance().stopped.contains_key(call).then_some(*spent)
}

/// Settles an approval: what was approved starts in the same append, bound to the digest. What
/// is granted of a budget starts nothing by itself.
pub(in crate::decide) fn rule(
    draft: &mut Draft,
    actor: &str,
    call: CallId,
    (verdict, reason): (ApprovalVerdict, Option<&str>),
    inputs: &Inputs,
) -> Result<(), RecordError> {
    let approval = draft.task().governance().approvals.get(&call).cloned();
    let approval = approval.ok_or_else(|| draft.misplaced("no such approval is pending"))?;
    let body = reason.map(|reason| Body::text(reason, draft.blobs()));
    let resolved = ApprovalResolved { call, digest: approval.digest, reason: body, verdict };
    draft.push(actor, Origin::System, None, resolved)?;
    if approval.subject.is_some() {
        return Ok(());
    }
    match verdict {
        ApprovalVerdict::Approve if approval.tool == SPAWNING_TOOL => match inputs.spawns.get(&call) {
            Some(Ok(spawn)) => spawn_child(draft, call, spawn.clone(), 1),
            Some(Err(why)) => deny_call(draft, call, &approval.tool, why),
            None => deny_call(draft, call, &approval.tool, "approved, but subtasks cannot be spawned here"),
        },
        ApprovalVerdict::Approve => {
            pin(draft, &inputs.pins)?;
            start_call(draft, call, &approval.tool, (1, approval.args), foreseen(call, inputs))
        }
        ApprovalVerdict::Deny => {
            let told = reason
                .map_or_else(|| "denied by a person".into(), |reason| alloc::format!("denied by a person: {reason}"));
            deny_call(draft, call, &approval.tool, &told)
        }
        ApprovalVerdict::Expire => deny_call(draft, call, &approval.tool, "not approved in time"),
    }
}

/// A child ended. The result of one that goes on by itself joins as a message, since its call
/// was answered long ago.
pub(super) fn complete_child(draft: &mut Draft, item: &InboxItem) -> Result<(), RecordError> {
    let Item::Child { answer, call, child, failure, spent, status, .. } = &item.item else {
        return Err(draft.misplaced("the item is no child's end"));
    };
    let open = draft.task().governance().children().find(|(_, open)| open.child == *child);
    let (action, background) =
        open.map(|(seq, open)| (seq, open.background)).ok_or_else(|| draft.misplaced("no such child is open"))?;
    let word = match status {
        SubtaskStatus::Completed => "completed",
        SubtaskStatus::Failed => "failed",
        SubtaskStatus::Cancelled => "was cancelled",
    };
    let why = failure.as_ref().map(|failure| match &failure.detail {
        Some(detail) => alloc::format!("{}: {detail}", failure.reason),
        None => alloc::format!("{}", failure.reason),
    });
    // Its answer, or why it has none.
    let said = match answer {
        Body::Inline(text) if text.is_empty() => Body::text(&why.unwrap_or_default(), draft.blobs()),
        Body::Inline(text) => Body::text(text, draft.blobs()),
        Body::Ref(_) => answer.clone(),
    };
    let told = match &said {
        Body::Inline(text) if text.is_empty() && *status != SubtaskStatus::Completed => {
            Body::Inline(alloc::format!("the subtask {word}"))
        }
        _ => said.clone(),
    };
    let done = SubtaskCompleted {
        answer: told,
        call: *call,
        child: child.clone(),
        failure: failure.clone(),
        spent: *spent,
        status: *status,
        unsettled: false,
    };
    draft.push(&item.actor, Origin::Engine, Some(action), done)?;
    if background {
        let text: String = match said {
            Body::Inline(text) if text.is_empty() => alloc::format!("The background task {child} {word}."),
            Body::Inline(text) => alloc::format!("The background task {child} {word}: {text}"),
            Body::Ref(reference) => {
                alloc::format!("The background task {child} {word}; its answer is content {reference}.")
            }
        };
        say(draft, "engine", Role::User, Some(MessageOrigin::System), &text)?;
    }
    Ok(())
}

/// A finished result of a worker that lost its claim: it settles the call while that is open
/// under the same identity, and is kept beside the log's own truth otherwise (ID-1 to ID-3).
/// The model is told of it where it was told that nobody knows what became of the call.
fn judge_evidence(draft: &mut Draft, item: &InboxItem) -> Result<(), RecordError> {
    let Item::Evidence { action, call, identity, output, status } = &item.item else {
        return Err(draft.misplaced("the item is no evidence"));
    };
    let open = draft.task().governance().action(*action).filter(|open| open.what == ActionKind::Call(*call));
    let admission = match open {
        Some(open) => admit(&open.identity, identity, true, false),
        None => admit(identity, identity, false, identity.generation < draft.task().governance().generation),
    };
    let kind = match admission {
        Admission::Current => {
            // A call that says that it failed stays one that failed, whoever brings the news.
            let status = if *status == CallStatus::Error { CallStatus::Error } else { CallStatus::Recovered };
            let outcome = CallOutcome { output: output.clone(), ..super::calls::ended(status, "") };
            return finish_call(draft, *action, outcome, false);
        }
        Admission::Stale => LateKind::Stale,
        Admission::Late => LateKind::Late,
    };
    let late = LateResultRecorded {
        answers: *action,
        call: Some(*call),
        identity: Identity::clone(identity),
        kind,
        output: Body::text(output, draft.blobs()),
        spent: None,
        status: Some(*status),
    };
    draft.push(&item.actor, Origin::Engine, None, late)?;
    if draft.task().status().is_over() || !is_told_unknown(draft.task().runtime(), *call) {
        return Ok(());
    }
    let ended = if *status == CallStatus::Ok { "well" } else { "with an error" };
    let told = alloc::format!(
        "The worker that ran call {call}, whose outcome was unknown, has reported back after all: the call ended \
         {ended}. Its output:\n{output}"
    );
    say(draft, "engine", Role::User, Some(MessageOrigin::System), &told)
}

/// Whether the model was told, or is about to be, that a call may have happened or not.
fn is_told_unknown(runtime: &RuntimeState, call: CallId) -> bool {
    let open = runtime.round.as_ref().filter(|round| round.decision == call.decision);
    let result = match open {
        Some(round) => round.calls.get(call.index as usize).and_then(|call| call.result.as_ref()),
        None => runtime.messages.iter().rev().find_map(|entry| match entry {
            Entry::Results(results) if results.decision == call.decision => results.results.get(call.index as usize),
            Entry::Results(_) | Entry::Message(_) => None,
        }),
    };
    result.is_some_and(|result| result.status == ResultStatus::Unknown)
}
