//! What is in force in a task: its definition, and the plugins that are pinned (EN-8, RC-8).

use std::collections::{BTreeMap, BTreeSet};

use plica_ports::ModelRequest;
use serde_json::Value;

use super::event::{Contents, Event, text_of};
use crate::sim::equipment::Equipment;

/// A definition, as its bytes say it.
#[derive(Debug, Clone, Default)]
pub struct Agreed {
    sha256: String,
    instructions: String,
    pub on_crash: String,
    steps: Option<u64>,
    tools: BTreeSet<String>,
    workspace: String,
}

impl Agreed {
    fn read(event: &Event, contents: &Contents) -> Result<Self, String> {
        let reference = &event.payload["definition"];
        let text = text_of(reference, contents)?;
        let said: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let word = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        let tools = said["tools"].as_array().into_iter().flatten();
        Ok(Self {
            sha256: reference["sha256"].as_str().unwrap_or_default().to_owned(),
            instructions: word("instructions"),
            on_crash: word("on_crash"),
            steps: said["budget"]["steps"].as_u64(),
            tools: tools.filter_map(|tool| tool.as_str().map(str::to_owned)).collect(),
            workspace: word("workspace"),
        })
    }
}

/// What is in force.
#[derive(Debug, Clone, Default)]
pub struct Force {
    pub now: Agreed,
    /// Instructions of every definition that is or was in force.
    ever: BTreeSet<String>,
    /// Versions of the tools that are pinned.
    pins: BTreeMap<String, String>,
}

impl Force {
    /// The task begins with a definition.
    pub fn begin(&mut self, event: &Event, contents: &Contents) -> Result<(), String> {
        self.now = Agreed::read(event, contents)?;
        self.ever.insert(self.now.instructions.clone());
        Ok(())
    }

    /// The task moves to another definition, or not; `needed` are the tools of calls that people
    /// have yet to rule on. Says which cap on steps it has from now on, if it has moved.
    pub fn revised<'a>(
        &mut self,
        event: &Event,
        contents: &Contents,
        needed: impl Iterator<Item = &'a str>,
    ) -> Result<Option<Option<u64>>, String> {
        let next = Agreed::read(event, contents)?;
        let refused = !event.payload["refused"].is_null();
        let needed: BTreeSet<&str> = needed.collect();
        let gone = needed.iter().find(|tool| !next.tools.contains(**tool));
        let may = next.workspace == self.now.workspace && gone.is_none();
        if may == refused {
            return Err(format!("refused: {refused}, from {:?} to {next:?}, {gone:?} is needed", self.now));
        }
        if refused {
            return Ok(None);
        }
        if next.steps != event.payload["budget"]["steps"].as_u64() {
            return Err(format!("AgentRevised {} has other caps than its definition", event.seq));
        }
        self.pins.retain(|tool, _| needed.contains(tool.as_str()));
        self.now = next;
        self.ever.insert(self.now.instructions.clone());
        Ok(Some(self.now.steps))
    }

    /// Plugins are pinned: those that whoever pins them has.
    pub fn pinned(&mut self, event: &Event, has: Option<&Equipment>) -> Result<(), String> {
        for pin in event.payload["plugins"].as_array().into_iter().flatten() {
            let (name, version) = (pin["name"].as_str().unwrap_or_default(), pin["version"].as_str());
            if version.is_none() || has.and_then(|has| has.version(name)) != version {
                return Err(format!("{pin} is pinned by one that has {has:?}"));
            }
            self.pins.insert(name.to_owned(), version.unwrap_or_default().to_owned());
        }
        Ok(())
    }

    /// A request is composed, by the definition in force.
    pub fn composed(&self, event: &Event) -> Result<(), String> {
        let by = &event.payload["definition"]["sha256"];
        if *by == self.now.sha256.as_str() {
            return Ok(());
        }
        Err(format!("request {} is composed by {by}, in force is {}", event.seq, self.now.sha256))
    }

    /// A call starts: its tool is one of the definition, as it is pinned, and of the version that
    /// its worker has. Says which.
    pub fn starts(&self, tool: &str, has: Option<&Equipment>) -> Result<String, String> {
        let pinned = self.pins.get(tool).map(String::as_str);
        let own = has.and_then(|has| has.version(tool));
        match pinned {
            Some(version) if own == pinned && self.now.tools.contains(tool) => Ok(version.to_owned()),
            _ => Err(format!("{tool} starts, pinned as {pinned:?}, on a worker with {own:?}; {:?}", self.now.tools)),
        }
    }

    /// Whether a worker with `has` lacks a tool that is pinned.
    pub fn is_lacking(&self, has: &Equipment) -> bool {
        self.pins.keys().any(|tool| has.version(tool).is_none())
    }

    /// The model is asked with the instructions and tools of the definition in force; by one that
    /// does not hold the task any more perhaps with those of a former one.
    pub fn asks(&self, request: &ModelRequest, holds: bool) -> Result<(), String> {
        let now = request.instructions == self.now.instructions
            && request.tools.iter().all(|tool| self.now.tools.contains(&tool.name));
        if now || !holds && self.ever.contains(&request.instructions) {
            return Ok(());
        }
        Err(format!("the model is asked by another definition than {:?}: {:.60}", self.now, request.instructions))
    }
}
