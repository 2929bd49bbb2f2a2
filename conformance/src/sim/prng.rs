//! Numbers drawn from a seed: the only source of chance in a simulated world.

use std::sync::{Mutex, PoisonError};

/// A stream of numbers that is a function of its seed (SplitMix64, by Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug)]
pub struct Prng(Mutex<u64>);

/// The golden ratio in 64 bits, SplitMix64's step.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Prng {
    /// The stream of `name` in the world of `seed`: streams of other names are independent of
    /// it, so that a draw more here changes nothing there.
    pub fn named(seed: u64, name: &str) -> Self {
        let folded = name.bytes().fold(mixed(seed ^ STEP), |state, byte| mixed(state ^ u64::from(byte)));
        Self(Mutex::new(folded))
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(STEP);
        mixed(*state)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&self, bound: u64) -> u64 {
        // The bias of the remainder is of no matter at these sizes.
        self.next() % bound.max(1)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Whether something happens that does so `per_mille` times in a thousand.
    pub fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of several.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).expect("an index fits")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_name_give_the_same_numbers() {
        let draw = |seed, name| (0..8).map(|_| 0).scan(Prng::named(seed, name), |prng, _: i32| Some(prng.next()));
        assert!(draw(1, "a").eq(draw(1, "a")));
        assert!(!draw(1, "a").eq(draw(2, "a")));
        assert!(!draw(1, "a").eq(draw(1, "b")));
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let prng = Prng::named(7, "bounds");
        assert!((0..1000).all(|_| (3..=5).contains(&prng.between(3, 5))));
        assert!((0..1000).all(|_| !prng.chance(0)));
        assert!((0..1000).all(|_| prng.chance(1000)));
    }
}
