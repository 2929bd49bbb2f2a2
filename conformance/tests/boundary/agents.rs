//! The model, the tools and the world outside of the reference tasks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use plica_engine::{ModelSource, ModelSourceError};
use plica_kernel::body::{Blob, MEDIA_BYTES, MEDIA_TEXT};
use plica_kernel::canonical::{Hash, content_hash};
use plica_kernel::decide::{ChangedFile, Foreseen};
use plica_kernel::event::{FileWas, Usage};
use plica_kernel::message::Block;
use plica_ports::{
    CallContext, ContentStore, DeltaSink, Effect, FileNow, Files, FilesError, Model, ModelChoice, ModelError,
    ModelErrorKind, ModelRequest, Record, Recovered, Reply, StopReason, Tool, ToolDeclaration, ToolError, ToolOutput,
};

use crate::job::served;

/// One reply of the model.
#[derive(Debug, Clone, Default)]
pub struct Say {
    pub text: &'static str,
    pub thinking: Option<&'static str>,
    /// Tools and arguments.
    pub calls: Vec<(&'static str, String)>,
    pub cut: bool,
    /// Tries that fail first.
    pub refused: u32,
    /// How they fail; for good, unless it may be tried again.
    pub refusal: Option<ModelErrorKind>,
}

pub fn say(text: &'static str) -> Say {
    Say { text, ..Say::default() }
}

/// A reply of calls, each with a note of its own.
pub fn call(calls: &[(&'static str, &str)]) -> Say {
    let calls = calls.iter().map(|(tool, note)| (*tool, format!(r#"{{"note":"{note}"}}"#))).collect();
    Say { calls, ..Say::default() }
}

/// A reply of one call with these arguments.
pub fn call_with(tool: &'static str, args: &str) -> Say {
    Say { calls: vec![(tool, args.to_owned())], ..Say::default() }
}

/// Replies by the name of the script.
pub type Scripts = BTreeMap<&'static str, Vec<Say>>;

struct Scripted(Vec<Say>);

#[async_trait]
impl Model for Scripted {
    async fn ask(&self, request: &ModelRequest, _: &dyn DeltaSink) -> Result<Reply, ModelError> {
        let nth = usize::try_from(request.assistant_messages).expect("few replies");
        let said = self.0.get(nth).cloned().unwrap_or_else(|| say("nothing more to say"));
        if let Some(kind) = said.refusal
            && request.attempt <= said.refused
        {
            return Err(ModelError { kind, message: "refused".into(), retry_after: None });
        }
        let thinking = said.thinking.map(|text| Block::Thinking { signature: None, text: text.into() });
        let text = (!said.text.is_empty()).then(|| Block::Text { text: said.text.into() });
        let calls = said.calls.iter().map(|(tool, args)| Block::ToolUse {
            args: args.clone(),
            id: None,
            tool: (*tool).to_owned(),
        });
        Ok(Reply {
            blocks: thinking.into_iter().chain(text).chain(calls).collect(),
            usage: Usage { output: 1, uncached: 1, ..Usage::default() },
            cost_nano_usd: None,
            stop: if said.cut { StopReason::Length } else { StopReason::End },
            extra: None,
        })
    }
}

/// The script that the definition names.
pub struct Models(pub Arc<Scripts>);

#[async_trait]
impl ModelSource for Models {
    async fn model(&self, choice: &ModelChoice, _: &dyn ContentStore) -> Result<Arc<dyn Model>, ModelSourceError> {
        Ok(Arc::new(Scripted(self.0.get(choice.name.as_str()).cloned().unwrap_or_default())))
    }
}

/// How often each note changed the outside.
#[derive(Debug, Default)]
pub struct Outside {
    notes: Mutex<BTreeMap<String, u32>>,
    files: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Outside {
    fn land(&self, note: &str) {
        *self.notes.lock().expect("no tool panics").entry(note.to_owned()).or_default() += 1;
    }

    pub fn landed(&self) -> BTreeMap<String, u32> {
        self.notes.lock().expect("no tool panics").clone()
    }

    /// The files there are.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.files.lock().expect("no tool panics").clone()
    }

    /// What writing a file's own path into it changes.
    fn putting(&self, path: &str) -> Foreseen {
        let blob = self.files().remove(path).map(|bytes| Blob::new(MEDIA_BYTES, bytes));
        let before = blob.as_ref().map_or(FileWas::Absent, |blob| FileWas::Kept(blob.reference.clone()));
        let file = ChangedFile { after: Some(content_hash(path.as_bytes())), before, path: path.to_owned() };
        Foreseen { blobs: blob.into_iter().collect(), files: vec![file] }
    }

    fn put_file(&self, path: &str) -> ToolOutput {
        let Foreseen { blobs, files } = self.putting(path);
        self.files.lock().expect("no tool panics").insert(path.to_owned(), path.as_bytes().to_vec());
        ToolOutput { blobs, files, ..ToolOutput::text(format!("done: {path}")) }
    }
}

#[async_trait]
impl Files for Outside {
    async fn look(&self, _: &Path, path: &str, _: u64) -> Result<FileNow, FilesError> {
        Ok(self.files().get(path).map_or(FileNow::Absent, |bytes| FileNow::Present {
            bytes: Some(bytes.clone()),
            sha256: content_hash(bytes),
        }))
    }

    async fn put(&self, _: &Path, path: &str, expected: Option<Hash>, wanted: Option<&[u8]>) -> Result<(), FilesError> {
        let mut files = self.files.lock().expect("no tool panics");
        let now = files.get(path).map(|bytes| content_hash(bytes));
        if now != wanted.map(content_hash) && now != expected {
            return Err(FilesError::Changed);
        }
        match wanted {
            Some(bytes) => files.insert(path.to_owned(), bytes.to_vec()),
            None => files.remove(path),
        };
        Ok(())
    }
}

/// A tool by its name; what it is like follows from that.
pub struct Hand {
    declaration: ToolDeclaration,
    outside: Arc<Outside>,
}

/// Changes the outside, and nobody can tell afterwards.
pub const NOTE: &str = "Note";
/// Changes the outside, and can look whether it did.
pub const MAIL: &str = "Mail";
/// Reads.
pub const LOOK: &str = "Look";
/// Reads much, and leaves a record.
pub const STUDY: &str = "Study";
/// Says that it failed.
pub const FAIL: &str = "Fail";
/// Writes the file of its note, and can look whether it did.
pub const PUT: &str = "Put";
/// Leaves a job running.
pub const SERVE: &str = "Serve";
/// Goes on until it is told to stop.
pub const BLOCK: &str = "Block";

const SCHEMA: &str =
    r#"{"type":"object","properties":{"note":{"type":"string"}},"required":["note"],"additionalProperties":false}"#;

impl Hand {
    pub fn all(outside: &Arc<Outside>) -> Vec<Arc<dyn Tool>> {
        let make = |name: &str| -> Arc<dyn Tool> {
            let reads = matches!(name, LOOK | STUDY);
            let declaration = ToolDeclaration {
                name: name.into(),
                description: name.into(),
                schema: SCHEMA.into(),
                effect: if reads { Effect::Read } else { Effect::Mutation },
                retry_safe: reads,
                version: "1".into(),
            };
            Arc::new(Self { declaration, outside: outside.clone() })
        };
        [NOTE, MAIL, LOOK, STUDY, FAIL, BLOCK, PUT, SERVE].into_iter().map(make).collect()
    }
}

/// The note in the arguments.
pub fn note_of(args: &str) -> String {
    let args: serde_json::Value = serde_json::from_str(args).expect("arguments are JSON");
    args["note"].as_str().unwrap_or_default().to_owned()
}

#[async_trait]
impl Tool for Hand {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn foresee(&self, args: &str, _: &Path) -> Foreseen {
        let note = note_of(args);
        if self.declaration.name == PUT { self.outside.putting(&note) } else { Foreseen::default() }
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let note = note_of(args);
        match self.declaration.name.as_str() {
            NOTE | MAIL => self.outside.land(&note),
            PUT => return Ok(self.outside.put_file(&note)),
            SERVE => {
                let slot = context.jobs.slot().ok_or_else(|| ToolError::failed("no room"))?;
                return Ok(ToolOutput { job: Some(served(&note, slot)), ..ToolOutput::text("serving") });
            }
            FAIL => return Err(ToolError::failed("it failed")),
            BLOCK => {
                context.stop.stopped().await;
                return Err(ToolError::stopped("told to stop"));
            }
            _ => {}
        }
        let mut output = ToolOutput::text(format!("done: {note}"));
        if self.declaration.name == STUDY {
            output.text.push_str(&" and so on".repeat(200));
            output.whole = Some(Blob::new(MEDIA_TEXT, "all of it ".repeat(500).into_bytes()));
            output.records.push(Record { plugin: "study".into(), kind: "seen".into(), body: note });
        }
        Ok(output)
    }

    async fn recover(&self, args: &str, _: &CallContext) -> Recovered {
        let note = note_of(args);
        if self.declaration.name == PUT && self.outside.files().contains_key(&note) {
            let after = Some(content_hash(note.as_bytes()));
            let file = ChangedFile { after, before: FileWas::Unknown, path: note.clone() };
            return Recovered::Found(ToolOutput { files: vec![file], ..ToolOutput::text(format!("done: {note}")) });
        }
        let found = self.declaration.name == MAIL && self.outside.landed().contains_key(&note);
        if found { Recovered::Found(ToolOutput::text(format!("done: {note}"))) } else { Recovered::Unknown }
    }
}
