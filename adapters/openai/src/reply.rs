//! From the events of a stream to a neutral reply (MO-1).

use std::collections::BTreeMap;

use plica_kernel::message::Block;
use plica_ports::{Delta, DeltaSink, ModelError, ModelErrorKind, Reply, StopReason};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::calls::Calls;
use crate::failure::Asked;
use crate::text::{Members, Text, cut, list, string};
use crate::usage::{cost, usage};

/// The data of the event that ends a stream.
const DONE: &str = "[DONE]";
/// What a reply's record says when text of it was no Unicode and had to be replaced (EV-6).
const REPLACED_NOTE: &str = "text that is not valid Unicode was replaced with U+FFFD";
/// What it says of choices beyond the first, which nobody asked for.
const CHOICES_NOTE: &str = "further choices were ignored";
/// What it says when more came that is not understood than is kept.
const CUT_NOTE: &str = "more members came than are kept here";
/// Bytes of what is not understood that are kept of one reply.
const REST_BYTES_MAX: usize = 64 << 10;
/// Bytes of a usage object that is read; those of servers have a few hundred.
const USAGE_BYTES_MAX: usize = 16 << 10;
/// Bytes of a finish reason that are kept.
const STOP_BYTES_MAX: usize = 100;
/// Members of a chunk that say nothing; `obfuscation` is random padding.
const EMPTY_MEMBERS: &[&str] = &["object", "created", "obfuscation"];

/// A reply as it comes together.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    said: Vec<Block>,
    calls: Calls,
    finish: Option<String>,
    refused: bool,
    replaced: bool,
    further_choices: bool,
    usage: Option<Box<RawValue>>,
    kept: Kept,
    done: bool,
}

/// What is kept beside the reply, for the record.
#[derive(Debug, Default)]
struct Kept {
    /// Members of the stream as a whole; of one that comes again the last.
    whole: BTreeMap<String, Box<RawValue>>,
    /// What is not understood of the choice, in the order it came.
    choice: BTreeMap<String, Vec<Box<RawValue>>>,
    bytes: usize,
    cut: bool,
}

/// `Reply.extra`: what the adapter does not understand or has read only in part, each member
/// as the very text that came (EV-5, MO-4).
#[derive(Serialize)]
struct Extra<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    choice: &'a BTreeMap<String, Vec<Box<RawValue>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    response: &'a BTreeMap<String, Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a RawValue>,
}

/// What the end of a reply needs besides its events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End<'a> {
    /// Whether the connection says that the body is whole: it did not just close.
    pub(crate) framed: bool,
    /// Whether bytes had to be replaced on their way to text.
    pub(crate) replaced: bool,
    /// The server's name for the request.
    pub(crate) request_id: Option<&'a str>,
    /// Whether `usage.cost` is a price in US dollars.
    pub(crate) has_cost: bool,
}

impl Incoming {
    /// Whether the server said that nothing follows.
    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    /// Takes the data of an event.
    pub(crate) fn event(&mut self, data: &str, asked: &Asked, deltas: &dyn DeltaSink) -> Result<(), ModelError> {
        match data.trim() {
            DONE => self.done = true,
            "" => {}
            json => {
                let chunk = Members::of(json).ok_or_else(|| asked.broken_off(": it sent what is no JSON object"))?;
                self.chunk(chunk, asked, deltas)?;
            }
        }
        Ok(())
    }

    /// Takes a reply that came in one piece, from a server that does not stream.
    pub(crate) fn whole(&mut self, json: &str, asked: &Asked, deltas: &dyn DeltaSink) -> Result<(), ModelError> {
        self.event(json, asked, deltas)?;
        self.done = true;
        Ok(())
    }

    fn chunk(&mut self, mut chunk: Members<'_>, asked: &Asked, deltas: &dyn DeltaSink) -> Result<(), ModelError> {
        if let Some(error) = chunk.take("error") {
            return Err(asked.in_stream(error));
        }
        for choice in chunk.take_list("choices") {
            let Some(mut choice) = Members::of(choice.get()) else { continue };
            // A server that leaves the index out sends one choice.
            if choice.take("index").is_some_and(|index| index.get() != "0") {
                self.further_choices = true;
                continue;
            }
            self.choice(choice, deltas);
        }
        if let Some(usage) = chunk.take("usage").filter(|usage| usage.get().len() <= USAGE_BYTES_MAX) {
            self.usage = Some(usage.to_owned());
        }
        for name in EMPTY_MEMBERS {
            chunk.take(name);
        }
        for (name, raw) in chunk.rest() {
            self.kept.whole(name, raw);
        }
        Ok(())
    }

    fn choice(&mut self, mut choice: Members<'_>, deltas: &dyn DeltaSink) {
        for said in ["delta", "message"] {
            if let Some(said) = choice.take_object(said) {
                self.said(said, deltas);
            }
        }
        if let Some(reason) = choice.take_text("finish_reason") {
            self.replaced |= reason.replaced;
            self.finish = Some(cut(&reason.text, STOP_BYTES_MAX).to_owned());
        }
        self.kept.rest(choice);
    }

