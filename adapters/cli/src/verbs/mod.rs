//! The verbs, a file each.

mod agent;
mod agent_set;
mod back;
mod completions;
mod demo;
mod doctor;
mod drive;
mod events;
mod gc;
mod list;
mod man;
mod messages;
mod people;
mod run;
mod show;
mod steer;
mod submit;
mod verify;
mod ways;
mod worker;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use plica_engine::Client;
use plica_kernel::event::ApprovalVerdict;
use plica_ports::Store;
use plica_ports::store::Row;

use crate::args::{Agent, AgentVerb, Arguments, ReadText, Text, Verb};
use crate::compose;
use crate::fault::Fault;
use crate::talk;

/// How often it is shown how far a long look at everything is.
const SHOWN: Duration = Duration::from_millis(200);

/// Carries out what the command line asks for; the exit status.
pub async fn carry_out(arguments: Arguments) -> Result<u8, Fault> {
    let store = arguments.store;
    // Opened by the verbs that need it: a store that is not there is no matter to the others.
    let store = || compose::store(store.as_deref());
    let client = || store().map(Client::new);
    match arguments.verb {
        Verb::Run(run) => run::run(&client()?, run).await,
        Verb::Submit(submit) => submit::submit(&client()?, submit).await,
        Verb::Worker(worker) => worker::work(store()?, worker).await,
        Verb::List(list) => list::list(&client()?, list).await,
        Verb::Show(show) => show::show(&client()?, show).await,
        Verb::Events(events) => events::events(&client()?, events).await,
        Verb::Messages(messages) => messages::messages(&client()?, messages).await,
        Verb::Send(send) => steer::send(&client()?, send).await,
        Verb::Cancel(cancel) => steer::cancel(&client()?, cancel).await,
        Verb::Interrupt(order) => steer::interrupt(&client()?, order).await,
        Verb::Close(order) => steer::close(&client()?, order).await,
        Verb::Reopen(order) => steer::reopen(&client()?, order).await,
        Verb::Rewind(rewind) => back::rewind(&client()?, rewind).await,
        Verb::Fork(fork) => back::fork(&client()?, fork).await,
        Verb::Resolve(resolve) => people::resolve(&client()?, resolve).await,
        Verb::Signal(signal) => steer::signal(&client()?, signal).await,
        Verb::Answer(answer) => people::answer(&client()?, answer).await,
        Verb::Approve(ruling) => people::rule(&client()?, ruling, ApprovalVerdict::Approve).await,
        Verb::Deny(ruling) => people::rule(&client()?, ruling, ApprovalVerdict::Deny).await,
        Verb::Gc(gc) => gc::gc(&client()?, gc).await,
        Verb::Verify(verify) => verify::verify(&client()?, verify).await,
        Verb::Doctor(doctor) => doctor::doctor(&client()?, doctor).await,
        Verb::Agent(Agent { wanted: AgentVerb::Set(set) }) => agent_set::set(&client()?, set).await,
        Verb::Agent(agent) => agent::agent(&agent.wanted),
        Verb::Demo(demo) => demo::demo(demo).await,
        Verb::Man(man) => man::man(&man),
        Verb::Completions(completions) => completions::completions(&completions),
    }
}

/// The row of the task that is named by id, by a unique beginning of it, or as `@last` (CL-1).
async fn named(client: &Client, name: &str) -> Result<Row, Fault> {
    if name == "@last" {
        return client
            .newest()
            .await?
            .ok_or_else(|| Fault::Usage("there is no task yet; `plica submit` or `plica run` creates one".into()));
    }
    // An empty name begins every id: most likely a variable that was not set.
    if name.is_empty() {
        return Err(no_task("\"\""));
    }
    let mut found = client.find(name).await?;
    match found.len() {
        0 => Err(no_task(name)),
        1 => Ok(found.remove(0)),
        _ => {
            let ids: Vec<String> = found.iter().map(|row| format!("  {}", row.id)).collect();
            Err(Fault::Usage(format!(
                "{name} is the beginning of several ids; give more of it (`plica list` shows what they are):\n{}",
                ids.join("\n")
            )))
        }
    }
}

fn no_task(name: &str) -> Fault {
    Fault::Usage(format!("no task {name}; `plica list` shows the tasks"))
}

/// Reads a text argument, and says so when bytes were replaced in it (EV-6).
fn read_text(text: Text) -> Result<String, Fault> {
    let ReadText { text, replaced } = text
        .read(io::stdin().lock())
        .map_err(|error| Fault::Usage(format!("standard input cannot be read: {error}")))?;
    if replaced {
        talk::say("bytes that are not UTF-8 were replaced with U+FFFD");
    }
    Ok(text)
}

/// Writes to standard output. A reader that went away has had enough, which ends the verb and
/// is no error.
///
/// What was said before stands before it, where both go to one place.
fn print(bytes: &[u8]) -> Result<(), Fault> {
    talk::settle();
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Fault::ReaderGone),
        Err(error) => Err(Fault::Config(format!("standard output: {error}"))),
    }
}

/// A JSON object as one line.
fn json_line(value: &serde_json::Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

fn store_of(client: &Client) -> Arc<dyn Store> {
    Arc::clone(client.store())
}
