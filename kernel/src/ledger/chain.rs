use serde::{Deserialize, Serialize};

use crate::canonical::{Hash, genesis_hash};
use crate::envelope::Envelope;
use crate::event::Payload;
use crate::id::{Epoch, Seq};
use crate::time::Timestamp;

/// The last event of a log, as far as the next one depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its recorded time.
    pub at: Timestamp,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its hash.
    pub hash: Hash,
    /// Its seq.
    pub seq: Seq,
}

/// How an event fails to continue a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// A seq is missing or repeated.
    #[error("seq gap: expected {expected}")]
    SeqGap {
        /// The seq that had to come.
        expected: Seq,
    },
    /// `prev` is not the hash of the event before.
    #[error("prev is not the hash of the event before")]
    PrevMismatch,
    /// The first event does not create the task.
    #[error("a log begins with TaskCreated or TaskForked")]
    Genesis,
    /// Recorded time runs back.
    #[error("recorded time runs back")]
    TimeRunsBack,
    /// The epoch runs back.
    #[error("epoch runs back")]
    EpochRunsBack,
}

/// Checks that `event` continues a log that ends in `head`, or begins one.
///
/// # Errors
/// The first rule that is broken.
pub fn check_chain(head: Option<&Head>, event: &Envelope) -> Result<(), ChainError> {
    let Some(head) = head else {
        if event.seq != Seq(1) {
            return Err(ChainError::SeqGap { expected: Seq(1) });
        }
        let ledger = match &event.payload {
            Payload::TaskCreated(created) => &created.ledger,
            Payload::TaskForked(forked) => &forked.ledger,
            _ => return Err(ChainError::Genesis),
        };
        if event.prev != genesis_hash(ledger, &event.task) {
            return Err(ChainError::PrevMismatch);
        }
        return Ok(());
    };
    if event.seq != head.seq.next() {
        return Err(ChainError::SeqGap { expected: head.seq.next() });
    }
    if event.prev != head.hash {
        return Err(ChainError::PrevMismatch);
    }
    if event.at < head.at {
        return Err(ChainError::TimeRunsBack);
    }
    if event.epoch < head.epoch {
        return Err(ChainError::EpochRunsBack);
    }
    Ok(())
}
