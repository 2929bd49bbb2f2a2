//! Driving one task here: what `run` does, and steering verbs when no worker is alive (CL-6).

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plica_engine::{Client, Stop};
use plica_kernel::envelope::write_line;
use plica_kernel::event::{Failure, Payload};
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::row::Status;
use plica_ports::store::{Page, TaskFilter};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::ways::ways_to_wake;
use super::{print, store_of};
use crate::compose::{self, CONCURRENCY, LEASE, Work};
use crate::fault::{Fault, WAITING};
use crate::live::{Centre, Ending, Live};
use crate::render::{failure_words, jobs_lost_here};
use crate::talk;

/// What of a task that is driven goes to standard output; with the answer, what leads to it is
/// shown on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The answer of the turn.
    Answer,
    /// Each committed event.
    Events,
    /// Nothing: the caller prints.
    Nothing,
}

/// Events read at once.
const PAGE: usize = 500;
/// How often it is looked whether an interrupted task has come to rest.
const LOOK: Duration = Duration::from_millis(100);
/// How long its subtasks may take to stop before the task is handed back all the same.
const SETTLE: Duration = Duration::from_secs(2);
/// Longest wait for new events before looking again.
const FOLLOW: Duration = Duration::from_secs(1);

/// Drives `task` until it is over or waits for someone; prints its answer, or its events.
pub async fn drive(client: &Client, task: &TaskId, shown: Shown) -> Result<u8, Fault> {
    let (ended, follow_until) = watch::channel(false);
    let follow = || tokio::spawn(follow(client.clone(), task.clone(), follow_until));
    let follower = (shown == Shown::Events).then(follow);
    let live = (shown == Shown::Answer).then(|| Live::start(client.clone(), Centre::Task(task.clone())));
    let worked = work(client, task, live.clone()).await;
    let ending = match live {
        Some(live) => live.finish().await,
        None => Ending::default(),
    };
    let _ = ended.send(true);
    if let Some(follower) = follower {
        match follower.await {
            // The task is driven whether or not somebody looks on.
            Ok(Ok(()) | Err(Fault::ReaderGone)) => {}
            Ok(Err(fault)) => return Err(fault),
            Err(error) => return Err(Fault::Config(format!("the events could not be followed: {error}"))),
        }
    }
    worked?;
    conclude(client, task, shown, &ending).await
}

/// Works on the task alone; Ctrl-C interrupts its turn, a second one stops at once (CL-7).
async fn work(client: &Client, task: &TaskId, live: Option<Arc<Live>>) -> Result<(), Fault> {
    let host = compose::host(store_of(client));
    let host = match live {
        Some(live) => host.observer(live.clone()).audience(live),
        None => host,
    };
    let host = host.build();
    let (queues, concurrency) = (Vec::new(), CONCURRENCY);
    let work = Work { queues, lease: LEASE, concurrency, until_idle: false, only: Some(task.clone()) };
    let worker = compose::worker(Arc::clone(&host), compose::identity(), work);
    let stop = Stop::new();
    let mut interrupts =
        signal(SignalKind::interrupt()).map_err(|error| Fault::Config(format!("signals cannot be heard: {error}")))?;
    let mut interrupted_at = None;
    let run = worker.run(stop.clone());
    tokio::pin!(run);
    loop {
        tokio::select! {
            worked = &mut run => {
                worked?;
                break;
            }
            _ = interrupts.recv() => {
                if interrupted_at.is_some() {
                    return Err(Fault::Interrupted);
                }
                interrupted_at = Some(Instant::now());
                talk::say("interrupting; Ctrl-C again stops at once");
                let actor = compose::actor();
                tokio::select! {
                    delivered = client.interrupt(task, &actor, None) => if let Err(error) = delivered {
                        tracing::debug!(%error, "the turn could not be interrupted: handing the task back");
                        stop.stop();
                    },
                    _ = interrupts.recv() => return Err(Fault::Interrupted),
                }
            }
            () = tokio::time::sleep(LOOK), if interrupted_at.is_some() => {
                let patient = interrupted_at.is_some_and(|at| at.elapsed() < SETTLE);
                if is_at_rest(client, task, patient).await? {
                    stop.stop();
                }
            }
        }
    }
    // One that was over before the interrupt came is no matter to carry on.
    if interrupted_at.is_some() && !client.row(task).await?.projection.status.is_over() {
        talk::say(format!("interrupted; `plica send {task} TEXT` carries on"));
        return Err(Fault::Interrupted);
    }
    Ok(())
}

