//! File work off the async threads, with a way to end it early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plica_kernel::decide::Foreseen;
use plica_ports::CallContext;

use crate::fault::Fault;

/// Says to file work under way that nobody wants its result any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the work at its next check.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// An error once the work shall end: to be asked in every loop and before every change.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.0.load(Ordering::Acquire) { Err(Fault::Stopped) } else { Ok(()) }
    }
}

/// Cancels when the future of a call is dropped; after the work has ended it changes nothing.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Looks at what a call will change, where it may block. What cannot be looked at is not foreseen:
/// the call itself says why it cannot be done.
pub(crate) async fn foreseen(work: impl FnOnce(&Cancel) -> Result<Foreseen, Fault> + Send + 'static) -> Foreseen {
    let cancel = CancelOnDrop(Cancel::default());
    let seen = cancel.0.clone();
    match tokio::task::spawn_blocking(move || work(&seen)).await {
        Ok(Ok(foreseen)) => foreseen,
        Ok(Err(_)) => Foreseen::default(),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Foreseen::default(),
        },
    }
}

/// Runs `work` where it may block. A stop ends it at its next check; what it came to is waited
/// for all the same, since only the work knows whether it was past the point of no return.
pub(crate) async fn blocking<T: Send + 'static>(
    context: &CallContext,
    work: impl FnOnce(&Cancel) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    if context.stop.is_stopped() {
        return Err(Fault::Stopped);
    }
    let cancel = CancelOnDrop(Cancel::default());
    let seen = cancel.0.clone();
    let mut handle = tokio::task::spawn_blocking(move || work(&seen));
    let ended = tokio::select! {
        ended = &mut handle => ended,
        () = context.stop.stopped() => {
            cancel.0.cancel();
            handle.await
        }
    };
    match ended {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and never began the work.
            Err(_) => Err(Fault::Stopped),
        },
    }
}
