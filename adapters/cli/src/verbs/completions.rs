//! `plica completions`: what a shell reads to complete this program's command line.

use serde_json::json;

use super::{json_line, print};
use crate::args::Completions;
use crate::complete;
use crate::fault::Fault;

pub fn completions(arguments: &Completions) -> Result<u8, Fault> {
    let script = complete::registration(&arguments.shell)?;
    if arguments.json {
        print(&json_line(&json!({ "shell": arguments.shell, "script": script })))?;
    } else {
        print(script.as_bytes())?;
    }
    Ok(0)
}
