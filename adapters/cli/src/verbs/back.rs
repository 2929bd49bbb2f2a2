//! Verbs that go back or aside: `rewind` and `fork`.

use plica_engine::Client;
use plica_kernel::event::{FileWas, PlannedFile};
use plica_tools::WorkspaceFiles;
use serde_json::json;

use super::{json_line, named, print, steer};
use crate::args::{Fork, Rewind};
use crate::compose;
use crate::fault::Fault;
use crate::talk;

pub async fn rewind(client: &Client, arguments: Rewind) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    if arguments.dry_run {
        let plan = client.plan_rewind(&row.id, arguments.to, &WorkspaceFiles).await?;
        print(&listed(&plan.files, arguments.json))?;
        if plan.files.is_empty() && !arguments.json {
            talk::say("no file that a tool wrote since would be put back");
        }
        return Ok(0);
    }
    client.rewind(&row.id, &compose::actor(), arguments.to).await?;
    let code = steer::go_on(client, &row, arguments.detach, arguments.json).await?;
    if !arguments.detach && row.projection.status.is_over() {
        // What is sent next is taken: the task is no longer over by then.
        steer::wait_until_open(client, &row.id).await?;
    }
    Ok(code)
}

pub async fn fork(client: &Client, arguments: Fork) -> Result<u8, Fault> {
    let row = named(client, &arguments.task).await?;
    let id = client.fork(&row.id, &compose::actor(), arguments.at).await?;
    if arguments.json {
        print(&json_line(&json!({ "task": id.as_str(), "source": row.id.as_str() })))?;
    } else {
        print(format!("{id}\n").as_bytes())?;
        talk::say(format!("waits for a message: `plica send {id} TEXT`"));
    }
    Ok(0)
}

/// What would become of each file.
fn listed(files: &[PlannedFile], as_json: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for file in files {
        let does = match (&file.left, &file.after) {
            (Some(_), _) => "leave",
            (None, FileWas::Absent) => "remove",
            (None, _) => "restore",
        };
        if as_json {
            let mut line = json!({ "path": file.path, "workspace": file.workspace, "does": does });
            if let Some(why) = &file.left {
                line["why"] = why.as_str().into();
            }
            out.extend(json_line(&line));
        } else {
            let why = file.left.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            out.extend(format!("{does:<8}{}{why}\n", crate::render::line(&file.path)).into_bytes());
        }
    }
    out
}
