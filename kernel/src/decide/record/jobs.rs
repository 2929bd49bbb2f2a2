//! Background jobs: how they start and end, and how the model is told.

use alloc::{format, string::String, vec, vec::Vec};

use crate::body::Body;
use crate::decide::draft::{Draft, RecordError, clip};
use crate::decide::next::{Inputs, lost_jobs};
use crate::envelope::Origin;
use crate::event::{BackgroundJobEnded, BackgroundJobStarted, JobEnd, Message, MessageOrigin, MessagesAppended, Role};
use crate::id::{CallId, Seq};
use crate::ledger::call_allowed_by;
use crate::limits::JOB_WHAT_BYTES_MAX;
use crate::message::{Block, blocks_body};
use crate::state::EndedJob;
use crate::wake::{InboxItem, Item};

/// Canonical bytes of what a job runs, in what the model is told of its end.
const TOLD_WHAT_BYTES_MAX: usize = 200;

/// Records that the call, which is about to end, leaves a job running; says the job's id.
pub(super) fn start_job(draft: &mut Draft, call: CallId, tool: &str, what: &str) -> Result<Seq, RecordError> {
    let allowed = call_allowed_by(draft.task().governance(), call);
    let allowed = allowed.ok_or_else(|| draft.misplaced("nothing allows the call"))?;
    let what: String = what.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let started = BackgroundJobStarted { call, tool: tool.into(), what: clip(what.trim(), JOB_WHAT_BYTES_MAX) };
    draft.push(&format!("tool:{tool}"), Origin::Tool, Some(allowed), started)
}

/// Records how a job ended, as its holder's item says.
pub(super) fn end_job(draft: &mut Draft, item: &InboxItem) -> Result<(), RecordError> {
    let Item::Job { code, how, job, output } = &item.item else {
        return Err(draft.misplaced("the item is no job's end"));
    };
    let output = Body::text(output, draft.blobs());
    let ended = BackgroundJobEnded { code: *code, how: *how, output };
    draft.push(&item.actor, Origin::Tool, Some(*job), ended)?;
    draft.consume(item.position);
    Ok(())
}

/// Gives an open job its outcome because its task ends or goes back. What a former holder ran is
/// lost, and no longer there to be killed.
pub(super) fn stop_job(draft: &mut Draft, job: Seq) -> Result<(), RecordError> {
    let mine = draft.task().governance().action(job).is_some_and(|open| open.identity.run == draft.stamp().run);
    let how = if mine { JobEnd::Killed } else { JobEnd::Lost };
    end_unheard(draft, job, how)
}

/// Records as lost what former holders ran and have not reported on (ST-13).
pub(in crate::decide) fn lose_jobs(draft: &mut Draft, inputs: &Inputs) -> Result<(), RecordError> {
    let lost: Vec<Seq> = lost_jobs(draft.task(), inputs).collect();
    lost.into_iter().try_for_each(|job| end_unheard(draft, job, JobEnd::Lost))
}

fn end_unheard(draft: &mut Draft, job: Seq, how: JobEnd) -> Result<(), RecordError> {
    let ended = BackgroundJobEnded { code: None, how, output: Body::default() };
    draft.push("engine", Origin::Engine, Some(job), ended).map(|_| ())
}

/// Tells the model of every job that has ended, once.
pub(in crate::decide) fn tell_jobs(draft: &mut Draft) -> Result<(), RecordError> {
    let untold = draft.task().governance().untold_jobs();
    let (jobs, told): (Vec<Seq>, Vec<String>) = untold.map(|ended| (ended.job, in_words(ended))).unzip();
    let blocks = blocks_body(&[Block::Text { text: told.join("\n\n") }], draft.blobs())?;
    let messages = vec![Message { blocks, origin: Some(MessageOrigin::System), role: Role::User }];
    draft.push("engine", Origin::System, None, MessagesAppended { jobs, messages }).map(|_| ())
}

fn in_words(ended: &EndedJob) -> String {
    let (job, what) = (ended.job, clip(&ended.started.what, TOLD_WHAT_BYTES_MAX));
    let came_to = match (ended.how, ended.code) {
        (JobEnd::Exited, Some(code)) => format!("ended with exit status {code}"),
        (JobEnd::Exited, None) => "ended".into(),
        (JobEnd::Killed, _) => "was killed".into(),
        (JobEnd::Lost, _) => {
            "was lost: the worker that ran it is gone, and the job with it. What it did until then may have happened"
                .into()
        }
    };
    match &ended.output {
        Body::Inline(output) if output.is_empty() => format!("Background job {job} ({what}) {came_to}."),
        Body::Inline(output) => format!("Background job {job} ({what}) {came_to}. Its output:\n{output}"),
        Body::Ref(output) => {
            format!("Background job {job} ({what}) {came_to}. Its output of {} bytes can still be read.", output.size)
        }
    }
}
