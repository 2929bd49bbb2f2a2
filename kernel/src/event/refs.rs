//! Which content an event cites.

use alloc::vec::Vec;

use super::{FileChange, Payload};
use crate::body::{Body, ContentRef};

impl Payload {
    /// Every content reference of the payload, in no particular order.
    pub fn references(&self) -> Vec<&ContentRef> {
        fn of(body: &Body) -> Vec<&ContentRef> {
            body.reference().into_iter().collect()
        }
        fn maybe(body: Option<&Body>) -> Vec<&ContentRef> {
            body.map(of).unwrap_or_default()
        }
        fn held(files: &[FileChange]) -> Vec<&ContentRef> {
            files.iter().flat_map(|file| file.before.reference().into_iter().chain(of(&file.path))).collect()
        }
        match self {
            Self::TaskCreated(created) => [of(&created.goal), [&created.definition].into()].concat(),
            Self::MessagesAppended(appended) => {
                appended.messages.iter().flat_map(|message| of(&message.blocks)).collect()
            }
            Self::ContextPlanComposed(plan) => plan.refs.iter().chain([&plan.definition]).collect(),
            Self::LLMRequestFinished(finished) => finished.reply.iter().chain(maybe(finished.extra.as_ref())).collect(),
            Self::AssistantThinkingRecorded(thinking) => of(&thinking.blocks),
            Self::DecisionRecorded(decision) => maybe(decision.answer.as_ref()),
            Self::TaskStatePatched(patched) => {
                [maybe(patched.patch.goal.as_ref()), maybe(patched.patch.todos.as_ref())].concat()
            }
            Self::ToolCallStarted(started) => [of(&started.args), held(&started.files)].concat(),
            Self::ToolCallFinished(finished) => {
                finished.whole.iter().chain(of(&finished.output)).chain(held(&finished.files)).collect()
            }
            Self::ToolCallDenied(denied) => of(&denied.reason),
            Self::ApprovalRequested(asked) => of(&asked.args),
            Self::ApprovalResolved(ruling) => maybe(ruling.reason.as_ref()),
            Self::CallResolved(resolved) => maybe(resolved.output.as_ref()),
            Self::QuestionAsked(asked) => of(&asked.question),
            Self::QuestionAnswered(answered) => of(&answered.answer),
            Self::SubtaskSpawned(spawned) => [of(&spawned.goal), [&spawned.definition].into()].concat(),
            Self::SubtaskCompleted(done) => of(&done.answer),
            Self::BackgroundJobEnded(ended) => of(&ended.output),
            Self::TaskSuspended(suspended) => maybe(suspended.answer.as_ref()),
            Self::TaskWoken(woken) => maybe(woken.item.data.as_ref()),
            Self::TaskSnapshot(snapshot) => [&snapshot.state_ref].into(),
            Self::LateResultRecorded(late) => of(&late.output),
            Self::ExtensionRecorded(record) => of(&record.body),
            Self::TaskCompleted(completed) => of(&completed.answer),
            Self::FilesRestoring(restoring) => [&restoring.plan].into(),
            Self::FilesRestored(restored) => maybe(restored.left.as_ref()),
            Self::AgentRevised(revised) => [&revised.definition].into(),
            Self::PluginsPinned(_)
            | Self::BackgroundJobStarted(_)
            | Self::TaskForked(_)
            | Self::LLMRequestStarted(_)
            | Self::LLMRetryScheduled(_)
            | Self::TurnInterrupted(_)
            | Self::TaskRewound(_)
            | Self::StepAttemptAbandoned(_)
            | Self::StepAttemptResumed(_)
            | Self::ConversationClosed(_)
            | Self::ConversationReopened(_)
            | Self::TaskFailed(_)
            | Self::TaskCancelled(_) => Vec::new(),
        }
    }
}
