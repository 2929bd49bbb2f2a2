//! Streams that are cut, sliced, kept alive, broken and endless.

use std::time::Duration;

use plica_ports::ModelErrorKind;

use super::replies::{all_blocks, events, everything};
use super::server::{Act, Framing, Server, stream, stream_head, stream_piece};
use super::{EVENT_BYTES_MAX, ModelSubject, Said, ask, question};

/// A short reply with all kinds of blocks.
fn short() -> Said {
    Said { text: vec!["a\u{e9}"], calls: vec![("c", "R", vec!["{}"])], ..Said::default() }
}

/// MO-3: a stream that is cut at any byte, in its head too, is an error worth trying again,
/// unless all of its events came: then it is the whole reply.
pub async fn mo_3_a_stream_that_is_cut_anywhere_is_an_error(subject: ModelSubject) {
    let all = subject.protocol().events(&short());
    let pieces: Vec<&[u8]> = all.iter().map(String::as_bytes).collect();
    for framing in [Framing::Chunked, Framing::Closed] {
        let bytes = stream(framing, &pieces);
        let end = all.last().expect("a stream has events").trim_end();
        let said = bytes.windows(end.len()).rposition(|window| window == end.as_bytes());
        let said = said.expect("the last event is in it") + end.len();
        let server = Server::start((0..=bytes.len()).map(|cut| vec![Act::Send(bytes[..cut].to_vec())])).await;
        let model = subject.model(&server);
        let whole = ask(&*subject.model(&Server::start([events(&all)]).await), &question()).await.reply();
        for cut in 0..=bytes.len() {
            match ask(&*model, &question()).await.reply {
                Ok(reply) => {
                    assert!(cut >= said, "cut at {cut} of {}: {reply:?}", bytes.len());
                    assert_eq!(reply.blocks, whole.blocks);
                }
                Err(error) => {
                    assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
                    assert!(cut < bytes.len(), "{error}");
                }
            }
        }
        assert_eq!(server.received().len(), bytes.len() + 1, "nothing is asked twice");
    }
}

/// MO-1: the same bytes give the same reply however they are cut into pieces, inside a
/// character too.
pub async fn mo_1_how_a_stream_is_cut_into_pieces_makes_no_difference(subject: ModelSubject) {
    let bytes = subject.protocol().events(&everything()).concat().into_bytes();
    for size in [1, 2, 3, 7, 64, bytes.len()] {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        let server = Server::start([vec![Act::Send(stream(Framing::Chunked, &pieces))]]).await;
        let reply = ask(&*subject.model(&server), &question()).await.reply();
        assert_eq!(reply.blocks.len(), all_blocks().len(), "pieces of {size}");
        assert_eq!(Some(reply.usage), everything().usage);
        assert_eq!(reply.blocks[1..], all_blocks()[1..]);
    }
}

/// MO-1: lines may end in CR LF or in CR alone, and the stream may begin with a byte order
/// mark.
pub async fn mo_1_lines_end_in_any_way(subject: ModelSubject) {
    let text = subject.protocol().events(&everything()).concat();
    for text in [text.replace('\n', "\r\n"), text.replace('\n', "\r"), format!("\u{feff}{text}")] {
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        let server = Server::start([vec![Act::Send(stream(Framing::Chunked, &bytes))]]).await;
        let reply = ask(&*subject.model(&server), &question()).await.reply();
        assert_eq!(reply.blocks[1..], all_blocks()[1..]);
    }
}

/// MO-1: comments and fields that nobody knows are no part of the reply.
pub async fn mo_1_comments_keep_a_stream_alive(subject: ModelSubject) {
    let noise = ": keep-alive\n\n:\n\nretry: 1000\nretry: 2000\n\nid: 7\n\nodd: x\n\n";
    let noisy: Vec<String> =
        subject.protocol().events(&everything()).into_iter().map(|event| format!("{noise}{event}")).collect();
    let server = Server::start([events(&noisy)]).await;
    let reply = ask(&*subject.model(&server), &question()).await.reply();
    assert_eq!(reply.blocks[1..], all_blocks()[1..]);
}

/// MO-3: a failure that the provider tells in the middle of its reply has its kind; an event
/// that cannot be read is a broken stream.
pub async fn mo_3_a_failure_inside_a_stream_is_an_error(subject: ModelSubject) {
    let begun = subject.protocol().events(&short())[0].clone();
    for (event, kind) in [
        (subject.protocol().failure("too busy"), ModelErrorKind::Overloaded),
        ("data: {\"broken\n\n".to_owned(), ModelErrorKind::Network),
    ] {
        let server = Server::start([events(&[begun.clone(), event])]).await;
        let error = ask(&*subject.model(&server), &question()).await.error();
        assert_eq!(error.kind, kind, "{error}");
        assert!(kind != ModelErrorKind::Overloaded || error.message.contains("too busy"), "{error}");
    }
}

/// RC-10: an event that grows without end is refused long before it fills the memory, and
/// the connection is closed.
pub async fn rc_10_an_event_without_end_is_refused(subject: ModelSubject) {
    let framing = Framing::Chunked;
    let begun = [stream_head(framing), stream_piece(framing, b"data: ")].concat();
    let endless = stream_piece(framing, &[b'x'; 1 << 15]);
    let server = Server::start([vec![Act::Send(begun), Act::Repeat(endless, Duration::ZERO)]]).await;
    let error = ask(&*subject.model(&server), &question()).await.error();
    assert!(!error.kind.is_retryable() && error.message.contains(&EVENT_BYTES_MAX.to_string()), "{error}");
    server.client_gone().await;
}
