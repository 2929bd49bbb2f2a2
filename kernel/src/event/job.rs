//! Background jobs: what goes on after the call that started it was answered.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::id::CallId;

/// A call left something running; cites the decision that allowed the call. Its seq is the job's
/// id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundJobStarted {
    /// The call.
    pub call: CallId,
    /// The tool that started it.
    pub tool: String,
    /// What runs, in one line of at most [`crate::limits::JOB_WHAT_BYTES_MAX`] bytes.
    pub what: String,
}

/// How a background job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobEnd {
    /// By itself.
    Exited,
    /// It was told to: by the agent, or because its task ended or went back.
    Killed,
    /// The worker that ran it is gone, and the job with it.
    Lost,
}

impl JobEnd {
    /// The word as recorded.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Killed => "killed",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for JobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A background job ended; cites its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundJobEnded {
    /// Its exit status, if it exited and has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// How it ended.
    pub how: JobEnd,
    /// The end of its output, as far as it is known.
    pub output: Body,
}
