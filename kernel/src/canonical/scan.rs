//! Finding the end of plain text, eight bytes at a time.

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// Bytes before the first quote, backslash or control character: what stands in a string as
/// it is.
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marks = special(u64::from_le_bytes(*word));
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let stop = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    words.len() * 8 + rest.iter().position(stop).unwrap_or(rest.len())
}

/// A mark on the high bit of each byte that is special. Bytes above a marked one may be marked
/// falsely, by the borrow of the subtraction; the lowest mark is always true.
const fn special(word: u64) -> u64 {
    below(word ^ (ONES * b'"' as u64), 1) | below(word ^ (ONES * b'\\' as u64), 1) | below(word, 0x20)
}

/// Marks the bytes below `bound`, which is at most 128.
const fn below(word: u64, bound: u64) -> u64 {
    word.wrapping_sub(ONES * bound) & !word & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ev_1_plain_text_ends_where_a_byte_by_byte_search_ends_it(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"\"\\\x1f\x20\x21\x80"[..])], 0..40)
        ) {
            let slow = bytes.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
            prop_assert_eq!(plain_len(&bytes), slow.unwrap_or(bytes.len()));
        }
    }
}
