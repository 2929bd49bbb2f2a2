//! In which order changes of one file happened.
//!
//! Of changes that are made at once the outcomes go on record as they come, which need not be the
//! order in which each had the file. What each of them found and left tells.

use plica_kernel::canonical::Hash;

/// What a file held: its hash, or none when there was no file.
pub(super) type Held = Option<Hash>;

/// The order in which each of `changes`, from what was to what then was, starts with what the one
/// before it left. `None` when there is no such order. Where there are several the earlier ones of
/// `changes` go first; all of them begin and end alike, but for a round, which begins where the
/// first of `changes` does.
pub(super) fn chain(changes: &[(Held, Held)]) -> Option<Vec<usize>> {
    let starts = |held: Held| changes.iter().filter(|change| change.0 == held).count();
    let ends = |held: Held| changes.iter().filter(|change| change.1 == held).count();
    let begins = changes.iter().map(|change| change.0).find(|held| starts(*held) > ends(*held));
    let begin = begins.or(changes.first().map(|change| change.0))?;

    // A trail through every change once, by Hierholzer's way: where it comes to no further one, a
    // detour is taken from the last place that has one left.
    let mut used = vec![false; changes.len()];
    let mut path: Vec<(Held, Option<usize>)> = vec![(begin, None)];
    let mut trail = Vec::with_capacity(changes.len());
    while let Some(&(held, by)) = path.last() {
        match (0..changes.len()).find(|&index| !used[index] && changes[index].0 == held) {
            Some(index) => {
                used[index] = true;
                path.push((changes[index].1, Some(index)));
            }
            None => {
                path.pop();
                trail.extend(by);
            }
        }
    }
    trail.reverse();
    let whole = trail.len() == changes.len();
    let linked = trail.windows(2).all(|pair| changes[pair[0]].1 == changes[pair[1]].0);
    (whole && linked).then_some(trail)
}

#[cfg(test)]
mod tests {
    use plica_kernel::canonical::content_hash;

    use super::*;

    /// What was and what then was, a letter each; `-` is no file.
    fn order(changes: &[&str]) -> Option<Vec<usize>> {
        let held = |letter: &str| (letter != "-").then(|| content_hash(letter.as_bytes()));
        let changes: Vec<_> = changes.iter().map(|change| (held(&change[..1]), held(&change[1..]))).collect();
        chain(&changes)
    }

    #[test]
    fn sn_5_changes_are_in_the_order_in_which_each_starts_where_one_ended() {
        for (changes, expected) in [
            (&[][..], None),
            (&["ab"], Some(vec![0])),
            (&["ab", "bc"], Some(vec![0, 1])),
            (&["cd", "bc", "-b"], Some(vec![2, 1, 0])),
            // One that writes what is there already, and one that takes back what another did.
            (&["bb", "ab"], Some(vec![1, 0])),
            (&["ab", "ba", "ac"], Some(vec![0, 1, 2])),
            (&["ac", "ba", "ab"], Some(vec![2, 1, 0])),
            // A round begins where the first does.
            (&["ba", "ab"], Some(vec![0, 1])),
            // Someone else was at the file between them, or one of them was lost.
            (&["ab", "cd"], None),
            (&["ab", "ac"], None),
            (&["ab", "cd", "dc"], None),
        ] {
            assert_eq!(order(changes), expected, "{changes:?}");
        }
    }
}
