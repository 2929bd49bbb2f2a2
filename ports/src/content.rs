use async_trait::async_trait;
use plica_kernel::body::{Blob, ContentRef};

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

/// Bodies addressed by the SHA-256 of their bytes.
#[async_trait]
pub trait ContentStore: Send + Sync {
    /// Keeps a body.
    ///
    /// * **CO-1** Idempotent by hash; putting what exists renews its age. A blob whose bytes
    ///   do not have its reference's hash and size is `Refused`.
    /// * **CO-2** Durable when the call returns.
    async fn put(&self, blob: &Blob) -> Result<(), ContentError>;

    /// The bytes of a body.
    ///
    /// * **CO-1** The hash is checked before the bytes are returned: a mismatch is `Corrupt`,
    ///   nothing there is `Missing`, both naming the reference. The media type is the
    ///   reader's own affair; only hash and size count.
    async fn get(&self, reference: &ContentRef) -> Result<Vec<u8>, ContentError>;
}
