//! A layer that tells the oracle everything that a store hands out and writes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::body::ContentRef;
use plica_kernel::canonical::Hash;
use plica_kernel::id::{DedupKey, Position, Seq, TaskId};
use plica_kernel::row::Blocked;
use plica_kernel::time::Timestamp;
use plica_kernel::wake::Item;
use plica_ports::store::{
    AppendError, Appended, Batch, Claim, ClaimError, ClaimRequest, Claimed, CreateError, Created, DeliverError,
    Delivered, NewTask, Renewed, StoreError, Verdict, Worker,
};
use plica_ports::{ContentStore, Store};

use super::oracle::{Contents, Oracle, Sent, references};
use crate::layer::Layer;

/// The layer; `content` is where bodies are, if the store inside keeps none.
pub struct Witness {
    inner: Arc<dyn Store>,
    content: Option<Arc<dyn ContentStore>>,
    oracle: Arc<Oracle>,
}

impl Witness {
    /// A layer around `inner`.
    pub fn new(inner: Arc<dyn Store>, content: Option<Arc<dyn ContentStore>>, oracle: Arc<Oracle>) -> Self {
        Self { inner, content, oracle }
    }

    async fn fetch(&self, sha256: &str, size: u64) -> Option<Vec<u8>> {
        let content = self.content.as_deref().or_else(|| self.inner.content())?;
        let reference = ContentRef { media: String::new(), sha256: Hash::parse(sha256)?, size };
        content.get(&reference).await.ok()
    }

    /// Shows the oracle what the log has become; says by how many events it grew, and what
    /// these cite.
    async fn look(&self, task: &TaskId) -> (usize, Contents) {
        let from = Seq(self.oracle.head(task) + 1);
        let stored = self.inner.read(task, from, usize::MAX).await.unwrap_or_default();
        let mut contents = Contents::new();
        for event in &stored {
            let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap_or_default();
            let mut cited = references(&body["payload"]);
            cited.dedup();
            // Bodies of texts are needed each time, the rest is looked at once.
            let texts = [
                "MessagesAppended",
                "ToolCallStarted",
                "ToolCallFinished",
                "ApprovalRequested",
                "QuestionAnswered",
                "SubtaskCompleted",
                "SubtaskSpawned",
                "LateResultRecorded",
                "TaskCreated",
                "AgentRevised",
                "BackgroundJobEnded",
            ];
            let wanted = if texts.iter().any(|kind| body["type"] == *kind) { cited } else { self.oracle.unseen(cited) };
            for reference in wanted {
                let bytes = self.fetch(&reference.0, reference.1).await;
                self.oracle.found(task, &reference, bytes.as_deref());
                contents.extend(bytes.map(|bytes| (reference.0, bytes)));
            }
        }
        if !stored.is_empty() {
            self.oracle.grew(task, &stored, &contents);
        }
        (stored.len(), contents)
    }

    /// Shows the oracle what the row of a task has become.
    async fn look_at_row(&self, task: &TaskId) {
        if let (Ok(Some(row)), Ok(now)) = (self.inner.row(task).await, self.inner.now().await) {
            self.oracle.row_shown(&row, now);
        }
    }

    /// Shows the oracle what an append delivered.
    async fn look_into_inbox(&self, task: &TaskId) {
        let known = Position(self.oracle.inbox_tail(task));
        for item in self.inner.inbox(task, known).await.unwrap_or_default() {
            let delivered = Delivered { position: item.position, fresh: true };
            let sent = Sent { actor: &item.actor, at: item.at, item: &item.item, key: item.dedup.as_str() };
            self.oracle.delivered(task, &sent, delivered);
        }
    }
}

#[async_trait]
impl Layer for Witness {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn create(&self, task: NewTask) -> Result<Created, CreateError> {
        let id = task.id.clone();
        let created = self.inner.create(task).await;
        self.look(&id).await;
        created
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, ClaimError> {
        let claimed = self.inner.claim(request).await;
        for one in claimed.iter().flatten() {
            self.oracle.claimed(&request.worker, one, false);
        }
        claimed
    }

    async fn adopt(&self, worker: &Worker, task: &TaskId, lease: Duration) -> Result<Option<Claimed>, ClaimError> {
        let claimed = self.inner.adopt(worker, task, lease).await;
        if let Ok(Some(claimed)) = &claimed {
            self.oracle.claimed(worker, claimed, true);
        }
        claimed
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Renewed, StoreError> {
        let renewed = self.inner.renew(claims, lease).await;
        if let Ok(renewed) = &renewed {
            self.oracle.renewed(claims, lease, renewed);
        }
        renewed
    }

    async fn release(&self, claim: &Claim, not_before: Option<Timestamp>) -> Result<Verdict, AppendError> {
        let released = self.inner.release(claim, not_before).await;
        if released.is_ok() {
            self.oracle.released(claim, not_before);
            self.look_at_row(&claim.task).await;
        }
        released
    }

    async fn append(&self, claim: &Claim, batch: &Batch) -> Result<Appended, AppendError> {
        let appended = self.inner.append(claim, batch).await;
        let (grew_by, contents) = self.look(&claim.task).await;
        for child in &batch.children {
            self.look(&child.id).await;
        }
        for delivery in &batch.deliveries {
            self.look_into_inbox(&delivery.task).await;
        }
        match &appended {
            Ok(Appended { verdict, held }) => {
                self.oracle.appended(claim, batch, &contents, (verdict.now, *held));
                self.look_at_row(&claim.task).await;
            }
            // The fate of one that is unknown shows by itself.
            Err(AppendError::CommitUnknown { .. }) => {}
            Err(error) => self.oracle.refused(claim, &error.to_string(), grew_by),
        }
        appended
    }

    async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
    ) -> Result<Delivered, DeliverError> {
        let delivered = self.inner.deliver(task, actor, item, dedup).await;
        if let Ok(delivered) = &delivered {
            let at = self.inner.now().await.unwrap_or_default();
            self.oracle.delivered(task, &Sent { actor, at, item, key: dedup.as_str() }, *delivered);
        }
        delivered
    }

    async fn block(&self, claim: &Claim, why: &Blocked) -> Result<(), AppendError> {
        let blocked = self.inner.block(claim, why).await;
        if blocked.is_ok() {
            self.oracle.blocked(claim, why);
        }
        blocked
    }
}
