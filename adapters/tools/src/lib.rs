//! The tools of a coding agent: [`Read`], [`Write`], [`Edit`], [`Glob`], [`Grep`], [`Bash`], and
//! [`BashOutput`] and [`KillShell`] for what [`Bash`] left running.
//!
//! The file tools work through a handle on the workspace that resolves every path beneath
//! itself, so what they touch is what they checked (TO-5). Changes of one file take turns; else they
//! keep no state between calls. They never retry, and never decide whether a call is allowed: that is
//! the engine's job, as is the validation of arguments against the declared schema. First item to
//! read: [`all`].

mod args;
mod bash;
mod blocking;
mod change;
mod edit;
mod fault;
mod files;
mod glob;
mod grep;
mod jobs;
mod limits;
mod preimage;
mod read;
mod text;
mod turns;
mod walk;
mod workspace;
mod write;

use std::sync::Arc;

use plica_ports::{Effect, Tool, ToolDeclaration};

pub use bash::Bash;
pub use edit::Edit;
pub use files::WorkspaceFiles;
pub use glob::Glob;
pub use grep::Grep;
pub use jobs::{BashOutput, KillShell};
pub use read::Read;
pub use write::Write;

/// Every tool of this crate, in the order in which a model is told of them.
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Read::default()),
        Arc::new(Write::default()),
        Arc::new(Edit::default()),
        Arc::new(Glob::default()),
        Arc::new(Grep::default()),
        Arc::new(Bash::default()),
        Arc::new(BashOutput::default()),
        Arc::new(KillShell::default()),
    ]
}

/// The declaration of a tool that only looks, and so may run again after a crash (TO-1).
fn looks(name: &str, description: &str, schema: &str) -> ToolDeclaration {
    declaration(name, description, schema, Effect::Read)
}

/// The declaration of a tool that changes something, and so may not simply run again (TO-1).
fn changes(name: &str, description: &str, schema: &str) -> ToolDeclaration {
    declaration(name, description, schema, Effect::Mutation)
}

fn declaration(name: &str, description: &str, schema: &str, effect: Effect) -> ToolDeclaration {
    ToolDeclaration {
        name: name.to_string(),
        description: description.to_string(),
        schema: schema.to_string(),
        effect,
        retry_safe: effect == Effect::Read,
        version: "1".to_string(),
    }
}
