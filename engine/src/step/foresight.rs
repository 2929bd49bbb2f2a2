//! What the kernel has to know before it can decide, and cannot look up itself.

use plica_kernel::body::Body;
use plica_kernel::decide::{AfterCrash, CallPlan};
use plica_kernel::event::{ApprovalVerdict, Role};
use plica_kernel::id::{Position, Seq};
use plica_kernel::message::Block;
use plica_kernel::state::{Entry, Task};
use plica_kernel::wake::Item;
use plica_ports::store::StoreError;
use plica_ports::{ContentError, OnCrash};

use super::Step;
use crate::act::Outcome;
use crate::compose::{ComposeError, blocks_of, text_of};
use crate::error::LoadError;
use crate::load::{LoadOptions, load};
use crate::plan::plan_calls;
use crate::rewind;
use crate::steering::{self, SPAWNING_TOOL};

impl Step<'_> {
    pub(super) async fn look_at_inbox(&mut self) -> Result<(), StoreError> {
        // What is heard of while the inbox is read may not be among what was read.
        let tail = self.drive.hold.tail();
        if tail > self.seen {
            let new = self.drive.host.store.inbox(self.task.id(), self.seen).await?;
            self.seen = new.last().map_or(tail, |item| item.position.max(tail));
            self.items.extend(new);
        }
        self.read_answers().await;
        self.count_tree().await;
        self.read_spawns().await?;
        self.foresee().await;
        Ok(())
    }

    /// Counts the tasks of the tree when one more may be spawned. Where they cannot be counted the
    /// last count stands: a reply that was paid for is worth more than an exact bound.
    async fn count_tree(&mut self) {
        let delegates = |block: &Block| matches!(block, Block::ToolUse { tool, .. } if tool == SPAWNING_TOOL);
        let asked = self.pending.iter().any(|happened| match &happened.what {
            Ok(Outcome::Reply { reply, .. }) => {
                reply.as_ref().as_ref().is_ok_and(|reply| reply.blocks.iter().any(delegates))
            }
            _ => false,
        });
        let approved = self.items.iter().any(|item| matches!(item.item, Item::Verdict { .. }));
        if (asked || approved)
            && let Err(error) = self.setup.count_tree(&*self.drive.host.store, &self.task).await
        {
            tracing::warn!(task = %self.task.id(), %error, "the tasks of the tree could not be counted");
        }
    }

    /// Approved calls that spawn a child need its definition, which the kernel has not.
    async fn read_spawns(&mut self) -> Result<(), StoreError> {
        for item in &self.items {
            let Item::Verdict { call, verdict: ApprovalVerdict::Approve, .. } = &item.item else { continue };
            let approval = self.task.governance().approvals.get(call);
            let Some(approval) = approval.filter(|approval| approval.tool == SPAWNING_TOOL) else { continue };
            if self.spawns.contains_key(call) {
                continue;
            }
            let gone = |error: ContentError| StoreError::Unavailable(error.to_string());
            let spawn = match text_of(&approval.args, self.drive.host.content().map_err(gone)?).await {
                Ok(args) => steering::spawn(&self.setup, &self.task, &args),
                Err(ComposeError::Content(why)) => Err(why),
                Err(ComposeError::Unavailable(why)) => return Err(StoreError::Unavailable(why)),
            };
            self.spawns.insert(*call, spawn);
        }
        Ok(())
    }

    /// The answer of a child that goes on by itself joins the conversation as a message, so
    /// its text is needed.
    async fn read_answers(&mut self) {
        let Ok(content) = self.drive.host.content() else { return };
        for item in &mut self.items {
            if let Item::Child { answer, child, .. } = &mut item.item
                && matches!(answer, Body::Ref(_))
                && self
                    .task
                    .governance()
                    .children()
                    .any(|(_, open)| open.child == *child && (open.background || open.any))
                && let Ok(text) = text_of(answer, content).await
            {
                *answer = Body::Inline(text);
            }
        }
    }

    /// Finds out what a rewind lands on and which files it puts back. Nothing else of this task
    /// happens meanwhile: what was under way has ended and is on record.
    pub(super) async fn prepare_rewind(&mut self, position: Position) -> Result<(), LoadError> {
        let item = self.items.iter().find(|item| item.position == position);
        let Some(Item::Rewind { to_seq }) = item.map(|item| &item.item) else { return Ok(()) };
        let host = &self.drive.host;
        let content = host.content().map_err(unavailable)?;
        let head = self.task.head().seq;
        let landing = rewind::landing(&*host.store, content, self.task.id(), head, *to_seq).await?;
        let prepared = match landing {
            Ok(landing) => {
                // No job changes a file any more that was looked at.
                self.jobs.conclude().await;
                Ok(rewind::prepare(&*host.store, content, host.files.as_deref(), &self.task, landing).await?)
            }
            Err(why) => Err(why),
        };
        self.rewinds.insert(position, prepared);
        Ok(())
    }

    /// What becomes of the attempt that a former holder left in the middle, as its agent chooses.
    /// What cannot be redriven parks (RC-3).
    pub(super) async fn read_crash(&mut self) -> Result<(), LoadError> {
        let chosen = self.setup.definition().map_or(OnCrash::Resolve, |definition| definition.on_crash);
        let goes_back = self.items.iter().any(|item| matches!(item.item, Item::Rewind { .. }));
        let after = match chosen {
            _ if goes_back => AfterCrash::Close,
            OnCrash::Resolve => AfterCrash::Resolve,
            OnCrash::Park => AfterCrash::Park,
            OnCrash::Redrive => match self.task.governance().plan {
                Some(plan) if self.may_redrive().await? => {
                    AfterCrash::Redrive(Box::new(self.state_before(plan).await?))
                }
                _ => AfterCrash::Park,
            },
        };
        self.after_crash = Some(after);
        Ok(())
    }

    async fn state_before(&self, plan: Seq) -> Result<Task, LoadError> {
        let host = &self.drive.host;
        let options = LoadOptions { at: Some(Seq(plan.0.saturating_sub(1))), whole: true, ..LoadOptions::default() };
        load(&*host.store, host.content().map_err(unavailable)?, self.task.id(), options).await
    }

    /// Whether the step may run again: every call of it would simply start, by the rules of now,
    /// and none has spawned or taken in anything.
    async fn may_redrive(&self) -> Result<bool, LoadError> {
        let Some(round) = &self.task.runtime().round else { return Ok(false) };
        let settled_otherwise =
            round.over > 0 || round.calls.iter().any(|call| call.child.is_some() || call.wait.is_some());
        let said = self.task.runtime().messages.iter().rev().find_map(|entry| match entry {
            Entry::Message(message) if message.role == Role::Assistant => Some(message),
            Entry::Message(_) | Entry::Results(_) => None,
        });
        let Some(said) = said.filter(|_| !settled_otherwise) else { return Ok(false) };
        let host = &self.drive.host;
        let blocks: Vec<Block> = match blocks_of(&said.blocks, host.content().map_err(unavailable)?).await {
            Ok(blocks) => blocks,
            Err(ComposeError::Content(_)) => return Ok(false),
            Err(ComposeError::Unavailable(why)) => return Err(LoadError::Store(StoreError::Unavailable(why))),
        };
        let (plans, _) = plan_calls(host, &self.setup, &self.task, &blocks);
        let runs = |plan: &CallPlan| matches!(plan, CallPlan::Start { .. } | CallPlan::Todo { .. });
        Ok(plans.iter().all(runs))
    }
}

fn unavailable(error: ContentError) -> LoadError {
    LoadError::Store(StoreError::Unavailable(error.to_string()))
}