/// Whether an interrupted task waits or is over, and its subtasks have stopped if one is patient
/// with them: those that go on by themselves are left to a worker.
async fn is_at_rest(client: &Client, task: &TaskId, patient: bool) -> Result<bool, Fault> {
    let row = client.row(task).await?;
    let rests = row.projection.status == Status::Waiting || row.projection.status.is_over();
    let free = row.holder.is_none();
    if !rests || !free || !patient {
        // One that waits and is held all the same is so for its background jobs.
        let keeps_jobs = row.projection.status == Status::Waiting && !patient;
        return Ok(rests && (free || keeps_jobs));
    }
    let filter = TaskFilter { prefix: Some(format!("{task}.")), ..TaskFilter::default() };
    let subtasks = client.list(&filter, &Page::first(PAGE)).await?;
    Ok(subtasks.iter().all(|row| row.holder.is_none() && row.claimable_at.is_none()))
}

/// Prints the events of a task as they are committed, until `until` says so and all are out.
async fn follow(client: Client, task: TaskId, mut until: watch::Receiver<bool>) -> Result<(), Fault> {
    let mut after = Seq(0);
    loop {
        let ending = *until.borrow();
        loop {
            let page = client.events(&task, after.next(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for stored in &page {
                print(&write_line(&stored.body, &stored.hash))?;
            }
        }
        if ending {
            return Ok(());
        }
        tokio::select! {
            watched = client.watch(&task, after, FOLLOW) => { watched?; }
            _ = until.changed() => {}
        }
    }
}

/// Says what came of it: the answer on standard output, anything else on standard error.
async fn conclude(client: &Client, task: &TaskId, shown: Shown, ending: &Ending) -> Result<u8, Fault> {
    let row = client.row(task).await?;
    if let Some(blocked) = &row.blocked {
        return Err(Fault::Config(format!(
            "task {task} is blocked: {blocked}; `plica verify {task}` says more, `plica doctor --unblock {task}` lets it go on"
        )));
    }
    if shown == Shown::Answer
        && let Some(text) = client.answer(task).await?
    {
        // Whoever has read it on this terminal as it came need not read it again.
        if !(std::io::stdout().is_terminal() && ending.shown.as_ref() == Some(&text)) {
            match print(format!("{text}\n").as_bytes()) {
                // What came of the task is what counts, whoever reads it.
                Ok(()) | Err(Fault::ReaderGone) => {}
                Err(fault) => return Err(fault),
            }
        }
    }
    if ending.totals.requests > 0 {
        talk::say(ending.totals.line());
    }
    let failure = match client.ended_by(task).await? {
        Some(Payload::TaskFailed(failed)) => Some(Failure { detail: failed.detail, reason: failed.reason }),
        Some(Payload::TaskSuspended(suspended)) => suspended.failure,
        _ => None,
    };
    match row.projection.status {
        Status::Completed => Ok(0),
        Status::Failed => {
            talk::say(format!("task {task} failed{}; see `plica events {task}`", words(failure.as_ref())));
            Ok(1)
        }
        Status::Cancelled => {
            talk::say(format!("task {task} was cancelled"));
            Ok(1)
        }
        Status::Waiting => {
            if let Some(failure) = &failure {
                talk::say(format!("the turn failed{}", words(Some(failure))));
            }
            let state = client.state(task, None, false).await?;
            let ways = ways_to_wake(client, &state, client.store().now().await?).await?;
            if let Some(lost) = jobs_lost_here(&state) {
                talk::say(lost);
            }
            talk::say(format!("task {task} waits for {}", ways.join("\n  or for ")));
            Ok(WAITING)
        }
        Status::Ready | Status::Running => {
            talk::say(format!("task {task} is {}; `plica show {task}` says more", row.projection.status));
            Ok(WAITING)
        }
    }
}

fn words(failure: Option<&Failure>) -> String {
    failure.map(|failure| format!(": {}", failure_words(failure))).unwrap_or_default()
}
