//! Draws from a seed.

/// A stream of numbers that is a function of its seed (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", SplitMix64).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is small.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// One of `choices`, by their weights.
    pub(crate) fn weighed<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let whole: usize = choices.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.below(whole);
        for (weight, choice) in choices {
            match drawn.checked_sub(*weight) {
                Some(left) => drawn = left,
                None => return *choice,
            }
        }
        unreachable!("a draw below the sum of the weights falls on one of them")
    }
}
