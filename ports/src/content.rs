use async_trait::async_trait;
use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::Hash;
use plica_kernel::time::Timestamp;

/// Why content cannot be had or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// Nothing is stored under the reference.
    #[error("content {0} is missing")]
    Missing(ContentRef),
    /// What is stored does not have the hash it is stored under.
    #[error("content {0} is corrupt: its bytes have another hash")]
    Corrupt(ContentRef),
    /// The body is larger than `limits::CONTENT_BYTES_MAX`, or its bytes are not those of its
    /// reference. Nothing was written.
    #[error("content {reference} is refused: {rule}")]
    Refused {
        /// The reference.
        reference: ContentRef,
        /// Why.
        rule: String,
    },
    /// The store cannot be reached now.
    #[error("content store unavailable: {0}")]
    Unavailable(String),
}

/// A body that is kept, as collection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBody {
    /// SHA-256 of its bytes.
    pub sha256: Hash,
    /// Number of bytes.
    pub size: u64,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Bodies.
    pub bodies: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Bodies addressed by the SHA-256 of their bytes.
///
/// Collection (CO-3) takes three calls: it asks the time, finds out what logs reach, and
/// removes the rest of what was put before a time that lies the grace back. That loses nothing
/// beside running writers, because whoever cites a body
///
/// * puts it in the transaction of the event that cites it (CO-2), or
/// * put it less than `limits::BODY_AGE_MAX_MS` before, which is less than any grace, or
/// * found it through what was on record already, which is reached as long as that is.
///
/// So a body that is not reached and was last put before then is one that nobody is about to
/// cite without putting it again.
#[async_trait]
pub trait ContentStore: Send + Sync {
    /// Keeps a body.
    ///
    /// * **CO-1** Idempotent by hash; putting what exists renews its age, unless that is less than
    ///   `limits::AGE_STEP_MAX_MS`. A blob whose bytes
    ///   do not have its reference's hash and size is `Refused`.
    /// * **CO-2** Durable when the call returns.
    async fn put(&self, blob: &Blob) -> Result<(), ContentError>;

    /// The bytes of a body.
    ///
    /// * **CO-1** The hash is checked before the bytes are returned: a mismatch is `Corrupt`,
    ///   nothing there is `Missing`, both naming the reference. The media type is the
    ///   reader's own affair; only hash and size count.
    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError>;

    /// The time by which this store tells the age of bodies; none that was put before shows a
    /// later one, unless the clock was set back.
    async fn clock(&self) -> Result<Timestamp, ContentError>;

    /// Bodies that were last put before `before`, by ascending hash, those after `after`, at
    /// most `limit`. Fewer than that means that there are no more.
    ///
    /// * **CO-3** Each page is a view of its own; a body put meanwhile may be listed or not.
    async fn aged(&self, before: Timestamp, after: Option<&Hash>, limit: usize) -> Result<Vec<KeptBody>, ContentError>;

    /// Removes those of `bodies` that were last put before `before`, and says what that freed.
    ///
    /// `before` is `limits::GRACE_MIN_MS` ago at least, well before any age that was not renewed.
    ///
    /// * **CO-3** The age is looked at again under the lock, or in the transaction, under which
    ///   bodies are put, for each body: one that was put since `aged` listed it stays, whether
    ///   by [`put`](Self::put) or by a batch, and one that is put afterwards is kept anew. A
    ///   body is there whenever its put has returned, whatever removal ran beside it.
    /// * Those that are not there are passed over, so an interrupted removal is simply repeated.
    async fn remove(&self, bodies: &[Hash], before: Timestamp) -> Result<Removed, ContentError>;
}
