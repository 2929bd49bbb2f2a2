//! What is under way outside while a task is held.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use plica_kernel::event::{Failure, FailureReason};
use plica_kernel::id::Seq;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::act::{Broken, Happened, Outcome};
use crate::host::Host;

/// How long calls that were told to stop may take to say how they ended.
const STOP_GRACE: Duration = Duration::from_secs(4);

/// Actions that are under way outside.
#[derive(Default)]
pub(super) struct Flight {
    set: JoinSet<Happened>,
    pub(super) seqs: BTreeMap<tokio::task::Id, Seq>,
    /// Every action that this hold ever launched: none is launched twice.
    begun: BTreeSet<Seq>,
    /// Ends once the action that was launched last has begun.
    begins: Option<oneshot::Receiver<()>>,
    pub(super) stop: CancellationToken,
}

impl Flight {
    pub(super) fn is_launched(&self, seq: Seq) -> bool {
        self.seqs.values().any(|launched| *launched == seq)
    }

    /// Whether the action was launched and broken off: what it came to is for the next holder
    /// to settle, as after a crash.
    pub(super) fn is_broken_off(&self, seq: Seq) -> bool {
        self.begun.contains(&seq) && !self.is_launched(seq)
    }

    /// Begins an action. What is launched begins in that order, although it goes on at once: calls
    /// of one reply that change the same file come to it as the reply has them.
    pub(super) fn launch(&mut self, action: Seq, outcome: impl Future<Output = Outcome> + Send + 'static) {
        let (begun, next) = oneshot::channel::<()>();
        let before = self.begins.replace(next);
        let handle = self.set.spawn(async move {
            if let Some(before) = before {
                // Dropped, which is an error here, once the one before has begun or was broken off.
                let _ = before.await;
            }
            let mut outcome = pin!(outcome);
            let first = poll_fn(|context| Poll::Ready(outcome.as_mut().poll(context))).await;
            drop(begun);
            let outcome = match first {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => outcome.await,
            };
            Happened { action, what: Ok(outcome) }
        });
        self.seqs.insert(handle.id(), action);
        self.begun.insert(action);
    }

    /// The next action that came to an end; pends while none is under way.
    pub(super) async fn next(&mut self) -> Happened {
        loop {
            let Some(joined) = self.set.join_next_with_id().await else { std::future::pending().await };
            let (id, what) = match joined {
                Ok((id, happened)) => (id, Ok(happened)),
                Err(error) => (error.id(), Err(error)),
            };
            let Some(action) = self.seqs.remove(&id) else { continue };
            match what {
                Ok(happened) => return happened,
                Err(error) if error.is_panic() => {
                    let words = panic_words(error.into_panic());
                    let detail = Some(format!("an adapter failed while event {action} ran: {words}"));
                    return Happened {
                        action,
                        what: Err(Broken(Failure { detail, reason: FailureReason::InternalError })),
                    };
                }
                Err(_) => {}
            }
        }
    }

    /// Whatever else has ended already.
    pub(super) fn take_ready(&mut self) -> Vec<Happened> {
        let mut ready = Vec::new();
        while let Some(happened) = futures_now(self.next()) {
            ready.push(happened);
        }
        ready
    }

    /// Tells what is under way to stop and gives it a moment to say how it ended.
    pub(super) async fn wind_down(&mut self, host: &Host) -> Vec<Happened> {
        self.stop.cancel();
        let mut ended = Vec::new();
        let grace = host.clock.sleep(STOP_GRACE);
        tokio::pin!(grace);
        while !self.seqs.is_empty() {
            tokio::select! {
                biased;
                happened = self.next() => ended.push(happened),
                () = &mut grace => break,
            }
        }
        self.abort();
        ended
    }

    pub(super) fn abort(&mut self) {
        self.stop.cancel();
        self.set.abort_all();
        self.seqs.clear();
        self.stop = CancellationToken::new();
    }
}

/// Polls a future once.
fn futures_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

fn panic_words(panic: Box<dyn std::any::Any + Send>) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".into())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn to_5_actions_begin_in_the_order_in_which_they_are_launched() {
        let began = Arc::new(Mutex::new(Vec::new()));
        let seen = began.clone();
        // From a thread of the pool, which runs what it spawned last before the rest.
        let launched = tokio::spawn(async move {
            let mut flight = Flight::default();
            for action in 0..64 {
                let began = began.clone();
                flight.launch(Seq(action), async move {
                    began.lock().expect("no test panics while it holds it").push(action);
                    assert_ne!(action, 7, "one that fails holds up none");
                    tokio::task::yield_now().await;
                    Outcome::Restored { restored: 0, left: Vec::new() }
                });
            }
            for _ in 0..64 {
                flight.next().await;
            }
        });
        launched.await.expect("every action came to an end");
        assert_eq!(*seen.lock().expect("no test panics while it holds it"), (0..64).collect::<Vec<u64>>());
    }
}
