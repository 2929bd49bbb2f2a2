//! What the agents of a world do: scripts drawn from the seed, each a function of its task
//! alone, so that a task that was broken off goes on as it would have gone.

mod steering;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plica_kernel::id::TaskId;
use plica_kernel::wake::Item;
use plica_ports::{ModelErrorKind, OnCrash};

use self::steering::{errand, sending, steering_round};
use super::prng::Prng;
use super::tools::Kind;

/// How the note of a call, or a child's goal, begins that a person has to allow.
pub const ASK: &str = "ask";
/// How those begin that a person has to allow soon.
pub const HURRY: &str = "hurry";

/// A call that a reply makes.
#[derive(Debug, Clone)]
pub struct PlannedCall {
    /// The tool it names.
    pub tool: String,
    /// Its arguments, as JSON text.
    pub args: String,
}

/// A try of the model that fails.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// How.
    pub kind: ModelErrorKind,
    /// How long the provider asks to wait.
    pub retry_after_ms: u64,
}

/// One reply of the model.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// What it says.
    pub text: String,
    /// What it thinks.
    pub thinking: Option<String>,
    /// What it calls.
    pub calls: Vec<PlannedCall>,
    /// Whether it is cut by the output limit.
    pub cut: bool,
    /// How many tries fail first, and how; the n-th start gets the n-th.
    pub refusals: Vec<Refusal>,
    /// How long the model takes, in milliseconds.
    pub takes_ms: u64,
}

/// What is sent to a task.
#[derive(Debug, Clone)]
pub enum Sent {
    /// An item.
    Item(Item),
    /// An order to go back: the number chooses one of the places that there are then, or none.
    Back(u64),
    /// An order to move to another definition: the number chooses which.
    Another(u64),
}

/// Something that is sent to a task.
#[derive(Debug, Clone)]
pub struct Sending {
    /// When, in milliseconds from the task's creation.
    pub at_ms: u64,
    /// What.
    pub what: Sent,
    /// When it is sent once more under the same key, if it is.
    pub again_ms: Option<u64>,
}

/// A task, and everything that will be said and done in it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its id.
    pub id: TaskId,
    /// The goal.
    pub goal: String,
    /// The model's replies by how many came before; beyond them it finishes.
    pub steps: Vec<Step>,
    /// Whether it waits for its next message after each turn.
    pub interactive: bool,
    /// The cap on model requests, if it has one.
    pub steps_max: Option<u64>,
    /// What becomes of an attempt that a crash broke.
    pub on_crash: OnCrash,
    /// When it is created, in milliseconds from the beginning.
    pub born_ms: u64,
    /// When someone forks it, in milliseconds from its creation.
    pub forked_ms: Option<u64>,
    /// What is sent to it.
    pub sendings: Vec<Sending>,
}

impl Plan {
    /// The `n`-th reply.
    pub fn step(&self, n: u64) -> Step {
        let written = usize::try_from(n).ok().and_then(|n| self.steps.get(n)).cloned();
        written.unwrap_or_else(|| Step {
            text: format!("finished after {n} replies"),
            takes_ms: 700,
            ..Step::default()
        })
    }

    /// How far it is from a root.
    pub fn depth(&self) -> usize {
        depth_of(&self.id)
    }

    /// Whether some reply calls this tool.
    pub fn calls(&self, kind: Kind) -> bool {
        self.steps.iter().flat_map(|step| &step.calls).any(|call| call.tool == kind.name())
    }
}

/// The tasks of a world: those it begins with, and children as they are spawned.
#[derive(Debug)]
pub struct Plans {
    seed: u64,
    by_id: Mutex<BTreeMap<TaskId, Arc<Plan>>>,
}

impl Plans {
    /// The tasks that the world of a seed begins with.
    pub fn new(seed: u64) -> Self {
        let prng = Prng::named(seed, "tasks");
        let roots = (0..prng.between(2, 4)).map(|number| root(&prng, seed, number));
        Self { seed, by_id: Mutex::new(roots.map(|plan| (plan.id.clone(), Arc::new(plan))).collect()) }
    }

    fn by_id(&self) -> MutexGuard<'_, BTreeMap<TaskId, Arc<Plan>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan of a task.
    pub fn of(&self, task: &TaskId) -> Option<Arc<Plan>> {
        self.by_id().get(task).cloned()
    }

    /// Every plan so far.
    pub fn all(&self) -> Vec<Arc<Plan>> {
        self.by_id().values().cloned().collect()
    }

    /// A fork goes on as its source would.
    pub fn branch(&self, source: &Plan, fork: &TaskId) -> Arc<Plan> {
        let plan = Plan { id: fork.clone(), sendings: Vec::new(), forked_ms: None, ..source.clone() };
        self.by_id().entry(fork.clone()).or_insert_with(|| Arc::new(plan)).clone()
    }

    /// A child was spawned; what it does follows from its goal.
    pub fn bear(&self, child: &TaskId, goal: &str) {
        let plan = errand(&Prng::named(self.seed, goal), child.clone(), goal, depth_of(child));
        self.by_id().entry(child.clone()).or_insert_with(|| Arc::new(plan));
    }
}

/// How far a task is from a root: every generation adds a decision, an index and a number to the id.
fn depth_of(task: &TaskId) -> usize {
    task.as_str().split('.').count() / 3
}

