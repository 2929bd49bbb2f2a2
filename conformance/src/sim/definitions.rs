//! The definitions of a world's agents: those that tasks begin with, and those that people move
//! them to (EN-8).

use plica_kernel::body::{Blob, MEDIA_DEFINITION};
use plica_kernel::event::Budget;
use plica_ports::{Definition, ModelChoice, OnCrash, PermissionMode};

use super::agents::Plan;
use super::prng::Prng;
use super::tools::Kind;

/// The definition that a root begins with, and the bodies that it cites.
pub fn first(plan: &Plan) -> (Definition, Vec<Blob>) {
    let (_, errand, chore) = delegates();
    let budget = Budget { steps: plan.steps_max, ..Budget::default() };
    let mut definition =
        steering(Definition { budget, interactive: plan.interactive, on_crash: plan.on_crash, ..base() });
    definition.subagents.insert("errand".into(), errand.reference.clone());
    (definition, vec![errand, chore])
}

/// The definition that a task begins with, whether a root or a child.
fn begun_with(plan: &Plan) -> (Definition, Vec<Blob>) {
    let (errand, _, chore) = delegates();
    match plan.depth() {
        0 => first(plan),
        1 => (errand, vec![chore]),
        _ => (base(), Vec::new()),
    }
}

/// The definition that someone wants a task to move to; `choice` says which. Some cannot be
/// moved to, and some lack a tool that the agent calls.
pub fn another(plan: &Plan, choice: u64) -> (Definition, Vec<Blob>) {
    let (mut definition, bodies) = begun_with(plan);
    let prng = Prng::named(choice, plan.id.as_str());
    definition.instructions = format!("Do what the script says, the {choice}th way.");
    definition.on_crash = *prng.pick(&[OnCrash::Resolve, OnCrash::Redrive, OnCrash::Park]);
    definition.budget.steps = plan.steps_max.map(|steps| prng.between(1, steps + 3));
    match prng.below(8) {
        0 => definition.workspace = "/elsewhere".into(),
        1..=3 => {
            let gone = *prng.pick(&definition.tools.iter().map(String::as_str).collect::<Vec<_>>());
            let gone = gone.to_owned();
            definition.tools.retain(|tool| *tool != gone);
        }
        // A child that rested would keep its parent waiting.
        4 if plan.depth() == 0 => definition.interactive = !definition.interactive,
        _ => {}
    }
    (definition, bodies)
}

/// A definition as it is stored.
pub fn blob(definition: &Definition) -> Blob {
    Blob::new(MEDIA_DEFINITION, definition.to_bytes().expect("a definition of texts"))
}

/// The agent that a root delegates to, also as it is stored, and the one that it delegates to in its
/// turn.
fn delegates() -> (Definition, Blob, Blob) {
    let chore = blob(&base());
    let mut errand = steering(base());
    errand.subagents.insert("chore".into(), chore.reference.clone());
    let stored = blob(&errand);
    (errand, stored, chore)
}

fn steering(mut definition: Definition) -> Definition {
    definition.tools.extend(["Missing", "AskUser", "Wait", "Task", "TodoWrite"].map(str::to_owned));
    definition
}

/// The agent that only works, and what all agents share.
fn base() -> Definition {
    Definition {
        allow: Vec::new(),
        ask: Vec::new(),
        budget: Budget::default(),
        deny: vec![Kind::Forbidden.name().into()],
        env: Vec::new(),
        instructions: "Do what the script says.".into(),
        interactive: false,
        model: ModelChoice { provider: "sim".into(), name: "sim".into(), script: None, options: Default::default() },
        name: "sim".into(),
        on_crash: OnCrash::Resolve,
        permission_mode: PermissionMode::Bypass,
        queue: None,
        subagents: Default::default(),
        tools: Kind::ALL.into_iter().map(|kind| kind.name().to_owned()).collect(),
        workspace: "/".into(),
    }
}
