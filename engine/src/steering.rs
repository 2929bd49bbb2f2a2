//! The tools that steer the task itself: `AskUser`, `Wait`, `Task`, `TodoWrite`. They never
//! run; each lands as an event of its own (section 11 of the design).

use std::sync::LazyLock;

use plica_kernel::body::Body;
use plica_kernel::decide::{CallPlan, Spawn};
use plica_kernel::event::TaskCreated;
use plica_kernel::limits::{EVENT_KIND_BYTES_MAX, SUBTASKS_MAX, TASK_DEPTH_MAX, TREE_TASKS_MAX, WAIT_SECONDS_MAX};
use plica_kernel::state::Task;
use plica_ports::{Definition, ToolSpec};
use serde::Deserialize;

use crate::host::Validator;
use crate::setup::Setup;

/// The names of the tools that steer the task itself.
pub const STEERING_TOOLS: [&str; 4] = ["AskUser", "Wait", "Task", "TodoWrite"];

/// The one that spawns children.
pub(crate) const SPAWNING_TOOL: &str = "Task";

struct Steering {
    name: &'static str,
    description: &'static str,
    schema: &'static str,
}

const ALL: [Steering; 4] = [
    Steering {
        name: "AskUser",
        description: "Asks the person you work for a question and waits for the answer, however long it takes. \
Use it when you cannot go on without a decision that is theirs.",
        schema: r#"{"type":"object","properties":{"question":{"type":"string","minLength":1,"description":"The question, complete in itself."}},"required":["question"],"additionalProperties":false}"#,
    },
    Steering {
        name: "Wait",
        description: "Waits for a number of seconds, for an event from outside by its kind, or for whichever comes \
first. Waiting costs nothing and may take months.",
        schema: r#"{"type":"object","properties":{"seconds":{"type":"integer","minimum":0,"maximum":3155760000},"event":{"type":"string","minLength":1,"maxLength":96,"description":"The kind of the event."}},"anyOf":[{"required":["seconds"]},{"required":["event"]}],"additionalProperties":false}"#,
    },
    Steering {
        name: "Task",
        description: "Hands a self-contained piece of work to another agent and returns its answer. Several in one \
reply run side by side. With background the call returns at once and the answer comes as a message; with join \"any\" \
the first answer is enough and the others go on in the background.",
        schema: r#"{"type":"object","properties":{"agent":{"type":"string","description":"The agent's name."},"goal":{"type":"string","minLength":1,"description":"What it is to do, with everything it has to know."},"background":{"type":"boolean"},"join":{"enum":["all","any"]}},"required":["agent","goal"],"additionalProperties":false}"#,
    },
    Steering {
        name: "TodoWrite",
        description: "Replaces your list of todos. Keep one entry in progress, and mark entries completed as soon as \
they are.",
        schema: r#"{"type":"object","properties":{"todos":{"type":"array","items":{"type":"object","properties":{"content":{"type":"string","minLength":1},"status":{"enum":["pending","in_progress","completed"]}},"required":["content","status"]}}},"required":["todos"],"additionalProperties":false}"#,
    },
];

static VALIDATORS: LazyLock<Vec<Validator>> =
    LazyLock::new(|| ALL.iter().map(|tool| Validator::new(tool.schema)).collect());

/// How the model is told of a steering tool; `None` for any other name.
pub(crate) fn spec(name: &str, definition: &Definition) -> Option<ToolSpec> {
    let tool = ALL.iter().find(|tool| tool.name == name)?;
    let mut description = tool.description.to_owned();
    if name == "Task" {
        let agents: Vec<&str> = definition.subagents.keys().map(String::as_str).collect();
        description.push_str(&format!(" The agents are: {}.", agents.join(", ")));
    }
    Some(ToolSpec { name: tool.name.to_owned(), description, schema: tool.schema.to_owned() })
}

/// Whether a name is a steering tool's.
pub(crate) fn is_steering(name: &str) -> bool {
    STEERING_TOOLS.contains(&name)
}

