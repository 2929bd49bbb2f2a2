//! Changes of one file take turns.
//!
//! Calls of one reply run at once. Two that read a file, change it and put it back would lose one
//! of the changes and both say that all went well, so each has the file to itself from reading
//! what it was to the rename. This holds within the process; of another one's changes no lock
//! here could know.

use std::collections::HashMap;
use std::ffi::OsString;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::task::Poll;

use cap_std::fs::MetadataExt;
use plica_ports::CallContext;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::blocking::{Cancel, blocking};
use crate::fault::Fault;
use crate::workspace::{Place, Workspace};

/// What has one user at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The queues for the files of a workspace: who joins them first is who came first.
    Queues(PathBuf),
    /// A name in a folder, which is known by its device and inode.
    File { device: u64, folder: u64, name: OsString },
}

/// The locks that somebody holds or waits for.
static LOCKS: LazyLock<Mutex<HashMap<Key, Weak<Turn<()>>>>> = LazyLock::new(Mutex::default);

/// The lock of `key`, one for all who ask while any of them has it.
fn lock_of(key: Key) -> Arc<Turn<()>> {
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    // Those that nobody has any more go here, so there are never more than were in use at once.
    locks.retain(|_, lock| lock.strong_count() > 0);
    if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
        return lock;
    }
    let lock = Arc::default();
    locks.insert(key, Arc::downgrade(&lock));
    lock
}

/// Runs `work` on the place that `find` finds, once it is the call's turn there. Turns go in the
/// order in which the calls came here. A call that is stopped while it waits changes nothing.
pub(crate) async fn in_turn<T: Send + 'static>(
    context: &CallContext,
    find: impl FnOnce(&Workspace, &Cancel) -> Result<Place, Fault> + Send + 'static,
    work: impl FnOnce(&Workspace, Place, &Cancel) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let folder = context.workspace.clone();
    // The first to come must be the first to wait, and finding the place takes a while.
    let queues = unless_stopped(context, lock_of(Key::Queues(folder.clone())).lock_owned()).await?;
    let (workspace, place, key) = blocking(context, move |cancel| {
        let workspace = Workspace::open(&folder)?;
        let place = find(&workspace, cancel)?;
        let key = key_of(&place)?;
        Ok((workspace, place, key))
    })
    .await?;
    let mut turn = pin!(lock_of(key).lock_owned());
    // Once it was asked for, its place in the queue is kept.
    let asked = poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await;
    drop(queues);
    let turn = match asked {
        Poll::Ready(turn) => turn,
        Poll::Pending => unless_stopped(context, turn).await?,
    };
    blocking(context, move |cancel| {
        // Held until the work has ended, even when nobody waits for it any more.
        let _turn = turn;
        work(&workspace, place, cancel)
    })
    .await
}

fn key_of(place: &Place) -> Result<Key, Fault> {
    let folder = place.parent.dir_metadata();
    let folder = folder.map_err(|error| Fault::failed(format!("{}: {error}", place.path.display())))?;
    Ok(Key::File { device: folder.dev(), folder: folder.ino(), name: place.name.clone() })
}

async fn unless_stopped(
    context: &CallContext,
    turn: impl Future<Output = OwnedMutexGuard<()>>,
) -> Result<OwnedMutexGuard<()>, Fault> {
    tokio::select! {
        biased;
        () = context.stop.stopped() => Err(Fault::Stopped),
        turn = turn => Ok(turn),
    }
}

#[cfg(test)]
mod tests {
    use plica_kernel::id::{CallId, Epoch, RunId, Seq, TaskId, idempotency_key};
    use plica_ports::{Stop, StopSignal, TaskJobs};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::workspace::Parents;

    struct Token(CancellationToken);

    #[async_trait::async_trait]
    impl Stop for Token {
        fn is_stopped(&self) -> bool {
            self.0.is_cancelled()
        }
        async fn stopped(&self) {
            self.0.cancelled().await;
        }
    }

    fn context(folder: &tempfile::TempDir, token: &CancellationToken) -> CallContext {
        let task = TaskId::new("task-1").expect("an id");
        let call = CallId { decision: Seq(7), index: 0 };
        CallContext {
            idempotency_key: idempotency_key(&task, call),
            task,
            call,
            attempt: 1,
            epoch: Epoch(3),
            run: RunId::new("run-1").expect("an id"),
            workspace: folder.path().to_path_buf(),
            env: vec![],
            jobs: TaskJobs::none(),
            stop: StopSignal::new(Token(token.clone())),
        }
    }

    #[test]
    fn to_5_a_lock_is_one_while_it_is_in_use_and_is_forgotten_then() {
        let key = |name: &str| Key::File { device: 0, folder: 0, name: name.into() };
        let (a, again) = (lock_of(key("a")), lock_of(key("a")));
        assert!(Arc::ptr_eq(&a, &again));
        assert!(!Arc::ptr_eq(&a, &lock_of(key("b"))));
        drop((a, again));
        let _other = lock_of(key("c"));
        let locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!locks.contains_key(&key("a")) && !locks.contains_key(&key("b")));
        assert!(locks.contains_key(&key("c")));
    }

    #[tokio::test]
    async fn to_5_a_call_that_is_stopped_while_it_waits_for_its_turn_ends_as_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::open(folder.path()).expect("a workspace");
        let place = workspace.place("a.txt", Parents::Exist).expect("a place");
        let held = lock_of(key_of(&place).expect("a key")).lock_owned().await;
        let token = CancellationToken::new();
        let context = context(&folder, &token);
        let find = |workspace: &Workspace, _: &Cancel| Ok(workspace.place("a.txt", Parents::Exist)?);
        {
            let mut waiting = pin!(in_turn(&context, find, |_, _, _| Ok("changed")));
            let mut queues = pin!(lock_of(Key::Queues(folder.path().to_path_buf())).lock_owned());
            // The call comes first, so whoever has the queues after it knows that it waits.
            tokio::select! {
                biased;
                ended = &mut waiting => panic!("it is not its turn: {ended:?}"),
                _ = &mut queues => {}
            }
            token.cancel();
            assert_eq!(waiting.await, Err(Fault::Stopped));
        }
        drop(held);
        let next = CallContext { stop: StopSignal::never(), ..context };
        assert_eq!(in_turn(&next, find, |_, _, _| Ok("changed")).await, Ok("changed"), "nobody waits for ever");
    }
}
