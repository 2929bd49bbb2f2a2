//! `plica messages`: the conversation.

use plica_engine::{Client, Said};
use serde_json::{Value, json};

use super::{json_line, named, print};
use crate::args::Messages;
use crate::fault::Fault;
use crate::render;

pub async fn messages(client: &Client, arguments: Messages) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    for said in client.messages(&row.id).await? {
        if arguments.json {
            print(&json_line(&as_json(&said)))?;
        } else {
            print(render::message(&said).as_bytes())?;
        }
    }
    Ok(0)
}

fn as_json(said: &Said) -> Value {
    match said {
        Said::Message { role, text, calls } => {
            let calls: Vec<Value> = calls.iter().map(|(tool, args)| json!({ "tool": tool, "args": args })).collect();
            json!({ "role": role, "text": text, "calls": calls })
        }
        Said::Result { call, status, output } => {
            json!({ "role": "tool", "call": call, "status": render::result_word(*status), "text": output })
        }
    }
}
