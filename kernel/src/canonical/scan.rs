//! Finding the end of plain text, and copying as far as there, eight bytes at a time.

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// Bytes before the first quote, backslash or control character: what stands in a string as
/// it is.
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<WORD>();
    for (index, word) in words.iter().enumerate() {
        let marks = special(u64::from_le_bytes(*word));
        if marks != 0 {
            return index * WORD + marks.trailing_zeros() as usize / 8;
        }
    }
    let stop = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    words.len() * WORD + rest.iter().position(stop).unwrap_or(rest.len())
}

/// Bytes that are looked at together.
pub(super) const WORD: usize = 8;

/// Copies what stands in a string as it is to `to`, as far as there is room; how many bytes, and
/// whether plain text ended there. Up to a word more of `to` may be written than that.
pub(super) fn copy_plain(from: &[u8], to: &mut [u8]) -> (usize, bool) {
    let (words, _) = from.as_chunks::<WORD>();
    let (rooms, _) = to.as_chunks_mut::<WORD>();
    let whole = words.len().min(rooms.len());
    for (index, (word, room)) in words.iter().zip(rooms).enumerate() {
        *room = *word;
        let marks = special(u64::from_le_bytes(*word));
        if marks != 0 {
            return (index * WORD + marks.trailing_zeros() as usize / 8, true);
        }
    }
    let done = words[..whole].as_flattened().len();
    // One byte beyond the room is enough to know that plain text goes on.
    let rest = &from[done..from.len().min(to.len() + 1)];
    let plain = plain_len(rest);
    let fits = plain.min(to.len() - done);
    to[done..done + fits].copy_from_slice(&rest[..fits]);
    (done + fits, fits == plain)
}

/// Whether any byte of a word cannot stand in a string as it is.
pub(super) fn has_special(word: [u8; WORD]) -> bool {
    special(u64::from_le_bytes(word)) != 0
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

    /// Every length of plain text meets every room, with and without an end behind it.
    #[test]
    fn ev_1_plain_text_is_copied_into_any_room() {
        for (len, room) in (0..=36).flat_map(|len| (0..=36).map(move |room| (len, room))) {
            for end in [&b""[..], b"\"", b"\\more than a word of text"] {
                let from = [&b"0123456789abcdefghijklmnopqrstuvwxyz"[..len], end].concat();
                let mut to = std::vec![0; room];
                let (copied, ended) = copy_plain(&from, &mut to);
                assert_eq!(to[..copied], from[..copied]);
                assert!(copied == len || (copied < len && copied + WORD > room), "{copied} of {len} into {room}");
                // Where the room ends within a word of the end, a further look may be needed to see it.
                assert!(if ended { copied == len } else { copied + WORD > room }, "{copied} of {len} into {room}");
                assert!(ended || len + end.len() > room, "{copied} of {len} into {room}");
            }
        }
    }

    proptest! {
        #[test]
        fn ev_1_plain_text_ends_where_a_byte_by_byte_search_ends_it(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"\"\\\x1f\x20\x21\x80"[..])], 0..40)
        ) {
            let slow = bytes.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
            prop_assert_eq!(plain_len(&bytes), slow.unwrap_or(bytes.len()));
        }

        #[test]
        fn ev_1_plain_text_is_copied_as_far_as_there_is_room(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"\"\\\x1f\x20\x21\x80"[..])], 0..40),
            room in 0..48usize,
        ) {
            let mut to = std::vec![0; room];
            let (copied, ended) = copy_plain(&bytes, &mut to);
            prop_assert_eq!(&to[..copied], &bytes[..copied]);
            prop_assert!(copied <= plain_len(&bytes));
            prop_assert!(!ended || copied == plain_len(&bytes));
            prop_assert!(ended || copied + WORD > room);
        }
    }
}
