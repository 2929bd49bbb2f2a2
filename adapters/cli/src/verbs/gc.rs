//! `plica gc`: removes content that nothing on record reaches (CO-3).

use std::time::Instant;

use plica_engine::{Client, Collected, GcOptions};
use serde_json::json;

use super::{SHOWN, json_line, print};
use crate::args::Gc;
use crate::commands;
use crate::fault::Fault;
use crate::render::{counted, cut, size};
use crate::talk::{self, Style};

pub async fn gc(client: &Client, arguments: Gc) -> Result<u8, Fault> {
    let options = GcOptions { grace: arguments.grace, dry_run: arguments.dry_run };
    let (escapes, mut shown) = (Style::of_stderr().escapes, Instant::now());
    let mut progress = |far: &Collected| {
        if escapes && shown.elapsed() >= SHOWN {
            shown = Instant::now();
            let far = format!("… {}, {}", counted(far.tasks, "task"), counted(far.events, "event"));
            talk::status(cut(&far, talk::columns().saturating_sub(1)));
        }
    };
    let collected = client.gc(options, &mut progress).await?;
    if arguments.json {
        print(&json_line(&json!({
            "dry_run": arguments.dry_run,
            "tasks": collected.tasks,
            "events": collected.events,
            "reached": collected.reached,
            "bodies": collected.bodies,
            "bytes": collected.bytes,
            "damaged": collected.damaged,
        })))?;
    } else {
        print(commands::complete(&in_words(&collected, arguments.dry_run)).as_bytes())?;
    }
    Ok(0)
}

fn in_words(collected: &Collected, dry_run: bool) -> String {
    let &Collected { tasks, reached, bodies, bytes, .. } = collected;
    let did = if dry_run { "would remove" } else { "removed" };
    let (tasks, reached) = (counted(tasks, "task"), bodies_of(reached));
    let reach = if collected.tasks == 1 { "reaches" } else { "reach" };
    let mut text = format!("{tasks} {reach} {reached}\n{did} {}, {}\n", bodies_of(bodies), size(bytes));
    for task in &collected.damaged {
        text.push_str(&format!(
            "a definition of task {task} cannot be read, and whatever it may cite was kept: `plica verify {task}` says more\n"
        ));
    }
    text
}

fn bodies_of(count: u64) -> String {
    if count == 1 { "1 body".into() } else { format!("{count} bodies") }
}

#[cfg(test)]
mod tests {
    use plica_kernel::id::TaskId;

    use super::*;

    #[test]
    fn co_3_it_says_what_was_freed() {
        let collected =
            Collected { tasks: 2, events: 9, reached: 1, bodies: 3, bytes: 5 << 20, ..Collected::default() };
        assert_eq!(in_words(&collected, false), "2 tasks reach 1 body\nremoved 3 bodies, 5.0 MiB\n");
        let none = Collected { tasks: 1, ..Collected::default() };
        assert_eq!(in_words(&none, true), "1 task reaches 0 bodies\nwould remove 0 bodies, 0 bytes\n");
        let damaged = [TaskId::new("t-1").expect("an id")].into();
        let damaged = in_words(&Collected { tasks: 1, damaged, ..Collected::default() }, false);
        assert!(damaged.ends_with("whatever it may cite was kept: `plica verify t-1` says more\n"), "{damaged}");
    }
}
