//! Everything the store holds, and the one index that claims go by.

use std::collections::{BTreeMap, BTreeSet};

use plica_kernel::canonical::Hash;
use plica_kernel::id::{DedupKey, InstanceId, LedgerId, Queue, TaskId};
use plica_kernel::time::Timestamp;
use plica_ports::store::sound::check_root;
use plica_ports::store::{CreateError, Created, NewTask, StoreError, WorkerRow};

use crate::content::Contents;
use crate::draw::Draw;
use crate::record::Record;

/// Priority classes, 0 to 3.
const CLASSES: usize = 4;

/// The whole store.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ledger: LedgerId,
    pub(crate) draw: Draw,
    pub(crate) contents: Contents,
    pub(crate) workers: BTreeMap<InstanceId, WorkerRow>,
    tasks: BTreeMap<TaskId, Record>,
    keys: BTreeMap<DedupKey, (Hash, TaskId)>,
    /// Tasks by when they may next be claimed, one set a class. A task that waits for an
    /// event, is over or blocked is in none, so a claim never meets it (ST-12).
    due: [BTreeSet<(Timestamp, TaskId)>; CLASSES],
}

impl World {
    pub(crate) fn new(mut draw: Draw) -> Self {
        Self {
            ledger: draw.ledger(),
            draw,
            contents: Contents::default(),
            workers: BTreeMap::new(),
            tasks: BTreeMap::new(),
            keys: BTreeMap::new(),
            due: Default::default(),
        }
    }

    /// A task.
    pub(crate) fn task(&self, id: &TaskId) -> Result<&Record, StoreError> {
        self.tasks.get(id).ok_or_else(|| StoreError::UnknownTask(id.clone()))
    }

    /// All tasks by id.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (&TaskId, &Record)> {
        self.tasks.iter()
    }

    /// Changes a task and keeps the index in step; the only way to a `&mut Record`.
    pub(crate) fn change<T>(&mut self, id: &TaskId, change: impl FnOnce(&mut Record) -> T) -> Result<T, StoreError> {
        let record = self.tasks.get_mut(id).ok_or_else(|| StoreError::UnknownTask(id.clone()))?;
        let before = record.claimable_at;
        let result = change(record);
        if before != record.claimable_at {
            let due = &mut self.due[usize::from(record.facts.priority)];
            if let Some(time) = before {
                due.remove(&(time, id.clone()));
            }
            if let Some(time) = record.claimable_at {
                due.insert((time, id.clone()));
            }
        }
        Ok(result)
    }

    /// Adds a task that was checked and does not exist yet.
    pub(crate) fn insert(&mut self, task: &NewTask, now: Timestamp) {
        for blob in &task.blobs {
            self.contents.keep(blob, now);
        }
        let record = Record::new(task.facts.clone(), task.row.clone(), &task.events, now);
        if let Some(time) = record.claimable_at {
            self.due[usize::from(record.facts.priority)].insert((time, task.id.clone()));
        }
        if let Some((key, fingerprint)) = &task.key {
            self.keys.insert(key.clone(), (*fingerprint, task.id.clone()));
        }
        self.tasks.insert(task.id.clone(), record);
    }

    /// Creates a root task.
    pub(crate) fn create(&mut self, task: &NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let invalid = |rule| CreateError::Invalid { task: task.id.clone(), rule };
        check_root(task).map_err(invalid)?;
        if let Some((key, fingerprint)) = &task.key
            && let Some((first, made)) = self.keys.get(key)
        {
            return if first == fingerprint {
                Ok(Created { id: made.clone(), fresh: false })
            } else {
                Err(CreateError::KeyConflict { key: key.clone(), task: made.clone() })
            };
        }
        if self.tasks.contains_key(&task.id) {
            return Err(CreateError::Exists(task.id.clone()));
        }
        self.insert(task, now);
        Ok(Created { id: task.id.clone(), fresh: true })
    }

    /// Tasks of `queues` that have a time at which they may be claimed, in the order of ST-1:
    /// class by class, the longest due first.
    pub(crate) fn due<'a>(
        &'a self,
        queues: &'a [Queue],
        until: Option<Timestamp>,
    ) -> impl Iterator<Item = (Timestamp, &'a TaskId)> {
        self.due
            .iter()
            .flat_map(move |class| class.iter().take_while(move |(time, _)| until.is_none_or(|until| *time <= until)))
            .filter(|(_, id)| self.tasks.get(id).is_some_and(|record| serves(queues, &record.facts.queue)))
            .map(|(time, id)| (*time, id))
    }
}

/// Whether a worker of these queues serves `queue`; no queues means every queue.
pub(crate) fn serves(queues: &[Queue], queue: &Queue) -> bool {
    queues.is_empty() || queues.contains(queue)
}
