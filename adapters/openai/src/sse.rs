//! Server-sent events with bounds.
//!
//! The lines are read by `sse-stream`. What it leaves to its caller is done here: sizes are
//! bounded, and text that is not UTF-8 is repaired before it gets there, since it would end
//! the stream (EV-6). Bytes are pushed in as they come, so the same bytes give the same
//! events however they are cut into pieces.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_core::Stream;
use sse_stream::SseByteStream;

use crate::Limits;

/// More bytes than [`Limits`] allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Oversize {
    #[error("one event of more than {0} bytes")]
    Event(usize),
    #[error("more than {0} bytes")]
    Stream(usize),
}

/// Events from bytes.
pub(crate) struct Events {
    parser: SseByteStream<Feed>,
    feed: Feed,
    limits: Limits,
    /// The beginning of a character whose rest has not come yet.
    tail: Vec<u8>,
    /// Bytes since the last event ended.
    open_bytes: usize,
    all_bytes: usize,
    replaced: bool,
}

impl Events {
    pub(crate) fn new(limits: Limits) -> Self {
        let feed = Feed::default();
        let parser = SseByteStream::new(feed.clone());
        Self { parser, feed, limits, tail: Vec::new(), open_bytes: 0, all_bytes: 0, replaced: false }
    }

    /// Whether something was no UTF-8 and has been replaced with U+FFFD, up to the line that
    /// completed the last event.
    pub(crate) const fn replaced(&self) -> bool {
        self.replaced
    }

    /// Takes the next bytes; gives the data of each event that they complete. What follows the
    /// last event that was asked for is not read.
    pub(crate) const fn push<'a>(&'a mut self, bytes: &'a [u8]) -> Push<'a> {
        Push { events: self, rest: bytes }
    }

    /// The next event of what the parser was given.
    fn parsed(&mut self) -> Option<Result<String, Oversize>> {
        let mut context = Context::from_waker(Waker::noop());
        // Neither the feed nor, without `strict-fields`, UTF-8 that is sound can fail.
        while let Poll::Ready(Some(Ok(event))) = Pin::new(&mut self.parser).poll_next(&mut context) {
            self.open_bytes = 0;
            let max = self.limits.event_bytes;
            match event.data {
                Some(data) if data.len() > max => return Some(Err(Oversize::Event(max))),
                Some(data) => return Some(Ok(data)),
                None => {}
            }
        }
        None
    }

    /// Gives the parser bytes up to the end of a line, or as many of it as have come.
    fn feed(&mut self, line: &[u8]) -> Result<(), Oversize> {
        self.all_bytes = self.all_bytes.saturating_add(line.len());
        if self.all_bytes > self.limits.stream_bytes {
            return Err(Oversize::Stream(self.limits.stream_bytes));
        }
        self.open_bytes = self.open_bytes.saturating_add(line.len());
        let text = self.repaired(line);
        self.feed.put(text.into());
        Ok(())
    }

    /// The bytes as text, with U+FFFD for what is none; an unfinished character at the end is
    /// kept for the next time.
    fn repaired(&mut self, bytes: &[u8]) -> String {
        self.tail.extend_from_slice(bytes);
        let whole = std::mem::take(&mut self.tail);
        let mut rest = &whole[..];
        let mut text = String::with_capacity(rest.len());
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(sound) => {
                    text.push_str(sound);
                    return text;
                }
                Err(error) => error,
            };
            let (sound, broken) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(sound));
            let Some(skip) = error.error_len() else {
                self.tail = broken.to_owned();
                return text;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            self.replaced = true;
            rest = &broken[skip..];
        }
    }
}

/// What [`Events::push`] was given, read a line at a time: so an event is the same, and what
/// has been repaired before it too, whatever else came in the same piece.
pub(crate) struct Push<'a> {
    events: &'a mut Events,
    rest: &'a [u8],
}

impl Push<'_> {
    fn oversize(&mut self, oversize: Oversize) -> Option<Result<String, Oversize>> {
        self.rest = &[];
        Some(Err(oversize))
    }
}

impl Iterator for Push<'_> {
    type Item = Result<String, Oversize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.events.parsed() {
                return Some(event);
            }
            let max = self.events.limits.event_bytes;
            if self.events.open_bytes > max {
                return self.oversize(Oversize::Event(max));
            }
            if self.rest.is_empty() {
                return None;
            }
            let end = self.rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (line, rest) = self.rest.split_at(end.map_or(self.rest.len(), |end| end + 1));
            self.rest = rest;
            if let Err(oversize) = self.events.feed(line) {
                return self.oversize(oversize);
            }
        }
    }
}

