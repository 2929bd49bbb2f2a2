//! From stored bytes to an event: tolerant of what newer versions add, strict about form.
//!
//! An unknown member is ignored and a missing one that has a default takes it; an unknown
//! event type or a format above ours is [`DecodeError::NewerVersion`], never a guess and
//! never called tampered; a body that is not canonical, does not match its hash or has a
//! known type in a wrong shape is [`DecodeError::Corrupt`] (EV-8). Reading may lift old
//! shapes to new ones; hashing never does.

use alloc::{
    borrow::Cow,
    collections::BTreeMap,
    format,
    string::{String, ToString},
};

use serde::Deserialize;

use crate::canonical::{Domain, Hash, Raw, from_slice};
use crate::envelope::{Envelope, FORMAT, Links, Origin};
use crate::event::{EventType, Payload};
use crate::id::{Epoch, RunId, Seq, TaskId};
use crate::limits::{EVENT_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::time::Timestamp;

mod quick;
#[cfg(test)]
mod tests;

/// Why a stored event cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a version that knows more than this one: leave it to that version.
    #[error("written by a newer version: {what}")]
    NewerVersion {
        /// The seq, if the body has one that can be read.
        seq: Option<Seq>,
        /// What this version does not know.
        what: String,
    },
    /// Not what was written: the bytes are damaged or forged.
    #[error("corrupt: {rule}")]
    Corrupt {
        /// The seq, if the body has one that can be read.
        seq: Option<Seq>,
        /// The rule that is broken.
        rule: String,
    },
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(default)]
    action: Option<Seq>,
    #[serde(borrow)]
    actor: Cow<'a, str>,
    at: Timestamp,
    #[serde(default)]
    decision: Option<Seq>,
    epoch: Epoch,
    #[serde(default)]
    metrics: BTreeMap<String, u64>,
    #[serde(default)]
    more: u32,
    origin: Origin,
    #[serde(default)]
    parent: Option<Seq>,
    #[serde(borrow)]
    payload: Raw<'a>,
    prev: Hash,
    run: RunId,
    seq: Seq,
    task: TaskId,
    #[serde(default)]
    trace: Option<String>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    v: u32,
}

/// What every version's envelope has; enough to tell a newer event from a broken one.
#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    seq: Option<Seq>,
    #[serde(default)]
    v: Option<u32>,
}

/// Decodes a stored body after checking that it has the hash it is stored under.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(body: &[u8], hash: &Hash) -> Result<Envelope, DecodeError> {
    if Domain::Event.hash(body) != *hash {
        let seq = from_slice::<Header>(body).ok().and_then(|header| header.seq);
        return Err(DecodeError::Corrupt { seq, rule: "hash differs from the body".to_string() });
    }
    decode_trusted(body)
}

/// Decodes a body whose hash was checked before, or is checked by the caller.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_trusted(body: &[u8]) -> Result<Envelope, DecodeError> {
    if body.len() > EVENT_BYTES_MAX {
        return Err(DecodeError::Corrupt {
            seq: None,
            rule: format!("body of {} bytes is over {EVENT_BYTES_MAX}", body.len()),
        });
    }
    quick::decode(body).map_or_else(|| thorough(body), Ok)
}

/// Decodes a body that is not too large, whatever is unusual about it.
fn thorough(body: &[u8]) -> Result<Envelope, DecodeError> {
    let members: Members = match from_slice(body) {
        Ok(members) => members,
        Err(error) => return Err(classify(body, &error.to_string())),
    };
    let seq = Some(members.seq);
    if members.v > FORMAT {
        return Err(DecodeError::NewerVersion { seq, what: format!("envelope format {}", members.v) });
    }
    let Some(kind) = EventType::named(&members.kind).filter(|kind| kind.is_readable()) else {
        return Err(DecodeError::NewerVersion { seq, what: format!("event type {}", members.kind) });
    };
    if members.v != FORMAT {
        return Err(DecodeError::Corrupt { seq, rule: format!("envelope format {} never was", members.v) });
    }
    if members.payload.0.len() > PAYLOAD_BYTES_MAX {
        return Err(DecodeError::Corrupt {
            seq,
            rule: format!("payload of {} bytes is over {PAYLOAD_BYTES_MAX}", members.payload.0.len()),
        });
    }
    let payload = Payload::decode(kind, members.payload.0.as_bytes())
        .map_err(|error| DecodeError::Corrupt { seq, rule: format!("payload of {}: {error}", kind.name()) })?;
    Ok(Envelope {
        task: members.task,
        seq: members.seq,
        actor: members.actor.into_owned(),
        origin: members.origin,
        at: members.at,
        epoch: members.epoch,
        run: members.run,
        links: Links { parent: members.parent, decision: members.decision, action: members.action },
        more: members.more,
        trace: members.trace,
        metrics: members.metrics,
        prev: members.prev,
        payload,
    })
}

/// A body that is canonical but not of our shape may still say that it is newer.
fn classify(body: &[u8], error: &str) -> DecodeError {
    let header: Header = match from_slice(body) {
        Ok(header) => header,
        Err(_) => return DecodeError::Corrupt { seq: None, rule: error.to_string() },
    };
    match header.v {
        Some(v) if v > FORMAT => DecodeError::NewerVersion { seq: header.seq, what: format!("envelope format {v}") },
        _ => DecodeError::Corrupt { seq: header.seq, rule: error.to_string() },
    }
}
