//! Deliveries (ST-7).

use plica_kernel::canonical::content_hash;
use plica_kernel::id::{DedupKey, TaskId};
use plica_kernel::time::Timestamp;
use plica_kernel::wake::{InboxItem, Item};
use plica_ports::store::rules::item_bytes;
use plica_ports::store::{DeliverError, Delivered};

use crate::world::World;

impl World {
    /// Puts an item into a task's inbox.
    pub(crate) fn deliver(
        &mut self,
        task: &TaskId,
        actor: &str,
        item: &Item,
        dedup: &DedupKey,
        now: Timestamp,
    ) -> Result<Delivered, DeliverError> {
        let hash = content_hash(&item_bytes(task, item)?);
        let record = self.task(task)?;
        // The key comes before the status: a sender that repeats itself is told the same,
        // also when the task ended in between.
        match record.delivered.get(dedup) {
            Some((position, first)) if *first == hash => return Ok(Delivered { position: *position, fresh: false }),
            Some(_) => return Err(DeliverError::KeyConflict { task: task.clone(), key: dedup.clone() }),
            None => {}
        }
        let status = record.row.status;
        if status.is_over() && !item.outlives_the_task() {
            return Err(DeliverError::TaskOver { task: task.clone(), status, kind: item.kind() });
        }
        let position = self.change(task, |record| {
            let position = record.inbox_tail.next();
            record.inbox_tail = position;
            record.delivered.insert(dedup.clone(), (position, hash));
            let item = InboxItem { at: now, actor: actor.into(), dedup: dedup.clone(), item: item.clone(), position };
            record.untaken.push(item);
            // An item can only make a task due earlier; what was due keeps its place.
            record.claimable_at = [record.claimable_at, record.due(now)].into_iter().flatten().min();
            position
        })?;
        Ok(Delivered { position, fresh: true })
    }
}
