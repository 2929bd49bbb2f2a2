use std::collections::BTreeMap;
use std::sync::Arc;

use plica_kernel::id::{Seq, TaskId};

use super::*;

fn settings(provider: &str, options: &[(&str, &str)]) -> Settings {
    let options: BTreeMap<String, String> = options.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    Settings::of(provider, &options).unwrap()
}

fn request(messages: Vec<RequestMessage>) -> ModelRequest {
    ModelRequest {
        task: TaskId::new("t").unwrap(),
        model: "m".into(),
        instructions: "Do it.".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![],
        attempt: 1,
        assistant_messages: 0,
    }
}

fn user(text: &str) -> RequestMessage {
    RequestMessage::Text { role: Role::User, text: text.into() }
}

fn system(text: &str) -> RequestMessage {
    RequestMessage::Text { role: Role::System, text: text.into() }
}

fn id(decision: u64, index: u32) -> CallId {
    CallId { decision: Seq(decision), index }
}

fn tool_use(id: Option<&str>, tool: &str, args: &str) -> Block {
    Block::ToolUse { args: args.into(), id: id.map(Into::into), tool: tool.into() }
}

fn says(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn calls(decision: u64, blocks: Vec<Block>) -> RequestMessage {
    let count = blocks.iter().filter(|block| matches!(block, Block::ToolUse { .. })).count();
    let calls = (0..u32::try_from(count).unwrap()).map(|index| id(decision, index)).collect();
    RequestMessage::Assistant { blocks, calls }
}

fn result(decision: u64, index: u32, output: &str, error: bool) -> RequestMessage {
    RequestMessage::ToolResult { call: id(decision, index), id: None, tool: "T".into(), error, output: output.into() }
}

fn sent(request: &ModelRequest, settings: &Settings) -> String {
    String::from_utf8(body(request, settings).unwrap()).unwrap()
}

/// The messages of a request to a server without a preset.
fn messages(messages: Vec<RequestMessage>) -> Vec<serde_json::Value> {
    let settings = settings("ollama", &[]);
    let body: serde_json::Value = serde_json::from_str(&sent(&request(messages), &settings)).unwrap();
    body["messages"].as_array().unwrap().clone()
}

#[test]
fn mo_2_the_whole_body_is_as_it_always_was() {
    let mut request = request(vec![
        user("hi"),
        calls(5, vec![says("I look."), tool_use(Some("c1"), "Read", "{\"n\": 1.50}")]),
        result(5, 0, "text\u{0}", false),
    ]);
    let schema = "{\"type\": \"object\",\n \"properties\": {\"n\": {\"maximum\": 1e2}}}";
    request.tools = vec![ToolSpec { name: "Read".into(), description: "Reads.".into(), schema: schema.into() }];
    let settings = settings("openai", &[("max_tokens", "64"), ("temperature", "0.70")]);
    let expected = [
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":64,"#,
        r#""temperature":0.70,"tools":[{"type":"function","function":{"name":"Read","description":"Reads.","#,
        r#""parameters":"#,
        schema,
        r#"}}],"messages":[{"role":"system","content":"Do it."},{"role":"user","content":"hi"},"#,
        r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":"#,
        r#"{"name":"Read","arguments":"{\"n\": 1.50}"}}]},{"role":"tool","content":"text\u0000","#,
        r#""tool_call_id":"c1"}]}"#,
    ];
    assert_eq!(sent(&request, &settings), expected.concat());
}

#[test]
fn mo_2_what_a_conversation_has_said_never_changes_as_it_grows() {
    let settings = settings("ollama", &[]);
    let all = vec![
        user("a"),
        calls(2, vec![tool_use(None, "T", "{}"), tool_use(Some("x"), "T", "{}")]),
        result(2, 0, "1", false),
        result(2, 1, "2", false),
        calls(7, vec![tool_use(Some("x"), "T", "{}")]),
        result(7, 0, "3", false),
        calls(9, vec![says("b")]),
        user("c"),
    ];
    let whole = sent(&request(all.clone()), &settings);
    for length in [1, 4, 6, 7] {
        let part = sent(&request(all[..length].to_vec()), &settings);
        let common = part.strip_suffix("]}").unwrap();
        assert!(whole.starts_with(common), "{common}\n{whole}");
    }
}

#[test]
fn to_4_ids_of_ours_stand_where_the_servers_are_empty_or_repeated() {
    let messages = messages(vec![
        user("a"),
        calls(
            5,
            vec![
                tool_use(Some(""), "T", "{}"),
                tool_use(Some(" "), "T", "{}"),
                tool_use(None, "T", "{}"),
                tool_use(Some("same"), "T", "{}"),
                tool_use(Some("same"), "T", "{}"),
            ],
        ),
        result(5, 0, "", false),
        result(5, 1, "", false),
        result(5, 2, "", false),
        result(5, 3, "", false),
        result(5, 4, "", false),
        // A server that gives ids like ours, and a fork that counts its decisions anew.
        calls(6, vec![tool_use(Some("call_5_0"), "T", "{}"), tool_use(Some("call_9_0"), "T", "{}")]),
        result(6, 0, "", false),
        result(6, 1, "", false),
        calls(9, vec![tool_use(Some("same"), "T", "{}")]),
        result(9, 0, "", false),
        calls(5, vec![tool_use(None, "T", "{}")]),
        result(5, 0, "", false),
    ]);
    let given: Vec<&str> = messages
        .iter()
        .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten())
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    let expected =
        ["call_5_0", "call_5_1", "call_5_2", "same", "call_5_4", "call_6_0", "call_9_0", "call_9_0_2", "call_5_0_2"];
    assert_eq!(given, expected);
    let answered: Vec<&str> = messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(answered, expected);
}