/// The parser's input: what was put in and not yet read.
#[derive(Debug, Clone, Default)]
struct Feed(Arc<Mutex<VecDeque<Bytes>>>);

impl Feed {
    fn put(&self, bytes: Bytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(bytes);
    }
}

impl Stream for Feed {
    type Item = Result<Bytes, Infallible>;

    /// Never ends and wakes nobody: the parser is asked again after the next bytes.
    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
            Some(bytes) => Poll::Ready(Some(Ok(bytes))),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> (Vec<String>, bool) {
        let mut events = Events::new(Limits::default());
        let data = pieces.iter().flat_map(|piece| events.push(piece).map(Result::unwrap).collect::<Vec<_>>()).collect();
        (data, events.replaced())
    }

    #[test]
    fn mo_1_lines_end_in_any_way_and_comments_are_no_events() {
        let expected = vec!["a\nb".to_owned(), "c".to_owned()];
        for stream in [
            "data: a\ndata: b\n\ndata:c\n\n",
            "data: a\r\ndata: b\r\n\r\ndata:c\r\n\r\n",
            "data: a\rdata: b\r\rdata:c\r\r",
            "\u{feff}: hello\n\ndata: a\ndata: b\nevent: x\nid: 1\nretry: 1\nretry: 2\n\n: ping\n\ndata:c\nodd\n\ndata: cut\n",
        ] {
            assert_eq!(events(&[stream.as_bytes()]), (expected.clone(), false), "{stream:?}");
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(events(&bytes), (expected.clone(), false), "{stream:?}");
        }
    }

    #[test]
    fn ev_6_broken_utf_8_is_replaced_and_the_fact_kept() {
        for (stream, data, replaced) in [
            (&b"data: \xf0\x9f\x98\x80\n\n"[..], "\u{1f600}", false),
            (b"data: a\xffb\n\n", "a\u{fffd}b", true),
            (b"data: a\xf0\x9fb\n\n", "a\u{fffd}b", true),
            (b"data: a\xf0\x9f\n\n", "a\u{fffd}", true),
        ] {
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            assert_eq!(events(&bytes), (vec![data.to_owned()], replaced));
            assert_eq!(events(&[stream]), (vec![data.to_owned()], replaced));
        }
    }

    #[test]
    fn ev_6_what_follows_an_event_in_its_piece_is_not_yet_read() {
        let mut events = Events::new(Limits::default());
        let stream = b"data: a\n\ndata: \xff\n\n";
        assert_eq!(events.push(stream).next(), Some(Ok("a".to_owned())));
        assert!(!events.replaced());
        let seen: Vec<_> = events.push(&stream[9..]).collect();
        assert_eq!(seen, [Ok("\u{fffd}".to_owned())]);
        assert!(events.replaced());
    }

    #[test]
    fn rc_10_what_a_stream_may_hold_is_bounded() {
        let limits = Limits { event_bytes: 100, stream_bytes: 1_000 };
        let push = |pieces: &[&[u8]]| {
            let mut events = Events::new(limits);
            pieces.iter().try_for_each(|piece| events.push(piece).try_for_each(|data| data.map(drop)))
        };
        let line = [b"data: ", &[b'x'; 90][..], b"\n\n"].concat();
        assert_eq!(push(&[&line[..]; 10]), Ok(()));
        assert_eq!(push(&[&line[..]; 11]), Err(Oversize::Stream(1_000)));
        assert_eq!(push(&[&line[..90], &line[..20]]), Err(Oversize::Event(100)));
        assert_eq!(push(&[&[&line[..90], &line[..20], b"\n\n"].concat()]), Err(Oversize::Event(100)));
        assert_eq!(push(&[&b"x"[..]; 101]), Err(Oversize::Event(100)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Any bytes, cut anywhere, give the same events, and nothing panics.
        #[test]
        fn mo_1_how_a_stream_is_cut_makes_no_difference(
            lines in proptest::collection::vec(
                prop::sample::select(vec![
                    &b"data: "[..], b"data", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"{}", b"\xf0\x9f\x98\x80",
                    b"\xf0\x9f", b"\xff", b"\xef\xbb\xbf", b"event: x", b"\0",
                ]),
                0..40,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let stream = lines.concat();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|ends| &stream[ends[0]..ends[1]]).collect();
            let single: Vec<&[u8]> = stream.chunks(1).collect();
            let whole = events(&[&stream]);
            prop_assert_eq!(&events(&pieces), &whole);
            prop_assert_eq!(&events(&single), &whole);
        }
    }
}
