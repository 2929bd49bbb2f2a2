//! Orders and answers for a task, each by its inbox.

use plica_kernel::body::{Blob, MEDIA_DEFINITION};
use plica_kernel::event::{ApprovalVerdict, CallResolution};
use plica_kernel::id::{CallId, DedupKey, Position, TaskId};
use plica_kernel::wake::Item;
use plica_ports::Definition;
use plica_ports::store::Delivered;

use super::{Client, uuid_text};
use crate::error::ClientError;
use crate::revise;

impl Client {
    /// Delivers an item to a task's inbox; durable when it returns. Without a key each call
    /// delivers anew.
    ///
    /// # Errors
    /// When the task takes no such item, or the store cannot be written.
    pub async fn deliver(
        &self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        key: Option<DedupKey>,
    ) -> Result<Delivered, ClientError> {
        let key = key.unwrap_or_else(new_key);
        Ok(self.store.deliver(task, actor, item, &key).await?)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// As [`Self::deliver`], and when the conversation is closed.
    pub async fn send(&self, task: &TaskId, actor: &str, text: impl Into<String>) -> Result<Delivered, ClientError> {
        if self.row(task).await?.projection.closed && !self.is_to_be_reopened(task).await? {
            return Err(ClientError::Closed(task.clone()));
        }
        self.deliver(task, actor, &Item::Message { text: text.into() }, None).await
    }

    /// Whether an order to reopen lies in the inbox, which comes before whatever is sent now.
    async fn is_to_be_reopened(&self, task: &TaskId) -> Result<bool, ClientError> {
        let items = self.store.inbox(task, Position(0)).await?;
        let last = items.iter().rev().find(|item| matches!(item.item, Item::Close { .. } | Item::Reopen { .. }));
        Ok(last.is_some_and(|item| matches!(item.item, Item::Reopen { .. })))
    }

    /// Moves a task to another definition, from its next step on (EN-8); `blobs` are the bodies
    /// that the definition cites. They are in the content store before the order is delivered,
    /// which the task's holder takes between two steps, or its next one before anything else.
    ///
    /// # Errors
    /// As [`Self::deliver`], and when the move would be refused: nothing is delivered then.
    pub async fn revise(
        &self,
        task: &TaskId,
        actor: &str,
        definition: &Definition,
        blobs: &[Blob],
    ) -> Result<Delivered, ClientError> {
        let state = self.state(task, None, false).await?;
        let content = self.content()?;
        let now = Definition::from_bytes(&content.get(state.definition()).await?)?;
        revise::check(&state, &now, definition).map_err(|why| ClientError::Revision { task: task.clone(), why })?;
        let body = Blob::new(MEDIA_DEFINITION, definition.to_bytes()?);
        for blob in blobs.iter().chain([&body]) {
            content.put(blob).await?;
        }
        self.deliver(task, actor, &Item::Revise { definition: body.reference }, None).await
    }

    /// Ends a task.
    ///
    /// # Errors
    /// As [`Self::deliver`].
    pub async fn cancel(&self, task: &TaskId, actor: &str, reason: Option<String>) -> Result<Delivered, ClientError> {
        self.deliver(task, actor, &Item::Cancel { reason }, None).await
    }

    /// Stops the turn; the task then waits for its next message.
    ///
    /// # Errors
    /// As [`Self::deliver`].
    pub async fn interrupt(
        &self,
        task: &TaskId,
        actor: &str,
        reason: Option<String>,
    ) -> Result<Delivered, ClientError> {
        self.deliver(task, actor, &Item::Interrupt { reason }, None).await
    }

    /// Closes the conversation: it takes no message until it is reopened.
    ///
    /// # Errors
    /// As [`Self::deliver`].
    pub async fn close(&self, task: &TaskId, actor: &str, reason: Option<String>) -> Result<Delivered, ClientError> {
        self.deliver(task, actor, &Item::Close { reason }, None).await
    }

    /// Reopens a conversation that is closed or over; it then waits for a message.
    ///
    /// # Errors
    /// [`ClientError::Reported`] for a child that has told its parent how it ended, and as
    /// [`Self::deliver`].
    pub async fn reopen(&self, task: &TaskId, actor: &str, reason: Option<String>) -> Result<Delivered, ClientError> {
        self.check_unreported(task).await?;
        self.deliver(task, actor, &Item::Reopen { reason }, None).await
    }

    /// Delivers an event from outside, by its kind. With a key it is delivered once however
    /// often this is called.
    ///
    /// # Errors
    /// As [`Self::deliver`].
    pub async fn signal(
        &self,
        task: &TaskId,
        actor: &str,
        event: impl Into<String>,
        data: Option<String>,
        key: Option<DedupKey>,
    ) -> Result<Delivered, ClientError> {
        self.deliver(task, actor, &Item::Event { data, event: event.into() }, key).await
    }

    /// Answers the question of a call. The first answer stands: another one is refused.
    ///
    /// # Errors
    /// As [`Self::deliver`]; a key conflict means that it was answered otherwise.
    pub async fn answer_question(
        &self,
        task: &TaskId,
        actor: &str,
        call: CallId,
        text: impl Into<String>,
    ) -> Result<Delivered, ClientError> {
        let key = call_key("answer", call);
        self.deliver(task, actor, &Item::Answer { call, text: text.into() }, Some(key)).await
    }

    /// Rules on the approval of a call. The first ruling stands: another one is refused.
    ///
    /// # Errors
    /// As [`Self::deliver`]; a key conflict means that it was ruled otherwise.
    pub async fn rule(
        &self,
        task: &TaskId,
        actor: &str,
        call: CallId,
        verdict: ApprovalVerdict,
        reason: Option<String>,
    ) -> Result<Delivered, ClientError> {
        let key = call_key("verdict", call);
        self.deliver(task, actor, &Item::Verdict { call, reason, verdict }, Some(key)).await
    }

    /// Settles a call whose outcome is unknown (TO-3): `output` says what it brought, when it landed.
    ///
    /// # Errors
    /// [`ClientError::NotUnknown`] when no such call is of unknown outcome, and as
    /// [`Self::deliver`]; a key conflict means that it was settled otherwise.
    pub async fn resolve(
        &self,
        task: &TaskId,
        actor: &str,
        call: CallId,
        verdict: CallResolution,
        output: Option<String>,
    ) -> Result<Delivered, ClientError> {
        let state = self.state(task, None, false).await?;
        let unknown = state.runtime().unknown.iter().find(|unknown| unknown.call == call);
        let starts = unknown.map(|unknown| unknown.starts);
        let starts = starts.ok_or_else(|| ClientError::NotUnknown { task: task.clone(), call })?;
        // Once for each start: one that ran again may be of unknown outcome again.
        let key = call_key(&format!("resolve:{starts}"), call);
        self.deliver(task, actor, &Item::Resolve { call, output, verdict }, Some(key)).await
    }
}

fn call_key(what: &str, call: CallId) -> DedupKey {
    DedupKey::new(format!("{what}:{call}")).expect("a call's id is short and has no white space")
}

fn new_key() -> DedupKey {
    DedupKey::new(uuid_text()).expect("UUID text is a valid id")
}
