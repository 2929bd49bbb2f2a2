//! What people and programs see of tasks.

use std::time::Duration;

use plica_kernel::body::Body;
use plica_kernel::event::{Failure, MessageOrigin, Payload, Role};
use plica_kernel::id::{CallId, Position, Queue, Seq, TaskId};
use plica_kernel::message::Block;
use plica_kernel::state::{Entry, ResultStatus, Task};
use plica_kernel::wake::InboxItem;
use plica_ports::store::{Page, Row, StoreError, StoredEvent, TaskFilter};

use super::Client;
use crate::compose::{ComposeError, blocks_of, text_of};
use crate::error::{ClientError, LoadError};
use crate::load::{LoadOptions, load, read_event};
use crate::verify::Verdict;

/// Events before the last among which the end of a task is looked for: late evidence may
/// follow it.
const ENDINGS_LOOKED_AT: u64 = 63;
/// Rows read at once to find the newest root.
const ROWS_LOOKED_AT: usize = 64;

/// One thing said in a conversation, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A message.
    Message {
        /// Who speaks.
        role: Role,
        /// Where it comes from, unless the model said it.
        origin: Option<MessageOrigin>,
        /// What it says.
        blocks: Vec<Block>,
    },
    /// The result of a call.
    Result {
        /// The call.
        call: CallId,
        /// The tool that was named.
        tool: String,
        /// How it ended.
        status: ResultStatus,
        /// What the model was told.
        output: String,
    },
}

