//! What calls will change, asked before their start goes on record (TO-5).

use std::path::PathBuf;

use plica_kernel::decide::{CallPlan, Foreseen};
use plica_kernel::event::{ApprovalVerdict, CallResolution};
use plica_kernel::id::CallId;
use plica_kernel::limits::CALLS_MAX;
use plica_kernel::message::Block;
use plica_kernel::wake::Item;
use plica_ports::Effect;

use super::Step;
use crate::act::Outcome;
use crate::compose::text_of;

impl Step<'_> {
    /// Asks the tools of calls that are about to start what these will change. What cannot be
    /// foreseen is left out: then the call's end tells, as far as it comes to be known.
    pub(super) async fn foresee(&mut self) {
        let mut replies = Vec::new();
        for happened in &self.pending {
            if self.foreseen.replies.contains_key(&happened.action) {
                continue;
            }
            let Ok(Outcome::Reply { reply, .. }) = &happened.what else { continue };
            let Ok(reply) = &**reply else { continue };
            let mut calls = Vec::new();
            for block in &reply.blocks {
                if let Block::ToolUse { args, tool, .. } = block
                    && calls.len() < CALLS_MAX
                {
                    calls.push(self.foresee_call(tool, args).await);
                }
            }
            replies.push((happened.action, calls));
        }
        self.foreseen.replies.extend(replies);
        self.foresee_by_word().await;
    }

    /// Calls that start on a person's word.
    async fn foresee_by_word(&mut self) {
        let calls: Vec<CallId> = self.items.iter().filter_map(|item| starts(&item.item)).collect();
        for call in calls {
            if self.foreseen.calls.contains_key(&call) {
                continue;
            }
            let approval = self.task.governance().approvals.get(&call);
            let unknown = self.task.runtime().unknown.iter().find(|unknown| unknown.call == call);
            let on_record = approval
                .map(|approval| (&approval.tool, &approval.args))
                .or(unknown.map(|unknown| (&unknown.tool, &unknown.args)));
            let Some((tool, args)) = on_record else { continue };
            // Arguments that cannot be had fail the call where it begins.
            let Ok(content) = self.drive.host.content() else { continue };
            let Ok(text) = text_of(args, content).await else { continue };
            let foreseen = self.foresee_call(tool, &text).await;
            self.foreseen.calls.insert(call, foreseen);
        }
    }

    async fn foresee_call(&self, name: &str, args: &str) -> Foreseen {
        let host = &self.drive.host;
        let Some(definition) = self.setup.definition() else { return Foreseen::default() };
        let Some(tool) = host.tool_of(definition, name) else { return Foreseen::default() };
        if tool.tool.declaration().effect == Effect::Read || tool.validator.validate(args).is_err() {
            return Foreseen::default();
        }
        let (tool, args) = (tool.tool.clone(), args.to_owned());
        let workspace = PathBuf::from(&definition.workspace);
        // A tool that panics here ends the call and not the step.
        let foreseen = tokio::spawn(async move { tool.foresee(&args, &workspace).await }).await;
        foreseen.unwrap_or_else(|error| {
            tracing::warn!(task = %self.task.id(), tool = name, %error, "what a call will change could not be foreseen");
            Foreseen::default()
        })
    }
}

/// The call that a person's word starts.
fn starts(item: &Item) -> Option<CallId> {
    match item {
        Item::Verdict { call, verdict: ApprovalVerdict::Approve, .. }
        | Item::Resolve { call, verdict: CallResolution::NotLanded, .. } => Some(*call),
        _ => None,
    }
}

/// Puts what was foreseen of the calls of a reply into their plans.
pub(super) fn add_foreseen(plans: &mut [CallPlan], calls: Option<&Vec<Foreseen>>) {
    for (plan, call) in plans.iter_mut().zip(calls.into_iter().flatten()) {
        if let CallPlan::Start { foreseen, .. } = plan {
            *foreseen = call.clone();
        }
    }
}
