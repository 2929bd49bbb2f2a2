//! The envelope: one immutable event, its bytes, its hash, its line in a file.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::canonical::{CanonicalError, Domain, Hash, Written, to_text};
use crate::event::{EventType, Payload};
use crate::id::{Epoch, RunId, Seq, TaskId};
use crate::limits::{EVENT_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::time::Timestamp;

/// The envelope format that this version writes; it reads no higher one (EV-8).
pub const FORMAT: u32 = 1;

/// Where an event comes from: a closed list, beside the free `actor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The engine itself.
    Engine,
    /// A model's answer or the request for one.
    Llm,
    /// An observer's record.
    Observer,
    /// A tool's start or result.
    Tool,
    /// A person or program outside the task.
    System,
}

/// The causal links of an event (section 6 of the design); all seqs of the same task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Links {
    /// The event this one answers to: an action's decision, an outcome's action.
    pub parent: Option<Seq>,
    /// The decision: its own seq for a decision, the one that allowed it for an action.
    pub decision: Option<Seq>,
    /// The action that an outcome ends.
    pub action: Option<Seq>,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The task.
    pub task: TaskId,
    /// Place in the task's log, from 1 without a gap.
    pub seq: Seq,
    /// Free identity: `engine`, `llm`, `policy:react`, `user:ada`.
    pub actor: String,
    /// Closed origin.
    pub origin: Origin,
    /// Recorded time; never an input to decisions of the fold.
    pub at: Timestamp,
    /// Epoch of the claim that wrote it; 0 in a task's first append.
    pub epoch: Epoch,
    /// Id of that claim.
    pub run: RunId,
    /// Causal links.
    pub links: Links,
    /// How many events of the same append still follow.
    pub more: u32,
    /// W3C trace id.
    pub trace: Option<String>,
    /// Durations and sizes: hashed, not folded.
    pub metrics: BTreeMap<String, u64>,
    /// Hash of the event before; the genesis hash for seq 1.
    pub prev: Hash,
    /// What happened.
    pub payload: Payload,
}

impl Envelope {
    /// The event's type.
    pub fn kind(&self) -> EventType {
        self.payload.kind()
    }

    /// Writes the body and hashes it.
    ///
    /// # Errors
    /// [`SealError`]; nothing else can go wrong.
    pub fn seal(&self) -> Result<SealedEvent, SealError> {
        let place = |source| SealError::Canonical { task: self.task.clone(), seq: self.seq, source };
        let payload = to_text(&self.payload, PAYLOAD_ROOM).map_err(place)?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(SealError::PayloadTooLarge {
                task: self.task.clone(),
                seq: self.seq,
                kind: self.kind(),
                size: payload.len(),
            });
        }
        let members = Members {
            action: self.links.action,
            actor: &self.actor,
            at: self.at,
            decision: self.links.decision,
            epoch: self.epoch,
            metrics: &self.metrics,
            more: self.more,
            origin: self.origin,
            parent: self.links.parent,
            payload: Written(&payload),
            prev: self.prev,
            run: &self.run,
            seq: self.seq,
            task: &self.task,
            trace: self.trace.as_deref(),
            kind: self.kind().name(),
            v: FORMAT,
        };
        let body = to_text(&members, payload.len() + FRAME_ROOM).map_err(place)?.into_bytes();
        if body.len() > EVENT_BYTES_MAX {
            return Err(SealError::PayloadTooLarge {
                task: self.task.clone(),
                seq: self.seq,
                kind: self.kind(),
                size: body.len(),
            });
        }
        let hash = Domain::Event.hash(&body);
        Ok(SealedEvent { seq: self.seq, kind: self.kind(), hash, body })
    }
}

/// Room for most payloads, and for everything else in a body.
const PAYLOAD_ROOM: usize = 1024;
const FRAME_ROOM: usize = 512;

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// The members as they stand in the body, declared in canonical order.
#[derive(Serialize)]
struct Members<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<Seq>,
    actor: &'a str,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Seq>,
    epoch: Epoch,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metrics: &'a BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "is_zero")]
    more: u32,
    origin: Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Seq>,
    payload: Written<'a>,
    prev: Hash,
    run: &'a RunId,
    seq: Seq,
    task: &'a TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'static str,
    v: u32,
}

/// An event ready to be stored: its exact bytes and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedEvent {
    /// Place in the log.
    pub seq: Seq,
    /// Type, for indexes.
    pub kind: EventType,
    /// `H("plica/event/v1\n" ‖ body)`.
    pub hash: Hash,
    /// Canonical bytes; stored exactly so and never written anew.
    pub body: Vec<u8>,
}

/// Why an event cannot be written. Nothing is stored when it happens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The payload is over 4096 canonical bytes or the body over 8192 (EV-7).
    #[error("payload too large: {kind} at seq {seq} of task {task} has {size} bytes; put what is big into content")]
    PayloadTooLarge {
        /// The task.
        task: TaskId,
        /// The seq the event would have had.
        seq: Seq,
        /// Its type.
        kind: EventType,
        /// Its size in bytes.
        size: usize,
    },
    /// The payload has no canonical form.
    #[error("event {seq} of task {task} cannot be written: {source}")]
    Canonical {
        /// The task.
        task: TaskId,
        /// The seq the event would have had.
        seq: Seq,
        /// What is wrong.
        source: CanonicalError,
    },
}

/// One event as a line of a file or of `events --json`: `{"event":BODY,"hash":"HEX"}` and LF.
pub fn write_line(body: &[u8], hash: &Hash) -> Vec<u8> {
    let mut line = Vec::with_capacity(body.len() + LINE_FRAME);
    line.extend_from_slice(LINE_HEAD);
    line.extend_from_slice(body);
    line.extend_from_slice(format!(",\"hash\":\"{hash}\"}}\n").as_bytes());
    line
}

const LINE_HEAD: &[u8] = b"{\"event\":";
const LINE_HASH: &[u8] = b",\"hash\":\"";
/// Bytes of a line that are not the body, the line feed included.
const LINE_FRAME: usize = LINE_HEAD.len() + LINE_HASH.len() + 64 + 3;

/// Slices a line (without its line feed) into body and hash, decoding neither; `None` when
/// the frame is not exactly that of [`write_line`].
pub fn read_line(line: &[u8]) -> Option<(&[u8], Hash)> {
    let rest = line.strip_prefix(LINE_HEAD)?.strip_suffix(b"\"}")?;
    let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    let hash = Hash::parse(core::str::from_utf8(hash).ok()?)?;
    Some((rest.strip_suffix(LINE_HASH)?, hash))
}
