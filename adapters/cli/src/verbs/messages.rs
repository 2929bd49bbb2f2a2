//! `plica messages`: the conversation.

use plica_engine::{Client, Said};
use plica_kernel::message::Block;
use serde_json::{Value, json};

use super::{json_line, named, print};
use crate::args::Messages;
use crate::fault::Fault;
use crate::render::{message_lines, result_lines};

pub async fn messages(client: &Client, arguments: Messages) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    for said in client.messages(&row.id).await? {
        let bytes = if arguments.json { json_line(&as_json(&said)) } else { in_words(&said).into_bytes() };
        print(&bytes)?;
    }
    Ok(0)
}

fn in_words(said: &Said) -> String {
    match said {
        Said::Message { role, origin, blocks } => message_lines(*role, *origin, blocks),
        Said::Result { call, tool, status, output } => result_lines(*call, tool, *status, output),
    }
}

fn as_json(said: &Said) -> Value {
    match said {
        Said::Message { role, origin, blocks } => {
            let mut text = String::new();
            let mut calls = Vec::new();
            for block in blocks {
                match block {
                    Block::Text { text: part } => text.push_str(part),
                    Block::ToolUse { args, tool, .. } => calls.push(json!({ "tool": tool, "args": args })),
                    Block::Thinking { .. } => {}
                }
            }
            json!({ "role": role, "origin": origin, "text": text, "calls": calls })
        }
        Said::Result { call, tool, status, output } => {
            json!({ "role": "tool", "call": call.to_string(), "tool": tool, "status": status.name(), "text": output })
        }
    }
}
