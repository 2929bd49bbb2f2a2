//! Background jobs in words: what runs, since when, and what became of it.

use plica_kernel::event::JobEnd;
use plica_kernel::id::RunId;
use plica_kernel::state::{EndedJob, OpenJob, Task};
use plica_kernel::time::Timestamp;

use super::span;
use super::text::cut;

/// Characters of what a job runs.
const WHAT_CHARS: usize = 80;

/// A line for each background job that is not forgotten; `lives` says whether the claim that began
/// a job is still held: no job outlives it.
pub fn job_lines(state: &Task, lives: impl Fn(&RunId) -> bool, now: Timestamp) -> String {
    let governance = state.governance();
    let open = governance.open_jobs().map(|(action, job)| {
        let (seq, ago, what) = (action.seq, span(now.millis_since(job.since)), what(job));
        if lives(&action.identity.run) {
            format!("job {seq} runs since {ago} ago: {what}\n")
        } else {
            format!("job {seq} began {ago} ago and is gone with its worker: {what}\n")
        }
    });
    let ended = governance.jobs.iter().map(|job| {
        let told = if job.told { "" } else { ", and the agent is still to be told" };
        let ago = span(now.millis_since(job.until));
        format!("job {} {} {ago} ago{told}: {}\n", job.job, ended_as(job), what(&job.started))
    });
    open.chain(ended).collect()
}

/// The background jobs that a task waits for, in one line; nothing when there are none.
pub fn jobs_waited_for(state: &Task) -> Option<String> {
    let jobs: Vec<String> =
        state.governance().open_jobs().map(|(action, job)| format!("{} ({})", action.seq, what(job))).collect();
    (!jobs.is_empty()).then(|| format!("the end of background job {}", jobs.join(" or ")))
}

/// What became of jobs that ended with the worker that was just driving the task here.
pub fn jobs_lost_here(state: &Task) -> Option<String> {
    let lost = state.governance().untold_jobs().filter(|job| job.how == JobEnd::Lost);
    let lost: Vec<String> = lost.map(|job| format!("{} ({})", job.job, what(&job.started))).collect();
    (!lost.is_empty()).then(|| {
        format!(
            "no worker stays here to wait for people, so background job {} was ended; the agent is told when it goes on",
            lost.join(" and ")
        )
    })
}

fn ended_as(job: &EndedJob) -> String {
    ended(job.how, job.code)
}

/// How a job ended.
pub(super) fn ended(how: JobEnd, code: Option<i32>) -> String {
    match (how, code) {
        (JobEnd::Exited, Some(code)) => format!("exited with status {code}"),
        (how, _) => how.name().to_owned(),
    }
}

fn what(job: &OpenJob) -> String {
    cut(&job.what, WHAT_CHARS)
}
