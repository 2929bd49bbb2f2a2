//! Driving one task here: what `run` does, and steering verbs when no worker is alive (CL-6).

use std::sync::Arc;
use std::time::Duration;

use plica_engine::{Client, Stop};
use plica_kernel::body::Body;
use plica_kernel::decode::decode;
use plica_kernel::envelope::write_line;
use plica_kernel::event::{Failure, Payload};
use plica_kernel::id::{Seq, TaskId};
use plica_kernel::row::Status;
use tokio::sync::watch;

use super::{print, store_of};
use crate::compose::{self, LEASE, Work};
use crate::fault::{Fault, WAITING};
use crate::render;

/// How a task is driven.
pub struct Driven {
    /// Print each committed event instead of the answer.
    pub json: bool,
}

/// Events read at once.
const PAGE: usize = 500;
/// Longest wait for new events before looking again.
const FOLLOW: Duration = Duration::from_secs(1);

/// Drives `task` until it is over or waits for someone; prints its answer, or its events.
pub async fn drive(client: &Client, task: &TaskId, how: Driven) -> Result<u8, Fault> {
    let (ended, follow_until) = watch::channel(false);
    let follower = how.json.then(|| tokio::spawn(follow(client.clone(), task.clone(), follow_until)));
    let worked = work(client, task).await;
    let _ = ended.send(true);
    if let Some(follower) = follower {
        match follower.await {
            Ok(followed) => followed?,
            Err(error) => return Err(Fault::Config(format!("the events could not be followed: {error}"))),
        }
    }
    worked?;
    conclude(client, task, how.json).await
}

/// Works on the task alone; Ctrl-C interrupts its turn, a second one stops at once (CL-7).
async fn work(client: &Client, task: &TaskId) -> Result<(), Fault> {
    let host = compose::host(store_of(client)).build();
    let work = Work { queues: Vec::new(), lease: LEASE, concurrency: 1, until_idle: false, only: Some(task.clone()) };
    let worker = compose::worker(Arc::clone(&host), work);
    let stop = Stop::new();
    let mut interrupted = false;
    let run = worker.run(stop.clone());
    tokio::pin!(run);
    loop {
        tokio::select! {
            worked = &mut run => {
                worked?;
                break;
            }
            _ = tokio::signal::ctrl_c() => {
                if interrupted {
                    return Err(Fault::Interrupted);
                }
                interrupted = true;
                if let Err(error) = client.interrupt(task, &compose::actor(), None).await {
                    tracing::warn!(%error, "the turn could not be interrupted: handing the task back");
                    stop.stop();
                }
            }
        }
    }
    if interrupted {
        eprintln!("plica: interrupted; `plica send {task} TEXT` carries on");
        return Err(Fault::Interrupted);
    }
    Ok(())
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
async fn conclude(client: &Client, task: &TaskId, json: bool) -> Result<u8, Fault> {
    let row = client.row(task).await?;
    if let Some(blocked) = &row.blocked {
        return Err(Fault::Config(format!(
            "task {task} is blocked: {blocked}; `plica verify {task}` says more, `plica doctor --unblock {task}` lets it go on"
        )));
    }
    let last = client.events(task, row.projection.seq, 1).await?;
    let payload = last.first().and_then(|stored| decode(&stored.body, &stored.hash).ok()).map(|event| event.payload);
    match (row.projection.status, payload) {
        (Status::Completed, Some(Payload::TaskCompleted(completed))) => {
            answer(client, task, &completed.answer, json).await?;
            Ok(0)
        }
        (Status::Completed, _) => Ok(0),
        (Status::Failed, payload) => {
            let failure = match payload {
                Some(Payload::TaskFailed(failed)) => Some(Failure { detail: failed.detail, reason: failed.reason }),
                _ => None,
            };
            eprintln!("plica: task {task} failed{}; see `plica events {task}`", words(failure.as_ref()));
            Ok(1)
        }
        (Status::Cancelled, _) => {
            eprintln!("plica: task {task} was cancelled");
            Ok(1)
        }
        (Status::Waiting, Some(Payload::TaskSuspended(suspended))) => {
            if let Some(body) = &suspended.answer {
                answer(client, task, body, json).await?;
            }
            if let Some(failure) = &suspended.failure {
                eprintln!("plica: the turn failed{}", words(Some(failure)));
            }
            let state = client.state(task, None, false).await?;
            let ways = render::ways_to_wake(task, &state, client.store().now().await?);
            eprintln!("plica: task {task} waits for {}", ways.join("\n  or for "));
            Ok(WAITING)
        }
        (Status::Waiting | Status::Ready | Status::Running, _) => {
            eprintln!("plica: task {task} is {}; `plica show {task}` says more", row.projection.status);
            Ok(WAITING)
        }
    }
}

async fn answer(client: &Client, task: &TaskId, body: &Body, json: bool) -> Result<(), Fault> {
    if json {
        return Ok(());
    }
    let text = client.text(task, body).await?;
    print(format!("{text}\n").as_bytes())
}

fn words(failure: Option<&Failure>) -> String {
    match failure {
        None => String::new(),
        Some(Failure { detail: None, reason }) => format!(": {reason}"),
        Some(Failure { detail: Some(detail), reason }) => format!(": {reason}: {detail}"),
    }
}
