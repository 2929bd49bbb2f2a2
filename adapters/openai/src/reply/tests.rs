use std::sync::Mutex;

use plica_kernel::event::Usage;

use super::*;
use crate::secret::Secrets;

#[derive(Default)]
struct Heard(Mutex<Vec<Delta>>);

impl DeltaSink for Heard {
    fn delta(&self, delta: Delta) {
        self.0.lock().unwrap().push(delta);
    }
}

fn asked() -> Asked {
    Asked { host: "h".into(), key_variable: None, secrets: Secrets::default() }
}

const CLOSED: End<'_> = End { framed: false, replaced: false, request_id: None, has_cost: false };
const FRAMED: End<'_> = End { framed: true, ..CLOSED };

fn read(events: &[&str], end: End<'_>) -> (Result<Reply, ModelError>, Vec<Delta>) {
    let (mut incoming, heard) = (Incoming::default(), Heard::default());
    let taken = events.iter().try_for_each(|event| incoming.event(event, &asked(), &heard));
    let reply = taken.and_then(|()| incoming.finish(end, &asked()));
    (reply, heard.0.into_inner().unwrap())
}

fn reply(events: &[&str]) -> Reply {
    let events = [events, &["[DONE]"]].concat();
    read(&events, CLOSED).0.unwrap()
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn thinking(text: &str) -> Block {
    Block::Thinking { signature: None, text: text.into() }
}

#[test]
fn mo_1_deltas_go_out_as_they_come_and_then_the_whole_reply() {
    let events = [
        r#"{"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"id":"x","choices":[{"index":0,"delta":{"reasoning_content":"h"}}]}"#,
        r#"{"id":"x","choices":[{"index":0,"delta":{"reasoning":"m","reasoning_content":null}}]}"#,
        r#"{"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}"#,
        r#"{"id":"x","choices":[{"index":0,"delta":{"content":"b"}}]}"#,
        r#"{"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"T","arguments":"{}"}}]}}]}"#,
        r#"{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
        "[DONE]",
    ];
    let (reply, deltas) = read(&events, CLOSED);
    let reply = reply.unwrap();
    let call = Block::ToolUse { args: "{}".into(), id: Some("c".into()), tool: "T".into() };
    assert_eq!(reply.blocks, [thinking("hm"), text("ab"), call]);
    assert_eq!(reply.stop, StopReason::Calls);
    assert_eq!(reply.usage, Usage { uncached: 3, output: 2, ..Usage::default() });
    let thought = |text: &str| Delta::Thinking(text.into());
    let said = |text: &str| Delta::Text(text.into());
    assert_eq!(deltas, [thought("h"), thought("m"), said("a"), said("b")]);
}

#[test]
fn mo_1_finish_reasons_are_mapped_and_the_unknown_named() {
    let other = |word: &str| StopReason::Other(word.into());
    for (word, stop, stop_with_calls) in [
        (r#""stop""#, StopReason::End, StopReason::Calls),
        ("null", StopReason::End, StopReason::Calls),
        (r#""""#, StopReason::End, StopReason::Calls),
        (r#""tool_calls""#, StopReason::Calls, StopReason::Calls),
        (r#""function_call""#, StopReason::Calls, StopReason::Calls),
        (r#""length""#, StopReason::Length, StopReason::Length),
        (r#""max_tokens""#, StopReason::Length, StopReason::Length),
        (r#""content_filter""#, other("content_filter"), other("content_filter")),
        (
            r#""model_context_window_exceeded""#,
            other("model_context_window_exceeded"),
            other("model_context_window_exceeded"),
        ),
    ] {
        let said = format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":{word}}}]}}"#);
        assert_eq!(reply(&[&said]).stop, stop, "{word}");
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"T"}}]}}]}"#;
        assert_eq!(reply(&[call, &said]).stop, stop_with_calls, "{word}");
    }
    let refusal = reply(&[r#"{"choices":[{"delta":{"refusal":"I cannot"},"finish_reason":"stop"}]}"#]);
    assert_eq!((refusal.stop, refusal.blocks), (other("refusal"), vec![text("I cannot")]));
    let failed = read(&[r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#, "[DONE]"], CLOSED).0.unwrap_err();
    assert_eq!(failed.kind, ModelErrorKind::Overloaded);
}

#[test]
fn mo_3_a_reply_that_is_not_whole_is_an_error() {
    let said = r#"{"choices":[{"delta":{"content":"x"}}]}"#;
    let finish = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    for (events, end, is_whole) in [
        (&[said, finish, "[DONE]"][..], CLOSED, true),
        (&[said, "[DONE]"], CLOSED, true),
        (&[said, finish], FRAMED, true),
        (&[finish], FRAMED, true),
        (&[said, finish], CLOSED, false),
        (&[said], FRAMED, false),
        (&[], FRAMED, false),
        (&["[DONE]"], FRAMED, false),
        (&[said, "{\"choices\":[", "[DONE]"], FRAMED, false),
        (&[said, "[]", "[DONE]"], FRAMED, false),
    ] {
        let (reply, _) = read(events, end);
        assert_eq!(reply.as_ref().map_err(|error| error.kind).err(), (!is_whole).then_some(ModelErrorKind::Network));
    }
    let (failed, _) = read(&[said, r#"{"error":{"code":429,"message":"slow"},"choices":[]}"#], FRAMED);
    assert_eq!(failed.unwrap_err().kind, ModelErrorKind::RateLimited);
}

#[test]
fn mo_1_an_empty_reply_is_a_reply() {
    let reply = reply(&[r#"{"choices":[{"delta":{"content":null},"finish_reason":"stop"}]}"#]);
    assert_eq!((reply.blocks, reply.stop), (vec![], StopReason::End));
}

#[test]
fn mo_4_what_is_not_understood_is_kept_as_the_text_that_came() {
    let extra = reply(&[
        r#"{"id":"a","object":"o","created":1,"obfuscation":"x","model":"m-1","timings":{"n": 1.50},"choices":[{"index":0,
            "delta":{"content":"x","annotations":[{"u":1.0}],"audio":null},"logprobs":null,"native_finish_reason":"STOP"}]}"#,
        r#"{"id":"a","choices":[{"index":0,"delta":{"annotations":[2],"tool_calls":[{"index":0,"extra_content":{"s":"1"}}]},"finish_reason":"eos"}]}"#,
        r#"{"id":"a","choices":[{"index":1,"delta":{"content":"other"}}],"usage":{"prompt_tokens":1, "queue_time":0.10}}"#,
    ])
    .extra
    .unwrap();
    let expected = concat!(
        r#"{"choice":{"annotations":[[{"u":1.0}],[2]],"extra_content":[{"s":"1"}],"native_finish_reason":["STOP"]},"#,
        r#""finish_reason":"eos","notes":["further choices were ignored"],"#,
        r#""response":{"id":"a","model":"m-1","timings":{"n": 1.50}},"usage":{"prompt_tokens":1, "queue_time":0.10}}"#
    );
    assert_eq!(extra, expected);
    assert_eq!(reply(&[r#"{"choices":[{"delta":{"content":"x"}}]}"#]).extra, None);
}

#[test]
fn rc_10_what_is_kept_is_bounded() {
    let piece = format!(r#"{{"choices":[{{"delta":{{"content":"x","odd":"{}"}}}}],"big":{{}}}}"#, "y".repeat(1_000));
    let reply = reply(&vec![piece.as_str(); 200]);
    let extra = reply.extra.unwrap();
    assert!(extra.len() < 2 * REST_BYTES_MAX && extra.contains(CUT_NOTE));
    assert_eq!(reply.blocks, [text(&"x".repeat(200))]);
}

#[test]
fn ev_6_text_that_is_no_unicode_is_replaced_and_noted() {
    let odd = reply(&[r#"{"choices":[{"delta":{"content":"a\ud800b\u0000"}}]}"#]);
    assert_eq!(odd.blocks, [text("a\u{fffd}b\u{0}")]);
    assert!(odd.extra.unwrap().contains(REPLACED_NOTE));
    let call =
        reply(&[r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"T","arguments":"\"\ude00\""}}]}}]}"#]);
    assert_eq!(call.blocks, [Block::ToolUse { args: "\"\u{fffd}\"".into(), id: None, tool: "T".into() }]);
    assert!(call.extra.unwrap().contains(REPLACED_NOTE));
}

#[test]
fn mo_1_content_may_come_in_parts() {
    let reply = reply(&[
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"reference","reference_ids":[1]}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"b"}}]}"#,
    ]);
    assert_eq!(reply.blocks, [thinking("hm"), text("ab")]);
    assert_eq!(reply.extra.as_deref(), Some(r#"{"choice":{"reference_ids":[[1]]}}"#));
}

#[test]
fn mo_1_a_reply_may_come_in_one_piece() {
    let heard = Heard::default();
    let mut incoming = Incoming::default();
    let json = r#"{"object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant",
        "content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"T","arguments":"{\"a\":1}"}},
        {"id":"b","type":"function","function":{"name":"T","arguments":"{}"}}]}}],
        "usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.25}}"#;
    incoming.whole(json, &asked(), &heard).unwrap();
    let reply = incoming.finish(End { has_cost: true, ..FRAMED }, &asked()).unwrap();
    assert_eq!((reply.blocks.len(), reply.stop, reply.cost_nano_usd), (2, StopReason::Calls, Some(250_000_000)));
    let failed = Incoming::default().whole("{\"choices\":", &asked(), &heard).unwrap_err();
    assert_eq!(failed.kind, ModelErrorKind::Network);
}