impl Client {
    /// Tasks whose id is, or begins with, `text`; an exact id wins.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find(&self, text: &str) -> Result<Vec<Row>, ClientError> {
        if let Ok(id) = TaskId::new(text)
            && let Some(row) = self.store.row(&id).await?
        {
            return Ok(vec![row]);
        }
        let filter = TaskFilter { prefix: Some(text.to_owned()), ..TaskFilter::default() };
        Ok(self.store.tasks(&filter, &Page::first(20)).await?)
    }

    /// The newest task that someone created, if there is one: what tasks spawn by themselves is
    /// passed over.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn newest(&self) -> Result<Option<Row>, ClientError> {
        let mut page = Page::first(ROWS_LOOKED_AT);
        loop {
            let rows = self.store.tasks(&TaskFilter::default(), &page).await?;
            let full = rows.len() == page.limit;
            page.after = rows.last().map(|last| (last.facts.created_at, last.id.clone()));
            match rows.into_iter().find(|row| row.facts.parent.is_none()) {
                None if full => {}
                found => return Ok(found),
            }
        }
    }

    /// The row of a task.
    ///
    /// # Errors
    /// When there is none, or the store cannot be read.
    pub async fn row(&self, task: &TaskId) -> Result<Row, ClientError> {
        Ok(self.store.row(task).await?.ok_or_else(|| StoreError::UnknownTask(task.clone()))?)
    }

    /// Rows that match, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, ClientError> {
        Ok(self.store.tasks(filter, page).await?)
    }

    /// The state of a task, whole, as of any seq (SN-6), or of the last there is when this begins:
    /// a worker may append meanwhile, and what a rewind lands on is found before the log is read.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub async fn state(&self, task: &TaskId, at: Option<Seq>, ignore_snapshots: bool) -> Result<Task, ClientError> {
        let at = match at {
            Some(at) => at,
            None => self.row(task).await?.projection.seq,
        };
        let options = LoadOptions { at: Some(at), ignore_snapshots, whole: true, ..LoadOptions::default() };
        let content = self.content()?;
        match load(&*self.store, content, task, options).await {
            // A snapshot whose segments are gone is slower, never wrong (SN-2).
            Err(LoadError::Content { .. }) if !ignore_snapshots => {
                Ok(load(&*self.store, content, task, LoadOptions { ignore_snapshots: true, ..options }).await?)
            }
            loaded => Ok(loaded?),
        }
    }

    /// Stored events from `from` on, at most `limit`, as their exact bytes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn events(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, ClientError> {
        Ok(self.store.read(task, from, limit).await?)
    }

    /// Returns when the task has events after `after`, or after `timeout`; says whether it has.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn watch(&self, task: &TaskId, after: Seq, timeout: Duration) -> Result<bool, ClientError> {
        Ok(self.store.watch(task, after, Position(u64::MAX), timeout).await?)
    }

    /// The whole text of a body.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn text(&self, task: &TaskId, body: &Body) -> Result<String, ClientError> {
        text_of(body, self.content()?).await.map_err(|error| text_error(task, &error))
    }

    /// The event by which the task ended or its last turn did: what became of it. `None` while
    /// a turn is under way.
    ///
    /// # Errors
    /// When the store cannot be read, or the end of the log.
    pub async fn ended_by(&self, task: &TaskId) -> Result<Option<Payload>, ClientError> {
        let head = self.row(task).await?.projection.seq;
        let from = Seq(head.0.saturating_sub(ENDINGS_LOOKED_AT).max(1));
        let last = self.store.read(task, from, usize::MAX).await?;
        for stored in last.iter().rev() {
            match read_event(task, stored)?.payload {
                // These may follow an end.
                Payload::TaskSnapshot(_) | Payload::LateResultRecorded(_) | Payload::ExtensionRecorded(_) => {}
                end @ (Payload::TaskCompleted(_)
                | Payload::TaskFailed(_)
                | Payload::TaskCancelled(_)
                | Payload::TaskSuspended(_)) => return Ok(Some(end)),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// How the last turn, or the task, failed, if it did and nothing has begun since.
    ///
    /// # Errors
    /// When the store cannot be read, or the end of the log.
    pub async fn last_failure(&self, task: &TaskId) -> Result<Option<Failure>, ClientError> {
        let head = self.row(task).await?.projection.seq;
        let from = Seq(head.0.saturating_sub(ENDINGS_LOOKED_AT).max(1));
        for stored in self.store.read(task, from, usize::MAX).await?.iter().rev() {
            match read_event(task, stored)?.payload {
                Payload::TaskFailed(failed) => {
                    return Ok(Some(Failure { detail: failed.detail, reason: failed.reason }));
                }
                Payload::TaskSuspended(suspended) => return Ok(suspended.failure),
                // These begin no turn.
                Payload::TaskSnapshot(_)
                | Payload::LateResultRecorded(_)
                | Payload::ExtensionRecorded(_)
                | Payload::AgentRevised(_)
                | Payload::BackgroundJobEnded(_)
                | Payload::ConversationClosed(_)
                | Payload::ConversationReopened(_) => {}
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The answer of a completed task, or of the last turn of one that waits for a message.
    /// `None` when there is none.
    ///
    /// # Errors
    /// As [`Self::ended_by`], and when the answer's text cannot be had.
    pub async fn answer(&self, task: &TaskId) -> Result<Option<String>, ClientError> {
        let answer = match self.ended_by(task).await? {
            Some(Payload::TaskCompleted(completed)) => Some(completed.answer),
            Some(Payload::TaskSuspended(suspended)) => suspended.answer,
            _ => None,
        };
        match answer {
            Some(body) => Ok(Some(self.text(task, &body).await?)),
            None => Ok(None),
        }
    }

    /// The conversation, for people to read.
    ///
    /// # Errors
    /// When the state or some content cannot be had.
    pub async fn messages(&self, task: &TaskId) -> Result<Vec<Said>, ClientError> {
        let state = self.state(task, None, false).await?;
        let content = self.content()?;
        let mut said = Vec::new();
        let mut called: Vec<String> = Vec::new();
        for entry in state.runtime().messages.iter() {
            match entry {
                Entry::Message(message) => {
                    let blocks = blocks_of(&message.blocks, content).await.map_err(|error| text_error(task, &error))?;
                    called = tools_of(&blocks);
                    said.push(Said::Message { role: message.role, origin: message.origin, blocks });
                }
                Entry::Results(results) => {
                    for (index, result) in (0..).zip(&results.results) {
                        let call = CallId { decision: results.decision, index };
                        let tool = called.get(index as usize).cloned().unwrap_or_default();
                        let output = self.text(task, &result.output).await?;
                        said.push(Said::Result { call, tool, status: result.status, output });
                    }
                }
            }
        }
        Ok(said)
    }

    /// What was delivered to a task and is still to be taken, the oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn untaken(&self, task: &TaskId) -> Result<Vec<InboxItem>, ClientError> {
        Ok(self.store.inbox(task, Position(0)).await?)
    }

    /// Verifies a task and adds what was found to `verdict`.
    ///
    /// # Errors
    /// When the store cannot be read or has no such task; a broken log is no error.
    pub async fn verify(&self, task: &TaskId, verdict: &mut Verdict) -> Result<(), ClientError> {
        Ok(verdict.check(&*self.store, self.content()?, task).await?)
    }

    /// Whether a worker is alive that might take the task.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn has_worker(&self, queue: &Queue) -> Result<bool, ClientError> {
        let workers = self.store.workers().await?;
        Ok(workers.iter().any(|worker| worker.queues.is_empty() || worker.queues.contains(queue)))
    }
}

fn text_error(task: &TaskId, error: &ComposeError) -> ClientError {
    ClientError::Text { task: task.clone(), rule: error.to_string() }
}

fn tools_of(blocks: &[Block]) -> Vec<String> {
    let tool = |block: &Block| match block {
        Block::ToolUse { tool, .. } => Some(tool.clone()),
        Block::Text { .. } | Block::Thinking { .. } => None,
    };
    blocks.iter().filter_map(tool).collect()
}
