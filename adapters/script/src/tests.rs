use std::sync::Mutex;

use plica_kernel::id::TaskId;

use super::*;

struct Heard(Mutex<Vec<String>>);

impl DeltaSink for Heard {
    fn delta(&self, delta: Delta) {
        if let Delta::Text(text) = delta {
            self.0.lock().unwrap().push(text);
        }
    }
}

fn request(assistant_messages: u64, attempt: u32) -> ModelRequest {
    ModelRequest {
        task: TaskId::new("t").unwrap(),
        model: "replies.json".into(),
        instructions: String::new(),
        messages: vec![],
        tools: vec![],
        attempt,
        assistant_messages,
    }
}

async fn ask_with_deltas(script: &str, index: u64, attempt: u32) -> (Result<Reply, ModelError>, Vec<String>) {
    let heard = Heard(Mutex::default());
    let model = ScriptModel::parse(script.as_bytes()).unwrap();
    let reply = model.ask(&request(index, attempt), &heard).await;
    (reply, heard.0.into_inner().unwrap())
}

async fn ask(script: &str, index: u64, attempt: u32) -> Result<Reply, ModelError> {
    ask_with_deltas(script, index, attempt).await.0
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn call(tool: &str, args: &str, id: Option<&str>) -> Block {
    Block::ToolUse { args: args.into(), id: id.map(Into::into), tool: tool.into() }
}

#[tokio::test]
async fn mo_1_text_goes_out_as_deltas_and_then_in_one_reply() {
    let (reply, deltas) = ask_with_deltas(r#"{"replies":[{"text":"one two  three"}]}"#, 0, 1).await;
    assert_eq!(deltas.concat(), "one two  three");
    assert!(deltas.len() > 1);
    let reply = reply.unwrap();
    assert_eq!((reply.blocks, reply.stop, reply.extra), (vec![text("one two  three")], StopReason::End, None));
}

#[tokio::test]
async fn mo_1_a_reply_has_text_calls_usage_and_stop() {
    let script = r#"{"replies":[
        {"text":"look","calls":[{"tool":"Read","args":{"file_path":"a"},"id":"c1"},{"tool":"Grep"}],
         "usage":{"uncached":1,"cache_read":2,"cache_write":3,"output":4,"reasoning":5}},
        {"usage":{"input_tokens":7,"output_tokens":8},"stop":"length"},
        {"stop":"refusal"},
        {"stop":"end","calls":[{"tool":"Read","args":{}}]}]}"#;
    let reply = ask(script, 0, 1).await.unwrap();
    assert_eq!(
        reply.blocks,
        [text("look"), call("Read", r#"{"file_path":"a"}"#, Some("c1")), call("Grep", "{}", None)]
    );
    assert_eq!(reply.stop, StopReason::Calls);
    assert_eq!(reply.usage, Usage { uncached: 1, cache_read: 2, cache_write: 3, output: 4, reasoning: 5 });
    let reply = ask(script, 1, 1).await.unwrap();
    assert_eq!((reply.usage.uncached, reply.usage.output, reply.stop), (7, 8, StopReason::Length));
    assert_eq!(reply.blocks, []);
    assert_eq!(ask(script, 2, 1).await.unwrap().stop, StopReason::Other("refusal".into()));
    assert_eq!(ask(script, 3, 1).await.unwrap().stop, StopReason::End);
}

#[tokio::test]
async fn mo_2_the_reply_follows_from_the_conversation_and_not_from_earlier_requests() {
    let model = ScriptModel::parse(br#"{"replies":[{"text":"a"},{"text":"b"}]}"#).unwrap();
    let heard = Heard(Mutex::default());
    for (index, expected) in [(1, "b"), (0, "a"), (0, "a"), (1, "b")] {
        assert_eq!(model.ask(&request(index, 1), &heard).await.unwrap().blocks, [text(expected)]);
    }
}

#[tokio::test]
async fn mo_3_an_error_comes_on_attempt_1_only_and_has_its_kind() {
    for (status, kind) in [
        (0, ModelErrorKind::Network),
        (400, ModelErrorKind::Invalid),
        (401, ModelErrorKind::Auth),
        (403, ModelErrorKind::Auth),
        (404, ModelErrorKind::Invalid),
        (408, ModelErrorKind::Timeout),
        (413, ModelErrorKind::ContextOverflow),
        (422, ModelErrorKind::Invalid),
        (429, ModelErrorKind::RateLimited),
        (500, ModelErrorKind::Overloaded),
        (502, ModelErrorKind::Overloaded),
        (503, ModelErrorKind::Overloaded),
        (504, ModelErrorKind::Timeout),
        (529, ModelErrorKind::Overloaded),
        (599, ModelErrorKind::Overloaded),
    ] {
        let script = format!(r#"{{"replies":[{{"text":"ok","error":{{"status":{status},"retry_after_ms":250}}}}]}}"#);
        let (reply, deltas) = ask_with_deltas(&script, 0, 1).await;
        let error = reply.unwrap_err();
        assert_eq!((error.kind, error.retry_after), (kind, Some(Duration::from_millis(250))), "{status}");
        assert!(error.message.contains(&status.to_string()), "{error}");
        assert_eq!(deltas, [""; 0]);
        assert_eq!(ask(&script, 0, 2).await.unwrap().blocks, [text("ok")]);
    }
    let error = ask(r#"{"replies":[{"error":{"status":429}}]}"#, 0, 1).await.unwrap_err();
    assert_eq!(error.retry_after, None);
}

#[tokio::test]
async fn mo_3_running_out_of_replies_is_no_error_to_retry() {
    for (script, asked, says) in [
        (r#"{"replies":[]}"#, 0, "has 0 replies and reply 1 "),
        (r#"{"replies":[{"text":"a"}]}"#, 1, "has 1 reply and reply 2 "),
        (r#"{"replies":[{"text":"a"},{}]}"#, 7, "has 2 replies and reply 8 "),
        (r#"{"replies":[]}"#, u64::MAX, "has 0 replies"),
    ] {
        let error = ask(script, asked, 1).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Invalid);
        assert!(!error.kind.is_retryable());
        assert!(error.message.contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn mo_3_a_delay_is_waited_out_and_ends_with_the_request() {
    let start = tokio::time::Instant::now();
    let script = r#"{"replies":[{"text":"a","delay_ms":90000}]}"#;
    ask(script, 0, 1).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(90));
    let cut = tokio::time::timeout(Duration::from_secs(1), ask(script, 0, 1)).await;
    assert!(cut.is_err());
    assert_eq!(start.elapsed(), Duration::from_secs(91));
}

#[tokio::test]
async fn ev_5_arguments_are_the_very_text_of_the_file() {
    for args in [
        r#"{"b":1,"a":2}"#,
        r#"{ "n" : 1.50e+2, "big": 18446744073709551616 }"#,
        r#"{"a":1,"a":2}"#,
        r#"{"slash":"\/","e":"\u0041","nul":"\u0000","lone":"\ud800"}"#,
        "[]",
        "null",
        "\"text\"",
        "-0",
    ] {
        let script = format!(r#"{{"replies":[{{"calls":[{{"tool":"T","args": {args} }}]}}]}}"#);
        assert_eq!(ask(&script, 0, 1).await.unwrap().blocks, [call("T", args, None)]);
    }
}

#[tokio::test]
async fn ev_6_what_is_no_unicode_is_replaced_and_noted() {
    for (bytes, says, noted) in [
        (&br#"{"replies":[{"text":"a\ud800b"}]}"#[..], "a\u{fffd}b", true),
        (br#"{"replies":[{"text":"\udc00\ud800\ud83d\ude00\ud800"}]}"#, "\u{fffd}\u{fffd}\u{1f600}\u{fffd}", true),
        (b"{\"replies\":[{\"text\":\"a\xff\xe2\x82z\"}]}", "a\u{fffd}\u{fffd}z", true),
        (br#"{"replies":[{"text":"\u0000 \ufffd \uD83D\uDE00"}]}"#, "\0 \u{fffd} \u{1f600}", false),
        ("\u{feff}{\"replies\":[{\"text\":\"\u{e9}\"}]}".as_bytes(), "\u{e9}", false),
    ] {
        let model = ScriptModel::parse(bytes).unwrap();
        let reply = model.ask(&request(0, 1), &Heard(Mutex::default())).await.unwrap();
        assert_eq!(reply.blocks, [text(says)]);
        assert_eq!(reply.extra.is_some(), noted, "{says:?}");
    }
}

#[test]
fn ev_6_a_broken_script_is_refused_naming_key_and_reply() {
    for (script, says) in [
        ("", "EOF while parsing a value at line 1; expected"),
        ("[]", "a list where an object belongs at line 1"),
        (r#"{"replies":[["text"]]}"#, "reply 1 (line 1): a list"),
        (r#"{"replies":["text"]}"#, "reply 1 (line 1): invalid type"),
        (r#"{"replys":[]}"#, "unknown field `replys`, expected `replies` at line 1"),
        ("{}", "missing field `replies`"),
        (r#"{"replies":[]} x"#, "trailing characters"),
        ("{\"replies\":[\n{},\n{\"text\":\"\",\n\"txt\":1}]}", "reply 2 (line 4): unknown field `txt`"),
        (r#"{"replies":[{"calls":[{"args":{}}]}]}"#, "reply 1 (line 1): missing field `tool`"),
        (r#"{"replies":[{"calls":[{"tool":"T","arg":{}}]}]}"#, "unknown field `arg`"),
        (r#"{"replies":[{"usage":{"input":1}}]}"#, "unknown field `input`"),
        (r#"{"replies":[{"usage":{"output":9007199254740992}}]}"#, "usage `output` is 9007199254740992"),
        (r#"{"replies":[{"usage":{"output":-1}}]}"#, "invalid value"),
        (r#"{"replies":[{"text":1}]}"#, "expected a string"),
        (r#"{"replies":[{"text":"a","text":"b"}]}"#, "duplicate field `text`"),
        (r#"{"replies":[{"error":{"status":200}}]}"#, "error `status` is 200"),
        (r#"{"replies":[{},{"error":{"status":500,"retry":1}}]}"#, "reply 2 (line 1): unknown field `retry`"),
        (r#"{"replies":[{"error":{}}]}"#, "missing field `status`"),
    ] {
        let error = ScriptModel::parse(script.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{script}: {error}");
    }
}
