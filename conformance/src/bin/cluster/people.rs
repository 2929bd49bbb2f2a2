//! People and programs around the tasks: they submit, approve, answer, signal and send, each by a
//! process of its own, while everything goes wrong.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::fleet::Plica;
use crate::place::{Place, Task};
use crate::plan::{Kind, Planned};

/// How often what waits is looked for.
const LOOK: Duration = Duration::from_millis(150);
/// The exit status of what does not apply (any more).
const REFUSED: i32 = 2;

/// A message, and whether its sending was acknowledged.
#[derive(Debug, Clone)]
pub struct Sent {
    /// To whom.
    pub task: String,
    /// What, unlike any other text.
    pub text: String,
    /// Acknowledged: it has to be taken once; refused: never. Neither: at most once.
    pub is_acknowledged: Option<bool>,
}

/// What people did.
#[derive(Debug, Default)]
pub struct Done {
    /// The tasks, by their key.
    pub tasks: BTreeMap<String, String>,
    /// The messages.
    pub sent: Vec<Sent>,
}

/// Submits one task, however often it takes; its id.
fn submit(plica: &Plica, task: &Planned, stop: &AtomicBool) -> io::Result<Option<String>> {
    let agent = plica.folder.agent_of(task.kind).display().to_string();
    while !stop.load(Ordering::Acquire) {
        let (status, id) = plica.call(&["submit", "--agent", &agent, "--key", &task.key, "Do it."])?;
        if status == Some(0) && !id.is_empty() {
            return Ok(Some(id));
        }
        std::thread::sleep(LOOK);
    }
    Ok(None)
}

/// Works through the plan, spread evenly over `within`, until everything in it is over, or it is
/// told to stop.
pub fn run(plica: &Plica, plan: &[Planned], within: Duration, place: &Place, stop: &AtomicBool) -> io::Result<Done> {
    let began = Instant::now();
    let mut done = Done::default();
    let mut plan_left = plan.iter();
    let mut kinds: BTreeMap<String, &Planned> = BTreeMap::new();
    let mut messages: BTreeMap<String, u64> = BTreeMap::new();
    let mut is_submitted = false;
    while !stop.load(Ordering::Acquire) {
        let share = began.elapsed().as_millis() * plan.len() as u128 / within.as_millis().max(1);
        let due = usize::try_from(share).unwrap_or(usize::MAX).saturating_add(1);
        while done.tasks.len() < due
            && let Some(task) = plan_left.next()
        {
            let Some(id) = submit(plica, task, stop)? else { return Ok(done) };
            done.tasks.insert(task.key.clone(), id.clone());
            messages.insert(id.clone(), task.messages);
            kinds.insert(id, task);
        }
        is_submitted |= done.tasks.len() == plan.len();
        // A server that is away tells nothing.
        let Ok(rows) = place.tasks() else {
            std::thread::sleep(LOOK);
            continue;
        };
        for row in &rows {
            if let Some(task) = kinds.get(&row.id) {
                if row.status == "waiting" && row.wants_message {
                    carry_on(plica, row, &mut done.sent)?;
                } else {
                    attend(plica, task.kind, row)?;
                }
                send(plica, row, &mut messages, &mut done.sent)?;
            }
        }
        if is_submitted && rows.iter().all(is_over) {
            return Ok(done);
        }
        std::thread::sleep(LOOK);
    }
    Ok(done)
}

/// Whether a task is over.
pub fn is_over(task: &Task) -> bool {
    ["completed", "failed", "cancelled"].contains(&task.status.as_str())
}

/// Gives a task that waits what it waits for. What is refused has come before.
fn attend(plica: &Plica, kind: Kind, row: &Task) -> io::Result<()> {
    if row.status != "waiting" {
        return Ok(());
    }
    match kind {
        Kind::Approval => plica.call(&["approve", &row.id, "--detach"])?,
        Kind::Question => plica.call(&["answer", &row.id, "the red one", "--detach"])?,
        Kind::Event => plica.call(&["signal", &row.id, "--kind", "go", "--key", "go", "--detach"])?,
        Kind::Rounds | Kind::Pair | Kind::Timer | Kind::Parent | Kind::Job => return Ok(()),
    };
    Ok(())
}

/// Tells a parked attempt to go on: a call that a person had approved was cut off, so a person has
/// to look (RC-4). One that was told so at this place already is left alone.
fn carry_on(plica: &Plica, row: &Task, sent: &mut Vec<Sent>) -> io::Result<()> {
    let place = format!("Go on from {} of {}, ", row.seq, row.id);
    if sent.iter().any(|sent| sent.text.starts_with(&place) && sent.is_acknowledged.is_some()) {
        return Ok(());
    }
    // No text is sent twice, so that what became of each can be counted.
    let text = format!("{place}{}.", sent.len());
    deliver(plica, row, text, sent)
}

fn deliver(plica: &Plica, row: &Task, text: String, sent: &mut Vec<Sent>) -> io::Result<()> {
    let (status, _) = plica.call(&["send", &row.id, &text, "--detach"])?;
    let is_acknowledged = match status {
        Some(0) => Some(true),
        Some(REFUSED) => Some(false),
        _ => None,
    };
    sent.push(Sent { task: row.id.clone(), text, is_acknowledged });
    Ok(())
}

/// Sends a task that runs the messages that are left for it, one at a time.
fn send(plica: &Plica, row: &Task, messages: &mut BTreeMap<String, u64>, sent: &mut Vec<Sent>) -> io::Result<()> {
    if row.status != "running" {
        return Ok(());
    }
    if let Some(left) = messages.get_mut(&row.id).filter(|left| **left > 0) {
        let text = format!("message-{}-of-{}.", *left, row.id);
        *left -= 1;
        deliver(plica, row, text, sent)?;
    }
    Ok(())
}
