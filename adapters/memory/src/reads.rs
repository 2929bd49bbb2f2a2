//! Reading: rows, lists, logs, what is due, who is alive (ST-11, ST-19).

use std::time::Duration;

use plica_kernel::canonical::Hash;
use plica_kernel::id::{Position, Queue, Seq, TaskId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::InboxItem;
use plica_ports::store::{CommitFate, Outlook, Page, Row, StoreError, StoredEvent, TaskFilter, Worker, WorkerRow};

use crate::claims::is_held_by;
use crate::record::Record;
use crate::world::{World, serves};

impl World {
    pub(crate) fn read(&self, task: &TaskId, from: Seq, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let log = &self.task(task)?.log;
        // Seqs run from 1 without a gap, so the event of a seq is found by counting.
        let skipped = usize::try_from(from.0.saturating_sub(1)).unwrap_or(usize::MAX);
        Ok(log.iter().skip(skipped).take(limit).map(|(_, event)| event.clone()).collect())
    }

    pub(crate) fn baselines(&self, task: &TaskId, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let newest_first = self.task(task)?.log.iter().rev().filter(|(kind, _)| kind.is_baseline());
        Ok(newest_first.take(limit).map(|(_, event)| event.clone()).collect())
    }

    pub(crate) fn row(&self, task: &TaskId) -> Option<Row> {
        self.task(task).ok().map(|record| record.to_row(task))
    }

    pub(crate) fn list(&self, filter: &TaskFilter, page: &Page) -> Vec<Row> {
        let mut found: Vec<_> = self
            .tasks()
            .filter(|(id, record)| matches(filter, id, record))
            .map(|(id, record)| ((record.facts.created_at, id), record))
            .filter(|((created, id), _)| page.after.as_ref().is_none_or(|(time, last)| (created, *id) < (time, last)))
            .collect();
        found.sort_by(|(a, _), (b, _)| b.cmp(a));
        found.into_iter().take(page.limit).map(|((_, id), record)| record.to_row(id)).collect()
    }

    pub(crate) fn untaken(&self, task: &TaskId, after: Position) -> Result<Vec<InboxItem>, StoreError> {
        Ok(self.task(task)?.untaken.iter().filter(|item| item.position > after).cloned().collect())
    }

    pub(crate) fn inbox_tails(&self, tasks: &[TaskId]) -> Vec<Position> {
        tasks.iter().map(|task| self.task(task).map_or(Position(0), |record| record.inbox_tail)).collect()
    }

    pub(crate) fn fate(&self, task: &TaskId, seq: Seq, hash: &Hash) -> Result<CommitFate, StoreError> {
        Ok(match self.read(task, seq, 1)?.first().filter(|event| event.seq == seq) {
            None => CommitFate::NotThere,
            Some(event) if event.hash == *hash => CommitFate::Written,
            Some(_) => CommitFate::Superseded,
        })
    }

    /// Whether the log is beyond `after` or the inbox beyond `tail`.
    pub(crate) fn is_news(&self, task: &TaskId, after: Seq, tail: Position) -> Result<bool, StoreError> {
        let record = self.task(task)?;
        Ok(record.row.seq > after || record.inbox_tail > tail)
    }

    /// When the next task of `queues` may be claimed, held ones included.
    pub(crate) fn next_due(&self, queues: &[Queue]) -> Option<Timestamp> {
        self.due(queues, None).map(|(time, _)| time).min()
    }

    pub(crate) fn outlook(&self, queues: &[Queue], now: Timestamp) -> Outlook {
        let mut outlook = Outlook { held: 0, next: None, now };
        for (_, record) in self.tasks().filter(|(_, record)| serves(queues, &record.facts.queue)) {
            match &record.hold {
                Some(hold) if now < hold.lease_until => outlook.held += 1,
                _ => outlook.next = [outlook.next, record.claimable_at].into_iter().flatten().min(),
            }
        }
        outlook
    }

    pub(crate) fn held_by(&self, worker: &Worker) -> Vec<TaskId> {
        self.tasks().filter(|(_, record)| is_held_by(record, worker)).map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn register(&mut self, worker: &Worker, queues: &[Queue], lease: Duration, now: Timestamp) {
        let row = WorkerRow {
            id: worker.id.clone(),
            host: worker.host.clone(),
            version: worker.version.clone(),
            queues: queues.to_vec(),
            lease,
            seen_at: now,
        };
        self.workers.insert(worker.instance.clone(), row);
    }

    pub(crate) fn living(&self, now: Timestamp) -> Vec<WorkerRow> {
        let alive = |row: &&WorkerRow| {
            let silent = u128::from(now.micros().saturating_sub(row.seen_at.micros()).unsigned_abs());
            silent <= row.lease.as_micros().saturating_mul(2)
        };
        let mut rows: Vec<_> = self.workers.values().filter(alive).cloned().collect();
        rows.sort_by(|a, b| (b.seen_at, &a.id).cmp(&(a.seen_at, &b.id)));
        rows
    }
}

fn matches(filter: &TaskFilter, id: &TaskId, record: &Record) -> bool {
    filter.status.is_none_or(|status| record.row.status == status)
        && filter.queue.as_ref().is_none_or(|queue| record.facts.queue == *queue)
        && filter.agent.as_ref().is_none_or(|agent| record.facts.agent == *agent)
        && filter.parent.as_ref().is_none_or(|parent| record.facts.parent.as_ref() == Some(parent))
        && filter.prefix.as_ref().is_none_or(|prefix| id.as_str().starts_with(prefix.as_str()))
        && (!filter.blocked || record.blocked.is_some())
}
