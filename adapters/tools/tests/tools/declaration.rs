use std::collections::HashSet;
use std::sync::Arc;

use plica_ports::{Effect, Tool, ToolError};
use serde_json::{Value, json};

use crate::harness::Scene;

#[test]
fn to_1_each_tool_declares_what_it_is() {
    let tools = plica_tools::all();
    let said: Vec<_> = tools
        .iter()
        .map(|tool| tool.declaration())
        .map(|said| (said.name.as_str(), said.effect, said.retry_safe))
        .collect();
    assert_eq!(
        said,
        [
            ("Read", Effect::Read, true),
            ("Write", Effect::Mutation, false),
            ("Edit", Effect::Mutation, false),
            ("Glob", Effect::Read, true),
            ("Grep", Effect::Read, true),
            ("Bash", Effect::Mutation, false),
            ("BashOutput", Effect::Read, true),
            ("KillShell", Effect::Read, true),
        ]
    );
}

#[test]
fn to_1_schemas_are_closed_and_name_what_they_require() {
    for tool in plica_tools::all() {
        let said = tool.declaration();
        let schema: Value = serde_json::from_str(&said.schema).unwrap();
        assert_eq!(schema["type"], "object", "{}", said.name);
        assert_eq!(schema["additionalProperties"], false, "{}", said.name);
        let properties: HashSet<_> = schema["properties"].as_object().unwrap().keys().collect();
        for required in schema["required"].as_array().unwrap() {
            assert!(properties.contains(&required.as_str().unwrap().to_string()), "{}: {required}", said.name);
        }
        assert!(!said.description.is_empty() && !said.version.is_empty());
    }
}

#[tokio::test]
async fn to_1_malformed_arguments_fail_and_do_not_panic() {
    let scene = Scene::new();
    for tool in plica_tools::all() {
        for args in
            ["", "null", "[]", "{}", "{\"nonsense\":1}", "\u{0}", "{\"file_path\":7,\"command\":7,\"pattern\":7}"]
        {
            let result = tool.call(args, &scene.context).await;
            assert!(matches!(result, Err(ToolError::Failed(_))), "{} {args}", tool.declaration().name);
            tool.recover(args, &scene.context).await;
        }
    }
}

#[tokio::test]
async fn to_1_a_missing_workspace_is_a_failure_that_names_it() {
    let mut scene = Scene::new();
    scene.context.workspace = scene.path("nowhere");
    let args = json!({"file_path": "a", "content": "", "pattern": "a", "command": "true", "old_string": "a", "new_string": "b"});
    let in_folder = |tool: &Arc<dyn Tool>| !matches!(tool.declaration().name.as_str(), "BashOutput" | "KillShell");
    for tool in plica_tools::all().into_iter().filter(in_folder) {
        let schema: Value = serde_json::from_str(&tool.declaration().schema).unwrap();
        let wanted: Value = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| (name.as_str().unwrap().to_string(), args[name.as_str().unwrap()].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let text = scene.failure(tool.as_ref(), wanted).await;
        assert!(text.contains("nowhere"), "{text}");
    }
}
