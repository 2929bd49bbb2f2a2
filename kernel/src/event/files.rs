//! What became of files: changes by tools, and how a rewind puts them back.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::body::{Body, ContentRef};
use crate::canonical::Hash;
use crate::id::Seq;

/// What a file held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileWas {
    /// There was no file.
    Absent,
    /// These bytes, which are content.
    Kept(ContentRef),
    /// Bytes of this hash, which were too many to keep.
    Large(Hash),
    /// Nobody knows any more: the call was cut off and found again by what it wrote.
    Unknown,
}

impl FileWas {
    /// The hash of what it held; `None` in the first place when that is not known.
    pub fn hash(&self) -> Option<Option<Hash>> {
        match self {
            Self::Absent => Some(None),
            Self::Kept(reference) => Some(Some(reference.sha256)),
            Self::Large(hash) => Some(Some(*hash)),
            Self::Unknown => None,
        }
    }

    /// The content, if it was kept.
    pub fn reference(&self) -> Option<&ContentRef> {
        match self {
            Self::Kept(reference) => Some(reference),
            Self::Absent | Self::Large(_) | Self::Unknown => None,
        }
    }
}

/// A tool changed a file of the workspace (TO-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Hash of what it holds now; none when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Hash>,
    /// What it held before.
    pub before: FileWas,
    /// Its path beneath the workspace.
    pub path: Body,
}

/// A file that a rewind puts back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFile {
    /// What it is to hold.
    pub after: FileWas,
    /// What it holds until then.
    pub before: FileWas,
    /// Why it is left as it is, if that is known before anything is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Its path beneath the workspace.
    pub path: String,
    /// The workspace: an absolute path on the worker's host.
    pub workspace: String,
}

/// What a rewind does to files: content, cited by [`FilesRestoring`] before the first is written
/// (SN-8).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RestorePlan {
    /// In the order in which they are put back.
    pub files: Vec<PlannedFile>,
}

/// A file that was not put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftFile {
    /// Its path beneath the workspace.
    pub path: String,
    /// Why.
    pub why: String,
}

/// Files are about to be put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRestoring {
    /// How many the plan lists.
    pub files: u64,
    /// The [`RestorePlan`].
    pub plan: ContentRef,
}

/// Files were put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRestored {
    /// Those that were left as they are: a JSON array of [`LeftFile`]; none when all were put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Body>,
    /// The event that cites the plan.
    pub plan: Seq,
    /// How many hold what they held.
    pub restored: u64,
}
