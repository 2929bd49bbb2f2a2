//! Who may write to a task: epochs never go back and have one holder.

use std::collections::BTreeMap;

use plica_kernel::limits::{IDLE_CLAIMS_MAX, PLUGIN_CLAIMS_MAX};
use plica_kernel::time::Timestamp;

/// A hold that was handed out and not handed back.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The process that holds it.
    pub instance: String,
    pub epoch: u64,
    pub run: String,
    pub until: Timestamp,
    /// Whether it lacks a plugin that the task needs to go on.
    pub lacks: bool,
    /// Whether it may find that the task is to move to a definition without that plugin.
    pub excused: bool,
}

/// The holds of one task.
#[derive(Debug, Default)]
pub struct Holds {
    /// The highest epoch handed out.
    pub epoch: u64,
    pub now: Option<Hold>,
    not_before: Option<Timestamp>,
    idle: u32,
    /// Claims of each process that lacks a plugin, in a row at one head.
    in_vain: BTreeMap<String, (u64, u32)>,
}

impl Holds {
    /// A claim was handed out at `now`; `adopted` says that its taker held the task already.
    pub fn taken(&mut self, hold: Hold, now: Timestamp, adopted: bool) -> Result<(), String> {
        if hold.epoch != self.epoch + 1 {
            return Err(format!("epoch {} was handed out after epoch {}", hold.epoch, self.epoch));
        }
        let same = self.now.as_ref().is_some_and(|before| before.instance == hold.instance);
        if let Some(before) = &self.now {
            let over = before.until <= now;
            if !(over || adopted && same) {
                return Err(format!(
                    "{} was given what {} holds until {}; it is {now}",
                    hold.instance, before.instance, before.until
                ));
            }
        }
        if let Some(time) = self.not_before
            && now < time
        {
            return Err(format!("claimed at {now}, not to be claimed before {time}"));
        }
        if !same {
            self.idle += 1;
        }
        self.not_before = None;
        self.epoch = hold.epoch;
        self.now = Some(hold);
        Ok(())
    }

    /// A process that lacks a plugin was given the task at this head.
    pub fn taken_in_vain(&mut self, instance: &str, head: u64) {
        let claims = self.in_vain.entry(instance.to_owned()).or_default();
        *claims = if claims.0 == head { (head, claims.1 + 1) } else { (head, 1) };
    }

    /// Whether the holder lacks a plugin, and so may write nothing.
    pub fn lacks(&self) -> bool {
        self.now.as_ref().is_some_and(|hold| hold.lacks && !hold.excused)
    }

    /// Whether the holder took the task so often in vain that it may fail it (RC-8).
    pub fn lacks_for_good(&self) -> bool {
        let claims = self.now.as_ref().and_then(|hold| self.in_vain.get(&hold.instance));
        let lacks = self.now.as_ref().is_some_and(|hold| hold.lacks);
        lacks && claims.is_some_and(|(_, count)| *count >= PLUGIN_CLAIMS_MAX)
    }

    /// What the holder wrote needs no plugin, or ends the need for one.
    pub fn lacks_no_more(&mut self) {
        if let Some(hold) = &mut self.now {
            hold.lacks = false;
        }
    }

    /// The hold under which `epoch` and `run` may do something; its lease may be over.
    pub fn holder(&self, epoch: u64, run: &str) -> Result<&Hold, String> {
        let hold = self.now.as_ref().ok_or("nobody holds the task")?;
        if hold.epoch != epoch || hold.run != run {
            return Err(format!("epoch {epoch} ({run}) was let in, the task is held under epoch {}", hold.epoch));
        }
        Ok(hold)
    }

    /// A lease was extended.
    pub fn renewed(&mut self, epoch: u64, run: &str, until: Timestamp) -> Result<(), String> {
        self.holder(epoch, run)?;
        if let Some(hold) = &mut self.now {
            hold.until = until;
        }
        Ok(())
    }

    /// The task may be claimed at once.
    pub fn forget_not_before(&mut self) {
        self.not_before = None;
    }

    /// The hold of a task that `works`, or waits or is over, was handed back.
    pub fn released(
        &mut self,
        epoch: u64,
        run: &str,
        not_before: Option<Timestamp>,
        works: bool,
    ) -> Result<(), String> {
        self.holder(epoch, run)?;
        if self.lacks() && not_before.is_none() && !self.lacks_for_good() {
            return Err("handed back for at once by one that lacks a plugin".into());
        }
        self.now = None;
        self.not_before = not_before.filter(|_| works);
        if not_before.is_some() {
            self.idle = self.idle.saturating_sub(1);
        }
        Ok(())
    }

    /// An append was accepted at `now`; `released` says that it ended the hold.
    pub fn appended(&mut self, epoch: u64, run: &str, now: Timestamp, released: bool) -> Result<(), String> {
        let hold = self.holder(epoch, run)?;
        if hold.until <= now {
            return Err(format!("an append was let in at {now}, the lease was over at {}", hold.until));
        }
        self.idle = 0;
        if released {
            self.now = None;
            self.not_before = None;
        }
        Ok(())
    }

    /// Whether so many claims in a row brought nothing that the task counts as poison. The
    /// claim at which it is blocked is not handed out and so was not counted here.
    pub fn is_poison(&self) -> bool {
        self.idle + 1 >= IDLE_CLAIMS_MAX
    }

    /// Someone lifted a block.
    pub fn unblocked(&mut self) {
        self.idle = 0;
        self.now = None;
    }
}