#[derive(Deserialize)]
struct AskUser {
    question: String,
}

#[derive(Deserialize)]
struct Wait {
    seconds: Option<u64>,
    event: Option<String>,
}

#[derive(Deserialize)]
struct Delegate {
    agent: String,
    goal: String,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    join: Option<String>,
}

/// What a call to a steering tool comes to, after so many children that the reply spawns already;
/// an error is told to the model.
pub(crate) fn plan(setup: &Setup, task: &Task, (name, args): (&str, &str), spawned: u64) -> Result<CallPlan, String> {
    let index = ALL.iter().position(|tool| tool.name == name).ok_or("no such tool")?;
    VALIDATORS[index].validate(args)?;
    let read = |error: serde_json::Error| error.to_string();
    match name {
        "AskUser" => Ok(CallPlan::Question(serde_json::from_str::<AskUser>(args).map_err(read)?.question)),
        "Wait" => {
            let Wait { seconds, event } = serde_json::from_str(args).map_err(read)?;
            if seconds.is_some_and(|seconds| seconds > WAIT_SECONDS_MAX) {
                return Err("that is longer than a hundred years".into());
            }
            if event
                .as_ref()
                .is_some_and(|event| event.len() > EVENT_KIND_BYTES_MAX || event.chars().any(char::is_control))
            {
                return Err(format!(
                    "an event's kind has at most {EVENT_KIND_BYTES_MAX} bytes and no control characters"
                ));
            }
            Ok(CallPlan::Wait { event, seconds })
        }
        "Task" => delegate(setup, task, serde_json::from_str(args).map_err(read)?, spawned),
        _ => Ok(CallPlan::Todo { todos: todos(args)? }),
    }
}

/// The list itself, as the text that came.
fn todos(args: &str) -> Result<String, String> {
    let value: serde_json::Value = serde_json::from_str(args).map_err(|error| error.to_string())?;
    Ok(value["todos"].to_string())
}

/// What an approved spawn comes to; an error is told to the model.
pub(crate) fn spawn(setup: &Setup, task: &Task, args: &str) -> Result<Spawn, String> {
    match plan(setup, task, (SPAWNING_TOOL, args), 0)? {
        CallPlan::Spawn(spawn) => Ok(*spawn),
        _ => Err("the call spawns nothing".into()),
    }
}

fn delegate(setup: &Setup, task: &Task, call: Delegate, spawned: u64) -> Result<CallPlan, String> {
    let Some((reference, known)) = setup.subagents.get(&call.agent) else {
        let agents: Vec<&str> = setup.subagents.keys().map(String::as_str).collect();
        return Err(format!("no agent {:?}; the agents are: {}", call.agent, agents.join(", ")));
    };
    if task.depth() >= TASK_DEPTH_MAX {
        return Err(format!("subtasks nest at most {TASK_DEPTH_MAX} deep"));
    }
    if task.governance().subtasks + spawned >= SUBTASKS_MAX {
        return Err(format!("a task spawns at most {SUBTASKS_MAX} subtasks"));
    }
    let Some(family) = &setup.family else { return Err("subtasks cannot be spawned here".into()) };
    if family.tree + spawned >= TREE_TASKS_MAX {
        return Err(format!("a task, its subtasks and theirs spawn at most {TREE_TASKS_MAX} tasks all together"));
    }
    let child = &known.definition;
    let created = TaskCreated {
        agent: child.name.clone(),
        background: call.background,
        budget: child.budget,
        call: None,
        definition: reference.clone(),
        depth: 0,
        goal: Body::default(),
        interactive: false,
        key: None,
        labels: Default::default(),
        ledger: family.ledger.clone(),
        not_before: None,
        parent: None,
        priority: family.priority,
        queue: child.queue.clone().unwrap_or_else(|| family.queue.clone()),
    };
    let any = call.join.as_deref() == Some("any");
    Ok(CallPlan::Spawn(Box::new(Spawn { any, created, goal: call.goal })))
}
