//! `plica verify`: what holds, what does not, and what could not be checked (PR-1, PR-4).

use std::time::Instant;

use plica_engine::{Client, Verdict};
use plica_ports::store::{Page, TaskFilter};
use serde_json::{Value, json};

use super::{SHOWN, json_line, named, print};
use crate::args::Verify;
use crate::commands;
use crate::fault::Fault;
use crate::render::{counted, cut};
use crate::talk::{self, Style};

/// Rows read at once.
const PAGE: usize = 500;

pub async fn verify(client: &Client, arguments: Verify) -> Result<u8, Fault> {
    let mut verdict = Verdict::new();
    match &arguments.task {
        Some(name) => client.verify(&named(client, name).await?.id, &mut verdict).await?,
        None => verify_all(client, &mut verdict).await?,
    }
    if arguments.json {
        print(&json_line(&as_json(&verdict)))?;
    } else {
        print(commands::complete(&in_words(&verdict)).as_bytes())?;
    }
    if verdict.is_ok() { Ok(0) } else { Err(Fault::Verification) }
}

async fn verify_all(client: &Client, verdict: &mut Verdict) -> Result<(), Fault> {
    let mut page = Page::first(PAGE);
    let (escapes, mut shown) = (Style::of_stderr().escapes, Instant::now());
    loop {
        let rows = client.list(&TaskFilter::default(), &page).await?;
        for row in &rows {
            client.verify(&row.id, verdict).await?;
            if escapes && shown.elapsed() >= SHOWN {
                shown = Instant::now();
                let far = format!("… {}, {}", counted(verdict.tasks, "task"), counted(verdict.events, "event"));
                talk::status(cut(&far, talk::columns().saturating_sub(1)));
            }
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE => page.after = Some((last.facts.created_at, last.id.clone())),
            _ => return Ok(()),
        }
    }
}

fn as_json(verdict: &Verdict) -> Value {
    let breaks: Vec<Value> = verdict
        .breaks
        .iter()
        .map(|one| json!({ "task": one.task.as_str(), "seq": one.seq.0, "rule": one.rule }))
        .collect();
    json!({
        "ok": verdict.is_ok(),
        "tasks": verdict.tasks,
        "events": verdict.events,
        "integrity": verdict.integrity.name(),
        "causality": verdict.causality.name(),
        "authenticity": verdict.authenticity.name(),
        "completeness": verdict.completeness.name(),
        "not_checked": verdict.not_checked,
        "breaks": breaks,
    })
}

fn in_words(verdict: &Verdict) -> String {
    let mut text = format!("{}, {}\n", counted(verdict.tasks, "task"), counted(verdict.events, "event"));
    for (name, level) in [
        ("integrity", verdict.integrity),
        ("causality", verdict.causality),
        ("authenticity", verdict.authenticity),
        ("completeness", verdict.completeness),
    ] {
        text.push_str(&format!("{name:<13} {}\n", level.name().replace('_', " ")));
    }
    for one in &verdict.breaks {
        text.push_str(&format!("broken: task {} event {}: {}\n", one.task, one.seq, one.rule));
    }
    if let Some(first) = verdict.breaks.first() {
        let (task, before) = (&first.task, first.seq.0.saturating_sub(1));
        text.push_str(&format!("`plica events {task} --json --after {before}` prints from there on what is stored\n"));
    }
    for what in &verdict.not_checked {
        text.push_str(&format!("not checked: {what}\n"));
    }
    text
}
