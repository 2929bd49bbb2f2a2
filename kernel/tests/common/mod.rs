//! What the laws are tried on: logs that the machine itself walked into, logs made by hand, and
//! a fold that goes by whichever snapshots it is allowed to see.

pub mod habits;
pub mod hand;
pub mod log;
pub mod scene;
pub mod world;

pub use habits::Habits;
pub use log::{Log, fold, fold_at, fold_with};
pub use world::World;

/// A generator of choices (splitmix64): a walk is its seed and its length and nothing else.
#[derive(Debug, Clone)]
pub struct Choices(u64);

impl Choices {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() % end as u64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