#[test]
fn to_4_texts_in_a_row_are_one_message_and_the_engines_are_marked() {
    let messages = messages(vec![
        user("a"),
        system("b"),
        user(""),
        user("c"),
        calls(3, vec![]),
        calls(4, vec![Block::Thinking { signature: None, text: "t".into() }]),
        user("d"),
        calls(5, vec![says("e")]),
        calls(6, vec![says("f"), tool_use(None, "T", "{}")]),
        result(6, 0, "", false),
        system("g"),
    ]);
    let said: Vec<(&str, &str)> = messages
        .iter()
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    let expected = [
        ("system", "Do it."),
        ("user", "a\n\n[system] b\n\nc\n\nd"),
        ("assistant", "e\n\nf"),
        ("tool", ""),
        ("user", "[system] g"),
    ];
    assert_eq!(said, expected);
}

#[test]
fn to_4_a_failed_result_says_so() {
    let messages = messages(vec![
        user("a"),
        calls(5, vec![tool_use(None, "T", "{}"), tool_use(None, "T", "{}"), tool_use(None, "T", "{}")]),
        result(5, 0, "no such file", true),
        result(5, 1, "Error: é", true),
        result(5, 2, "error", true),
    ]);
    let contents: Vec<&str> = messages[3..].iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["error: no such file", "Error: é", "error: error"]);
}

#[test]
fn to_4_a_request_without_its_results_is_refused() {
    let call = || calls(5, vec![tool_use(None, "T", "{}"), tool_use(None, "T", "{}")]);
    for (messages, error) in [
        (vec![call()], RequestError::Unanswered(id(5, 0))),
        (vec![call(), result(5, 0, "", false)], RequestError::Unanswered(id(5, 1))),
        (vec![call(), result(5, 1, "", false)], RequestError::Unanswered(id(5, 0))),
        (vec![call(), user("x")], RequestError::Unanswered(id(5, 0))),
        (vec![call(), call()], RequestError::Unanswered(id(5, 0))),
        (vec![user("x"), result(5, 0, "", false)], RequestError::Unasked(id(5, 0))),
    ] {
        assert_eq!(body(&request(messages), &settings("openai", &[])), Err(error));
    }
    let mut request = request(vec![user("x")]);
    request.tools = vec![ToolSpec { name: "Bad".into(), description: String::new(), schema: "{".into() }];
    let refused = body(&request, &settings("openai", &[]));
    assert!(matches!(refused, Err(RequestError::Schema { tool, .. }) if tool == "Bad"));
}

#[test]
fn to_4_what_a_model_made_up_does_not_spoil_the_conversation() {
    let long = "x".repeat(100);
    let messages = messages(vec![
        user("a"),
        calls(
            5,
            vec![
                tool_use(None, "Bash(ls é)", "{\"a\": 1"),
                tool_use(None, "", "  "),
                tool_use(None, &long, "[1]"),
                tool_use(None, "mcp__git-x__log", " {\"z\":1.0,\"a\":[] }"),
            ],
        ),
        result(5, 0, "", true),
        result(5, 1, "", false),
        result(5, 2, "", true),
        result(5, 3, "", false),
    ]);
    let functions: Vec<(&str, &str)> = messages[2]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (call["function"]["name"].as_str().unwrap(), call["function"]["arguments"].as_str().unwrap()))
        .collect();
    let expected = [
        ("Bash_ls___", "{\"malformed_arguments\":\"{\\\"a\\\": 1\"}"),
        ("unnamed", "{}"),
        (&long[..64], "{\"malformed_arguments\":\"[1]\"}"),
        ("mcp__git-x__log", " {\"z\":1.0,\"a\":[] }"),
    ];
    assert_eq!(functions, expected);
}

#[test]
fn mo_1_thinking_goes_back_with_calls_under_the_servers_name() {
    let thought = || Block::Thinking { signature: None, text: "hm".into() };
    let conversation = || {
        request(vec![
            user("a"),
            calls(3, vec![thought(), says("b")]),
            user("c"),
            calls(5, vec![thought(), tool_use(None, "T", "{}")]),
            result(5, 0, "", false),
        ])
    };
    for (provider, member) in
        [("openai", None), ("llama.cpp", Some("\"reasoning_content\":\"hm\"")), ("vllm", Some("\"reasoning\":\"hm\""))]
    {
        let sent = sent(&conversation(), &settings(provider, &[]));
        assert_eq!(sent.matches("hm").count(), usize::from(member.is_some()), "{sent}");
        assert!(member.is_none_or(|member| sent.contains(member)), "{sent}");
    }
}
