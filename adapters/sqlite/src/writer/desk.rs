//! Whose turn it is to write: whoever comes when nobody writes, if it may, else the thread of the
//! handle. Whoever writes takes along what has piled up.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::{Job, Pen};

/// Requests that wait for a turn before callers wait for room.
const QUEUE: usize = 1024;
/// Requests that one commit may carry.
const BATCH: usize = 256;

/// Requests that wait, and the pen while nobody has it.
#[derive(Debug)]
pub(super) struct Desk {
    room: Semaphore,
    state: Mutex<State>,
    /// Rung for the thread.
    bell: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Box<dyn Job>>,
    pen: Option<Pen>,
    /// Nothing comes any more: the handle was dropped, or whoever had the pen panicked.
    closed: bool,
}

/// The right to write, with what to write.
pub(super) struct Turn<'a> {
    desk: &'a Desk,
    /// None while it writes: a panic leaves the turn without it.
    pen: Option<Pen>,
    batch: Vec<Box<dyn Job>>,
}

impl Desk {
    pub(super) fn new(pen: Pen) -> Self {
        let state = State { waiting: VecDeque::new(), pen: Some(pen), closed: false };
        Self { room: Semaphore::new(QUEUE), state: Mutex::new(state), bell: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for one more request; says whether it would be written.
    pub(super) async fn has_room(&self) -> bool {
        self.room.acquire().await.map(|room| room.forget()).is_ok()
    }

    /// Leaves a request to whoever writes next.
    pub(super) fn hand_in(&self, job: Box<dyn Job>) {
        let mut state = self.lock();
        if state.take_in(job) && state.pen.is_some() {
            self.bell.notify_one();
        }
    }

    /// Hands a request in and takes the pen, if nobody has it; whoever has it sees to the request.
    pub(super) fn take_turn(&self, job: Box<dyn Job>) -> Option<Turn<'_>> {
        let mut state = self.lock();
        state.take_in(job).then(|| self.turn(&mut state))?
    }

    fn turn(&self, state: &mut State) -> Option<Turn<'_>> {
        let pen = state.pen.take()?;
        let mut batch = Vec::new();
        self.fill(state, &mut batch);
        Some(Turn { desk: self, pen: Some(pen), batch })
    }

    /// Takes what has piled up, as far as one commit may carry it.
    fn fill(&self, state: &mut State, batch: &mut Vec<Box<dyn Job>>) {
        let taken = state.waiting.len().min(BATCH.saturating_sub(batch.len()));
        batch.extend(state.waiting.drain(..taken));
        self.room.add_permits(taken);
    }

    /// Writes whatever nobody else does, until the desk is closed and empty.
    pub(super) fn serve(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            if state.closed && state.waiting.is_empty() {
                return;
            }
            if !state.waiting.is_empty()
                && let Some(turn) = self.turn(&mut state)
            {
                drop(state);
                turn.write();
                state = self.lock();
            } else {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Lets the thread end once nothing waits.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.bell.notify_one();
    }
}

impl State {
    /// Takes a request in, unless nobody would write it: dropped, it answers so.
    fn take_in(&mut self, job: Box<dyn Job>) -> bool {
        if !self.closed {
            self.waiting.push_back(job);
        }
        !self.closed
    }
}

impl Turn<'_> {
    /// Writes the batch, answers, and lays the pen down.
    pub(super) fn write(mut self) {
        let desk = self.desk;
        if let Some(mut pen) = self.pen.take() {
            pen.write(std::mem::take(&mut self.batch), |batch| desk.fill(&mut desk.lock(), batch));
            self.pen = Some(pen);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        state.pen = self.pen.take();
        if state.pen.is_none() {
            // What a request that panicked left of the transaction nobody knows.
            state.closed = true;
            state.waiting.clear();
            self.desk.room.close();
        }
        if state.closed || !state.waiting.is_empty() {
            self.desk.bell.notify_one();
        }
    }
}

impl fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }
}