    fn said(&mut self, mut said: Members<'_>, deltas: &dyn DeltaSink) {
        said.take("role");
        // Some servers send both names with the same text.
        let thinking = said.take_text("reasoning_content");
        let thinking = [thinking, said.take_text("reasoning")].into_iter().flatten().find(|text| !text.text.is_empty());
        if let Some(thinking) = thinking {
            self.thinking(thinking, deltas);
        }
        if let Some(content) = said.take("content") {
            self.content(content, deltas);
        }
        if let Some(refusal) = said.take_text("refusal") {
            self.refused = true;
            self.text(refusal, deltas);
        }
        for call in said.take_list("tool_calls") {
            if let Some(mut call) = Members::of(call.get()) {
                self.replaced |= self.calls.take(&mut call);
                self.kept.rest(call);
            }
        }
        self.kept.rest(said);
    }

    /// A string, or a list of parts of which some are text.
    fn content(&mut self, content: &RawValue, deltas: &dyn DeltaSink) {
        if let Some(text) = string(content) {
            return self.text(text, deltas);
        }
        for part in list(content) {
            let Some(mut part) = Members::of(part.get()) else { continue };
            if let Some(text) = part.take_text("text") {
                self.text(text, deltas);
            }
            for thought in part.take_list("thinking") {
                let text = Members::of(thought.get()).and_then(|mut thought| thought.take_text("text"));
                self.thinking(text.unwrap_or_default(), deltas);
            }
            part.take("type");
            self.kept.rest(part);
        }
    }

    fn text(&mut self, Text { text: said, replaced }: Text, deltas: &dyn DeltaSink) {
        self.replaced |= replaced;
        if said.is_empty() {
            return;
        }
        match self.said.last_mut() {
            Some(Block::Text { text }) => text.push_str(&said),
            _ => self.said.push(Block::Text { text: said.clone() }),
        }
        deltas.delta(Delta::Text(said));
    }

    fn thinking(&mut self, Text { text: said, replaced }: Text, deltas: &dyn DeltaSink) {
        self.replaced |= replaced;
        if said.is_empty() {
            return;
        }
        match self.said.last_mut() {
            Some(Block::Thinking { text, .. }) => text.push_str(&said),
            _ => self.said.push(Block::Thinking { signature: None, text: said.clone() }),
        }
        deltas.delta(Delta::Thinking(said));
    }

    /// The reply, once nothing follows.
    ///
    /// A reply is whole when the server said `[DONE]`, or gave a finish reason and ended the
    /// body in due form; a connection that just closes may have lost the rest.
    pub(crate) fn finish(self, end: End<'_>, asked: &Asked) -> Result<Reply, ModelError> {
        let is_whole = self.done || self.finish.is_some() && end.framed;
        let is_nothing = self.finish.is_none() && self.said.is_empty() && self.calls.is_empty();
        if !is_whole || is_nothing {
            return Err(asked.broken_off(""));
        }
        if self.finish.as_deref() == Some("error") {
            return Err(asked.error(ModelErrorKind::Overloaded, "failed in the middle of its reply"));
        }
        let extra = self.extra(end);
        let reported = self.usage.as_deref();
        let cost_nano_usd = reported.filter(|_| end.has_cost).and_then(cost);
        let usage = reported.map(usage).unwrap_or_default();
        let stop = self.stop();
        let blocks = self.said.into_iter().chain(self.calls.into_blocks()).collect();
        Ok(Reply { blocks, usage, cost_nano_usd, stop, extra: extra.map(|extra| asked.secrets.redact(&extra)) })
    }

    fn stop(&self) -> StopReason {
        let plain = if self.calls.is_empty() { StopReason::End } else { StopReason::Calls };
        match self.finish.as_deref() {
            // Some servers stop with `stop` although there are calls.
            None | Some("stop" | "") if !self.refused => plain,
            None | Some("stop" | "") => StopReason::Other("refusal".to_owned()),
            Some("tool_calls" | "function_call") => StopReason::Calls,
            Some("length" | "max_tokens") => StopReason::Length,
            Some(word) => StopReason::Other(word.to_owned()),
        }
    }

    fn extra(&self, end: End<'_>) -> Option<String> {
        let notes = [
            (self.replaced || end.replaced, REPLACED_NOTE),
            (self.further_choices, CHOICES_NOTE),
            (self.kept.cut, CUT_NOTE),
        ];
        let extra = Extra {
            choice: &self.kept.choice,
            finish_reason: self.finish.as_deref(),
            notes: notes.into_iter().filter_map(|(holds, note)| holds.then_some(note)).collect(),
            request_id: end.request_id,
            response: &self.kept.whole,
            usage: self.usage.as_deref(),
        };
        serde_json::to_string(&extra).ok().filter(|extra| extra != "{}")
    }
}

impl Kept {
    fn whole(&mut self, name: String, raw: &RawValue) {
        let before = self.whole.get(&name).map_or(0, |before| before.get().len());
        if self.has_room(name.len() + raw.get().len(), before) {
            self.whole.insert(name, raw.to_owned());
        }
    }

    fn rest(&mut self, members: Members<'_>) {
        for (name, raw) in members.rest() {
            if self.has_room(name.len() + raw.get().len(), 0) {
                self.choice.entry(name).or_default().push(raw.to_owned());
            }
        }
    }

    /// Counts `bytes` in place of `before`, if there is room for them.
    fn has_room(&mut self, bytes: usize, before: usize) -> bool {
        let after = self.bytes.saturating_sub(before).saturating_add(bytes);
        if after > REST_BYTES_MAX {
            self.cut = true;
            return false;
        }
        self.bytes = after;
        true
    }
}

#[cfg(test)]
mod tests;
