//! What one task's log says of others, and asks of the world outside.

use std::mem::take;
use std::sync::atomic::Ordering;

use plica_kernel::id::TaskId;
use plica_ports::store::Batch;

use super::event::Event;
use super::log::Status;
use super::reckoning::ended_as;
use super::{Book, Oracle};

impl Oracle {
    /// A fork begins with what its source was where it branches off (SN-4).
    pub(super) fn branch(&self, fork: &TaskId, event: &Event) {
        let mut books = self.books();
        let source = event.text("source").ok().and_then(|source| TaskId::new(source).ok());
        let source = source.and_then(|source| books.tasks.get(&source));
        let landing = source.and_then(|book| {
            let landing = book.landings.get(&event.number("source_seq"))?;
            let same = event.payload["source_hash"] == landing.log.hash.as_str();
            same.then(|| (landing.log.branch(), landing.shown.clone()))
        });
        match landing {
            Some((log, shown)) => {
                books.tasks.insert(fork.clone(), Book { log, shown, ..Book::default() });
            }
            None => {
                drop(books);
                self.violated(fork.as_str(), format!("branches off where it cannot: {}", event.payload));
            }
        }
    }

    /// Passes on what a log asks of the world outside, and compares what it says of children
    /// with their own logs.
    pub(super) fn pass_on(&self, task: &TaskId) {
        let Some((needs, born, ended)) = self.books().tasks.get_mut(task).map(|book| {
            let waits = &mut book.log.rounds.waits;
            (take(&mut waits.needs), take(&mut waits.born), take(&mut waits.ended))
        }) else {
            return;
        };
        for (child, goal) in born {
            self.plans.bear(&child, &goal);
        }
        for end in ended {
            let child = TaskId::new(end.child.as_str()).ok();
            let Some(child) = child.filter(|_| !end.by_parent) else { continue };
            self.check(&child, |book| ended_as(book, &end));
        }
        for need in needs {
            self.open_needs.fetch_add(1, Ordering::Relaxed);
            // Nobody listens once the world is over.
            let _ = self.needs.send((task.clone(), need));
        }
    }

    /// Children are made in the append that spawns them (WA-5), and those that an append stops
    /// are told so by it (EN-6).
    pub(super) fn family(&self, batch: &Batch) -> Result<(), String> {
        let books = self.books();
        let recent = books.tasks.get(&batch.task).map(|book| &book.log.recent[..]).unwrap_or_default();
        let book = |child: &str| TaskId::new(child).ok().and_then(|child| books.tasks.get(&child));
        let status = |child: &str| book(child).map(|book| book.log.status).unwrap_or_default();
        let is_told = |child: &str| book(child).is_some_and(|book| book.inbox.has_cancel());
        for event in recent {
            match event.kind.as_str() {
                "SubtaskSpawned" if status(event.text("child")?) == Status::Unborn => {
                    return Err(format!("{} {} made no child", event.kind, event.seq));
                }
                "SubtaskCompleted" if event.actor == "engine" => {
                    let child = event.text("child")?;
                    if !status(child).is_over() && !is_told(child) {
                        return Err(format!("{child} goes on after its parent stopped it"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
