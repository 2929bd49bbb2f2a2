//! Two stores side by side: the same operations, drawn from a seed, on both, every answer
//! compared. What the suite did not think of, one of two implementations mostly did.
//!
//! Both follow one clock that only the test moves; what each draws for itself (tokens, runs,
//! the store's name) is left out of the comparison, and everything else is in it: answers,
//! refusals with all they name, rows, logs, inboxes, lists. A sequence that tells the stores
//! apart is cut down by halves to one that is short enough to read, and prints its seed.

mod batch;
mod dice;
mod op;
mod play;
mod shape;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use plica_ports::Store;

use dice::Dice;
use op::Op;
use play::Play;

/// Two fresh, empty stores by one clock.
pub struct Pair {
    left: Arc<dyn Store>,
    right: Arc<dyn Store>,
    advance: Box<dyn Fn(Duration) + Send + Sync>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl Pair {
    /// Two stores, which both follow the clock that `advance` moves forward; `kept` lives as
    /// long as they do.
    pub fn new(
        left: Arc<dyn Store>,
        right: Arc<dyn Store>,
        advance: impl Fn(Duration) + Send + Sync + 'static,
        kept: impl Any + Send + Sync,
    ) -> Self {
        Self { left, right, advance: Box::new(advance), _kept: Box::new(kept) }
    }
}

/// Where two stores differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What drew the sequence.
    pub seed: u64,
    /// The shortest sequence found that tells them apart; the last operation does.
    pub operations: Vec<String>,
    /// What was asked.
    pub asked: String,
    /// What the left store answered.
    pub left: String,
    /// What the right store answered.
    pub right: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} tells the stores apart:", self.seed)?;
        for (number, operation) in self.operations.iter().enumerate() {
            writeln!(f, "{number:4} {operation}")?;
        }
        write!(f, "{}\n  left:  {}\n  right: {}", self.asked, self.left, self.right)
    }
}

/// What a whole sequence tells.
#[derive(Debug)]
struct Found {
    /// The operation that told them apart.
    at: usize,
    told: play::Told,
}

/// Runs the sequence of `length` operations that `seed` draws on a fresh pair of stores.
///
/// # Errors
/// Where they differ, by the shortest sequence that was found.
pub async fn compare<M>(make: impl Fn() -> M, seed: u64, length: usize) -> Result<(), Box<Difference>>
where
    M: Future<Output = Pair>,
{
    let mut dice = Dice::new(seed);
    let mut operations: Vec<Op> = (0..length).map(|_| Op::draw(&mut dice)).collect();
    let Some(mut found) = run(make().await, &operations).await else { return Ok(()) };
    operations.truncate(found.at + 1);
    let mut cut = operations.len() / 2;
    while cut > 0 {
        let mut from = 0;
        while from < operations.len() {
            let mut fewer = operations.clone();
            fewer.drain(from..operations.len().min(from + cut));
            match run(make().await, &fewer).await {
                Some(still) => {
                    fewer.truncate(still.at + 1);
                    (operations, found) = (fewer, still);
                }
                None => from += cut,
            }
        }
        cut /= 2;
    }
    let play::Told { asked, left, right } = found.told;
    let operations = operations.iter().map(|op| format!("{op:?}")).collect();
    Err(Box::new(Difference { seed, operations, asked, left, right }))
}

/// Runs operations until the stores differ.
async fn run(pair: Pair, operations: &[Op]) -> Option<Found> {
    let mut play = Play::new(pair);
    for (at, op) in operations.iter().enumerate() {
        if let Err(told) = play.step(op).await {
            return Some(Found { at, told });
        }
    }
    let at = operations.len().saturating_sub(1);
    play.look_at_everything().await.err().map(|told| Found { at, told })
}
