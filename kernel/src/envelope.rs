//! The envelope: one immutable event, its bytes, its hash, its line in a file.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::canonical::{CanonicalError, Domain, Hash, Written, to_vec, to_vec_of};
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
        let payload = to_vec(&self.payload).map_err(place)?;
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
        let body = to_vec_of(&members, payload.len() + FRAME_ROOM).map_err(place)?;
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

/// Room for everything else in a body.
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
    [LINE_HEAD, body, LINE_HASH, hash.to_string().as_bytes(), b"\"}\n"].concat()
}

const LINE_HEAD: &[u8] = b"{\"event\":";
const LINE_HASH: &[u8] = b",\"hash\":\"";

/// Slices a line (without its line feed) into body and hash, decoding neither; `None` when
/// the frame is not exactly that of [`write_line`].
pub fn read_line(line: &[u8]) -> Option<(&[u8], Hash)> {
    let rest = line.strip_prefix(LINE_HEAD)?.strip_suffix(b"\"}")?;
    let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    let hash = Hash::parse(core::str::from_utf8(hash).ok()?)?;
    Some((rest.strip_suffix(LINE_HASH)?, hash))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::event::TaskCancelled;

    fn cancelled(actor: usize, reason: usize) -> Envelope {
        Envelope {
            task: TaskId::new("t").unwrap(),
            seq: Seq(7),
            actor: "a".repeat(actor),
            origin: Origin::System,
            at: Timestamp::from_micros(0),
            epoch: Epoch(1),
            run: RunId::new("r").unwrap(),
            links: Links::default(),
            more: 0,
            trace: None,
            metrics: BTreeMap::new(),
            prev: Hash::from_bytes([0; 32]),
            payload: TaskCancelled { reason: Some("r".repeat(reason)) }.into(),
        }
    }

    /// Both bounds are on the bytes as written, and what is refused says how large it would be.
    #[test]
    fn ev_7_a_payload_and_a_body_have_their_bounds() {
        let frame = cancelled(0, 0).seal().unwrap().body.len();
        let reason = PAYLOAD_BYTES_MAX - r#"{"reason":""}"#.len();
        let actor = EVENT_BYTES_MAX - frame - reason;
        assert_eq!(cancelled(actor, reason).seal().unwrap().body.len(), EVENT_BYTES_MAX);
        for (event, size) in
            [(cancelled(0, reason + 1), PAYLOAD_BYTES_MAX + 1), (cancelled(actor + 1, reason), EVENT_BYTES_MAX + 1)]
        {
            let refused = SealError::PayloadTooLarge {
                task: event.task.clone(),
                seq: Seq(7),
                kind: EventType::TaskCancelled,
                size,
            };
            assert_eq!(event.seal(), Err(refused));
        }
    }

    #[test]
    fn ev_4_a_sealed_event_says_what_it_is() {
        let event = cancelled(1, 1);
        let sealed = event.seal().unwrap();
        assert_eq!(
            (sealed.seq, sealed.kind, event.kind()),
            (Seq(7), EventType::TaskCancelled, EventType::TaskCancelled)
        );
        assert_eq!(sealed.hash, Domain::Event.hash(&sealed.body));
        let body = concat!(
            r#"{"actor":"a","at":"1970-01-01T00:00:00.000000Z","epoch":1,"origin":"system","payload":{"reason":"r"},"#,
            r#""prev":"0000000000000000000000000000000000000000000000000000000000000000","run":"r","seq":7,"task":"t","#,
            r#""type":"TaskCancelled","v":1}"#
        );
        assert_eq!(core::str::from_utf8(&sealed.body), Ok(body), "what is unset is left out");
    }

    #[test]
    fn ev_4_a_line_is_sliced_without_decoding() {
        let hash = Hash::from_bytes([0xab; 32]);
        let line = write_line(b"{\"a\":1}", &hash);
        let hex = "ab".repeat(32);
        assert_eq!(line, alloc::format!("{{\"event\":{{\"a\":1}},\"hash\":\"{hex}\"}}\n").as_bytes());
        let line = &line[..line.len() - 1];
        assert_eq!(read_line(line), Some((&b"{\"a\":1}"[..], hash)));
        assert_eq!(
            read_line(&write_line(b"", &hash)[..LINE_HEAD.len() + LINE_HASH.len() + 66]),
            Some((&b""[..], hash))
        );
        let mut bad = vec![vec![], line[1..].to_vec(), line[..line.len() - 1].to_vec(), b"{\"event\":\"}".to_vec()];
        for (at, byte) in [(2, b'E'), (line.len() - 1, b']'), (line.len() - 3, b'G'), (line.len() - 68, b'H')] {
            let mut line = line.to_vec();
            line[at] = byte;
            bad.push(line);
        }
        for line in bad {
            assert_eq!(read_line(&line), None, "{}", String::from_utf8_lossy(&line));
        }
    }
}
