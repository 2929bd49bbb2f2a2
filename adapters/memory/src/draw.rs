//! Tokens and ids, drawn from a seed.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use plica_kernel::canonical::content_hash;
use plica_kernel::id::{LedgerId, RunId};
use plica_ports::store::Token;

/// A source of secrets: each is the hash of the seed and how many came before.
#[derive(Debug)]
pub(crate) struct Draw {
    seed: [u8; 32],
    drawn: u64,
}

impl Draw {
    /// The same draws every time.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { seed: *content_hash(&seed.to_be_bytes()).as_bytes(), drawn: 0 }
    }

    /// Draws that nobody outside this process can guess: the seed is made of the keys with
    /// which the standard library seeds its hash maps from the system.
    pub(crate) fn from_system() -> Self {
        let keys: Vec<u8> = (0..4u64).flat_map(|part| RandomState::new().hash_one(part).to_be_bytes()).collect();
        Self { seed: *content_hash(&keys).as_bytes(), drawn: 0 }
    }

    fn bytes(&mut self) -> [u8; 32] {
        self.drawn += 1;
        *content_hash(&[&self.seed[..], &self.drawn.to_be_bytes()].concat()).as_bytes()
    }

    pub(crate) fn token(&mut self) -> Token {
        Token(self.bytes())
    }

    pub(crate) fn run(&mut self) -> RunId {
        RunId::new(self.uuid()).expect("a UUID is 36 characters, none of them white space")
    }

    pub(crate) fn ledger(&mut self) -> LedgerId {
        LedgerId::new(self.uuid()).expect("a UUID is 36 characters, none of them white space")
    }

    /// A UUID of version 8 (RFC 9562, section 5.8: made by a rule of one's own).
    fn uuid(&mut self) -> String {
        let mut bytes = self.bytes();
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes[..16].iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            // Writing to a String never fails.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_draws() {
        let (mut one, mut two, mut other) = (Draw::seeded(7), Draw::seeded(7), Draw::seeded(8));
        assert_eq!(one.run(), two.run());
        assert_eq!(one.token(), two.token());
        assert_ne!(one.token(), other.token());
        assert_ne!(one.token(), one.token());
        assert_ne!(Draw::from_system().token(), Draw::from_system().token());
    }

    #[test]
    fn ids_look_like_uuids() {
        let text = Draw::seeded(1).uuid();
        assert_eq!(text.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(&text[14..15], "8");
    }
}