fn root(prng: &Prng, seed: u64, number: u64) -> Plan {
    let name = format!("s{seed}-t{number}");
    let interactive = prng.chance(250);
    let mut steps = Vec::new();
    if prng.chance(30) {
        // More than the rounds after which a snapshot is due.
        (0..prng.between(20, 23)).for_each(|_| steps.push(quick_round(prng)));
    }
    for _ in 0..prng.between(1, 2 + u64::from(interactive)) {
        for _ in 0..prng.below(4) {
            let at = steps.len();
            steps.push(if prng.chance(300) { steering_round(prng, &name, at, Some("errand")) } else { round(prng) });
        }
        if prng.chance(120) {
            let count = if prng.chance(100) { 3 } else { prng.between(1, 2) };
            (0..count).for_each(|_| steps.push(hollow(prng)));
        }
        steps.push(Step {
            text: format!("answer {} of {name}", steps.len()),
            takes_ms: takes(prng),
            ..Step::default()
        });
    }
    if prng.chance(250) {
        let at = usize::try_from(prng.below(steps.len() as u64)).unwrap_or(0);
        steps[at].refusals = refusals(prng);
    }
    let sendings = (0..prng.below(if interactive { 5 } else { 3 })).map(|nth| sending(prng, &name, nth)).collect();
    Plan {
        id: TaskId::new(name.as_str()).expect("letters, digits and a dash"),
        goal: format!("goal of {name}"),
        steps,
        interactive,
        steps_max: prng.chance(80).then(|| prng.between(1, 4)),
        on_crash: *prng.pick(&[OnCrash::Resolve, OnCrash::Resolve, OnCrash::Redrive, OnCrash::Park]),
        born_ms: prng.below(8_000),
        forked_ms: prng.chance(120).then(|| prng.between(5_000, 60_000)),
        sendings,
    }
}

fn takes(prng: &Prng) -> u64 {
    if prng.chance(150) { prng.between(5_000, 25_000) } else { prng.between(50, 2_500) }
}

fn quick_round(prng: &Prng) -> Step {
    let args = format!(r#"{{"ms":{},"note":"quick"}}"#, prng.below(40));
    let calls = vec![PlannedCall { tool: Kind::Look.name().into(), args }];
    Step { calls, takes_ms: prng.between(20, 200), ..Step::default() }
}

fn round(prng: &Prng) -> Step {
    let count = if prng.chance(300) { prng.between(2, 4) } else { 1 };
    Step {
        text: if prng.chance(500) { "let me see".into() } else { String::new() },
        thinking: prng.chance(150).then(|| "I should call a tool".into()),
        calls: (0..count).map(|_| call(prng)).collect(),
        takes_ms: takes(prng),
        ..Step::default()
    }
}

/// A reply that holds nothing, or that was cut.
fn hollow(prng: &Prng) -> Step {
    let cut = prng.chance(500);
    Step {
        text: if cut { "it is as foll".into() } else { String::new() },
        cut,
        takes_ms: takes(prng),
        ..Step::default()
    }
}

fn call(prng: &Prng) -> PlannedCall {
    let usual = [Kind::Mutate, Kind::Mutate, Kind::Far, Kind::Mail, Kind::Mail, Kind::Put, Kind::Put, Kind::Look];
    let odd = [Kind::Fail, Kind::Vague, Kind::Forbidden];
    let (tool, args) = match prng.below(100) {
        0 => (Kind::Burst.name().to_owned(), args(prng)),
        1..=2 => ("NoSuchTool".to_owned(), args(prng)),
        3..=4 => (Kind::Mutate.name().to_owned(), r#"{"ms":"soon"}"#.to_owned()),
        5..=11 => (Kind::Start.name().to_owned(), job(prng)),
        12..=14 => (Kind::Kill.name().to_owned(), args(prng)),
        15..=24 => (prng.pick(&odd).name().to_owned(), args(prng)),
        _ => (prng.pick(&usual).name().to_owned(), args(prng)),
    };
    PlannedCall { tool, args }
}

/// Arguments of a call that leaves a job running: one that ends soon, late or never.
fn job(prng: &Prng) -> String {
    let ms = prng.below(5_000);
    match prng.below(4) {
        0 => format!(r#"{{"ms":{ms},"note":"for good"}}"#),
        1 => format!(r#"{{"life":{},"ms":{ms},"note":"long"}}"#, prng.between(10_000, 60_000)),
        _ => format!(r#"{{"life":{},"ms":{ms},"note":"brief"}}"#, prng.below(8_000)),
    }
}

fn args(prng: &Prng) -> String {
    let ms = if prng.chance(150) { prng.between(4_000, 20_000) } else { prng.below(2_000) };
    let note = match prng.below(100) {
        0..=5 => "n".repeat(1_100),
        6..=11 => format!("{ASK}{}", prng.below(1_000_000)),
        12..=15 => format!("{HURRY}{}", prng.below(1_000_000)),
        _ => format!("n{}", prng.below(1_000_000)),
    };
    format!(r#"{{"ms":{ms},"note":"{note}"}}"#)
}

fn refusals(prng: &Prng) -> Vec<Refusal> {
    let kinds =
        [ModelErrorKind::RateLimited, ModelErrorKind::Overloaded, ModelErrorKind::Network, ModelErrorKind::Timeout];
    let count = if prng.chance(60) { 9 } else { prng.between(1, 3) };
    let mut refusals: Vec<Refusal> = (0..count)
        .map(|_| Refusal {
            kind: *prng.pick(&kinds),
            retry_after_ms: if prng.chance(200) { prng.between(31_000, 90_000) } else { 0 },
        })
        .collect();
    if prng.chance(80) {
        refusals.push(Refusal { kind: ModelErrorKind::Invalid, retry_after_ms: 0 });
    }
    refusals
}
