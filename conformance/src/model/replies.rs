//! What comes back when all goes well.

use plica_kernel::event::Usage;
use plica_kernel::message::Block;

use super::server::{Act, Exchange, Framing, Server, stream};
use super::{ModelSubject, Said, ask, question};

/// A reply with everything in it.
pub(super) fn everything() -> Said {
    Said {
        thinking: vec!["Hm", ", so."],
        text: vec!["I look", " at \u{1f600} both", ".\u{0}\n"],
        calls: vec![
            ("call_a", "Read", vec!["{\"file_path\"", ": \"a\",", " \"n\": 1.50}"]),
            ("call_b", "Grep", vec!["{\"pattern\":\"\\u00e9\"}"]),
        ],
        usage: Some(Usage { cache_read: 60, cache_write: 0, output: 20, reasoning: 5, uncached: 40 }),
        stop: None,
    }
}

/// The blocks of [`everything`].
pub(super) fn all_blocks() -> Vec<Block> {
    let call =
        |id: &str, tool: &str, args: &str| Block::ToolUse { args: args.into(), id: Some(id.into()), tool: tool.into() };
    vec![
        Block::Thinking { signature: None, text: "Hm, so.".into() },
        Block::Text { text: "I look at \u{1f600} both.\u{0}\n".into() },
        call("call_a", "Read", "{\"file_path\": \"a\", \"n\": 1.50}"),
        call("call_b", "Grep", "{\"pattern\":\"\\u00e9\"}"),
    ]
}

/// Without what a provider's protocol may sign.
fn unsigned(blocks: Vec<Block>) -> Vec<Block> {
    let unsign = |block| match block {
        Block::Thinking { text, .. } => Block::Thinking { signature: None, text },
        other => other,
    };
    blocks.into_iter().map(unsign).collect()
}

/// The exchange that streams these events.
pub(super) fn events(events: &[String]) -> Exchange {
    let pieces: Vec<&[u8]> = events.iter().map(String::as_bytes).collect();
    vec![Act::Send(stream(Framing::Chunked, &pieces))]
}

async fn reply_to(subject: &ModelSubject, stream: &[String]) -> super::Asked {
    let server = Server::start([events(stream)]).await;
    ask(&*subject.model(&server), &question()).await
}

/// MO-1: text and thinking go out as deltas, then all of it comes in one reply, with calls,
/// tokens by kind, and the reason to stop.
pub async fn mo_1_a_reply_has_text_thinking_calls_and_tokens(subject: ModelSubject) {
    let said = everything();
    let asked = reply_to(&subject, &subject.protocol().events(&said)).await;
    assert_eq!((asked.text.as_str(), asked.thinking.as_str()), ("I look at \u{1f600} both.\u{0}\n", "Hm, so."));
    let reply = asked.reply();
    assert_eq!(unsigned(reply.blocks), all_blocks());
    assert_eq!(Some(reply.usage), said.usage);
    assert_eq!(reply.stop.name(), "calls");

    let said = Said { text: vec!["Just this."], ..Said::default() };
    let reply = reply_to(&subject, &subject.protocol().events(&said)).await.reply();
    assert_eq!(reply.blocks, [Block::Text { text: "Just this.".into() }]);
    assert_eq!(reply.stop.name(), "end");
}

/// MO-1: a reply that holds nothing is a reply; what to make of it is the engine's affair.
pub async fn mo_1_an_empty_reply_is_a_reply(subject: ModelSubject) {
    let reply = reply_to(&subject, &subject.protocol().events(&Said::default())).await.reply();
    assert_eq!((reply.blocks, reply.stop.name()), (vec![], "end"));
}

/// MO-1: tokens are zero when the provider does not say.
pub async fn mo_1_tokens_may_be_missing(subject: ModelSubject) {
    let said = Said { text: vec!["a"], usage: None, ..Said::default() };
    let reply = reply_to(&subject, &subject.protocol().events(&said)).await.reply();
    assert_eq!(reply.usage, Usage::default());
}

/// MO-1: a reason that has a neutral word is recorded by it, and any other by its own.
pub async fn mo_1_reasons_to_stop_are_mapped_and_the_unknown_named(subject: ModelSubject) {
    let unknown = ("a_new_reason", "a_new_reason");
    for (stop, recorded) in subject.protocol().stops().into_iter().chain([unknown]) {
        let said = Said { text: vec!["a"], stop: Some(stop), ..Said::default() };
        let reply = reply_to(&subject, &subject.protocol().events(&said)).await.reply();
        assert_eq!(reply.stop.name(), recorded, "{stop}");
    }
}

/// MO-1: whatever else the protocol allows, or providers do, gives the same reply.
pub async fn mo_1_other_streams_say_the_same(subject: ModelSubject) {
    let said = everything();
    for (word, stream) in subject.protocol().variants(&said) {
        let asked = reply_to(&subject, &stream).await;
        assert_eq!(unsigned(asked.reply().blocks), all_blocks(), "{word}");
    }
}

/// MO-4: what the adapter does not understand of a reply, and the tokens as they were
/// reported, are kept as text.
pub async fn mo_4_what_is_not_understood_is_kept(subject: ModelSubject) {
    let usage = Some(Usage { output: 31_337, ..Usage::default() });
    let said = Said { text: vec!["a"], usage, stop: Some("a_new_reason"), ..Said::default() };
    let extra = reply_to(&subject, &subject.protocol().events(&said)).await.reply().extra.unwrap_or_default();
    assert!(extra.contains("a_new_reason") && extra.contains("31337"), "{extra}");
}

/// EV-5: arguments come as the text that the model wrote, valid JSON or not.
pub async fn ev_5_arguments_come_as_they_are(subject: ModelSubject) {
    let odd = ["{\"a\": 1,, \"b\"", "{ \"z\":1.0,\n\"a\":1e3, \"a\":2 }", "[1", "null", "{\"u\":\"\\u00e9\\/\"}"];
    let calls = odd.iter().map(|args| ("", "Read", vec![*args])).collect();
    let said = Said { calls, ..Said::default() };
    let blocks = reply_to(&subject, &subject.protocol().events(&said)).await.reply().blocks;
    let args: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolUse { args, .. } => Some(args.as_str()),
            Block::Text { .. } | Block::Thinking { .. } => None,
        })
        .collect();
    assert_eq!(args, odd);
}

/// EV-6: a lone surrogate and bytes that are no UTF-8 become U+FFFD, and the reply says so.
pub async fn ev_6_text_that_is_no_unicode_is_replaced_and_noted(subject: ModelSubject) {
    let said = Said { text: vec!["a", "ODD", "b"], ..Said::default() };
    for odd in [&b"\\ud83d"[..], b"\xff", b"\xf0\x9f"] {
        let text = subject.protocol().events(&said).concat();
        let (before, after) = text.split_once("ODD").expect("the text is sent as it is");
        let bytes = [before.as_bytes(), odd, after.as_bytes()].concat();
        let server = Server::start([vec![Act::Send(stream(Framing::Chunked, &[&bytes]))]]).await;
        let reply = ask(&*subject.model(&server), &question()).await.reply();
        assert_eq!(reply.blocks, [Block::Text { text: "a\u{fffd}b".into() }]);
        assert!(reply.extra.is_some_and(|extra| extra.contains("U+FFFD")));
    }
}
