//! What became of each file, from changes whose times are known to within a call.
//!
//! A call changes a file at some time between its start and its outcome on record, and a rewind
//! puts it back between its plan and its end. Changes that were under way at the same time are
//! put in order by what each of them found and left.

use std::collections::BTreeMap;

use plica_kernel::canonical::Hash;
use plica_kernel::event::FileWas;
use plica_kernel::id::{CallId, Seq, TaskId};
use plica_kernel::time::Timestamp;

use super::chain::chain;

/// A file: its workspace and its path in it.
pub(super) type Place = (String, String);

/// When an event was recorded; in one log, its order too.
pub(super) type When = (Timestamp, Seq);

/// A change of a file.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// Before this it had not happened.
    pub(super) from: When,
    /// After this it had.
    pub(super) until: When,
    /// Whose change it is, when it is a call's.
    pub(super) by: Option<(TaskId, CallId)>,
    pub(super) place: Place,
    pub(super) before: FileWas,
    pub(super) after: FileWas,
    /// Whether it may not have happened.
    pub(super) foreseen: bool,
}

/// What became of one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// What it held before the first change.
    pub(super) first: FileWas,
    /// What it may hold after the last: one that was foreseen may not have happened, and which of
    /// several at once was the last need not be known.
    pub(super) last: Vec<FileWas>,
}

impl Span {
    /// What the file that now holds what has this hash was left as.
    pub(super) fn left_as(&self, now: Option<Hash>) -> Option<&FileWas> {
        self.last.iter().find(|was| was.hash() == Some(now))
    }

    /// Of changes that are in order of when they may have begun.
    fn of(changes: &[&Change]) -> Option<Self> {
        let mut span: Option<Self> = None;
        for group in at_once(changes) {
            let span = span.get_or_insert_with(|| {
                let first = in_order(group).map_or(&group[0].before, |order| &order[0].before).clone();
                Self { last: vec![first.clone()], first }
            });
            span.add(group);
        }
        span
    }

    fn add(&mut self, group: &[&Change]) {
        let (foreseen, made): (Vec<&Change>, Vec<&Change>) = group.iter().partition(|change| change.foreseen);
        let ended = match (in_order(&made), made.iter().map(|change| change.from).max()) {
            (Some(order), _) => order.last().into_iter().map(|change| change.after.clone()).collect(),
            (None, Some(begun)) => {
                made.iter().filter(|change| change.until >= begun).map(|change| change.after.clone()).collect()
            }
            (None, None) => std::mem::take(&mut self.last),
        };
        self.last = ended;
        self.last.extend(foreseen.into_iter().map(|change| change.after.clone()));
    }
}

/// What became of each file from the first change to the last.
pub(super) fn by_file(changes: &[Change]) -> BTreeMap<Place, Span> {
    let mut files: BTreeMap<&Place, Vec<&Change>> = BTreeMap::new();
    for change in changes {
        files.entry(&change.place).or_default().push(change);
    }
    let span = |(place, mut changes): (&Place, Vec<&Change>)| {
        changes.sort_by_key(|change| (change.from, &change.by, change.until));
        Some((place.clone(), Span::of(&changes)?))
    };
    files.into_iter().filter_map(span).collect()
}

/// The changes in groups, such that all of one had happened before any of the next.
fn at_once<'a, 'b>(changes: &'b [&'a Change]) -> impl Iterator<Item = &'b [&'a Change]> {
    let mut rest = changes;
    std::iter::from_fn(move || {
        let mut until = rest.first()?.until;
        let mut count = 0;
        while let Some(next) = rest.get(count)
            && next.from <= until
        {
            until = until.max(next.until);
            count += 1;
        }
        let (group, others) = rest.split_at(count);
        rest = others;
        Some(group)
    })
}

/// The changes in the order in which they happened, as far as it can be told: each starts with
/// what the one before it left. `None` when there are none or no such order.
fn in_order<'a>(changes: &[&'a Change]) -> Option<Vec<&'a Change>> {
    let held = changes.iter().map(|change| Some((change.before.hash()?, change.after.hash()?)));
    let order = chain(&held.collect::<Option<Vec<_>>>()?)?;
    (!order.is_empty()).then(|| order.into_iter().map(|next| changes[next]).collect())
}

#[cfg(test)]
mod tests {
    use plica_kernel::canonical::content_hash;

    use super::*;

    fn held(letter: &str) -> FileWas {
        if letter == "-" { FileWas::Absent } else { FileWas::Large(content_hash(letter.as_bytes())) }
    }

    /// `0-3 ab`: from 0 to 3, what was and what then was, a letter each; `-` is no file; with `?`
    /// it may not have happened.
    fn change(text: &str) -> Change {
        let (times, what) = text.split_once(' ').unwrap();
        let (from, until) = times.split_once('-').unwrap();
        let when = |time: &str| (Timestamp::from_micros(time.parse().unwrap()), Seq(1));
        Change {
            from: when(from),
            until: when(until),
            by: None,
            place: (String::new(), "file".into()),
            before: held(&what[..1]),
            after: held(&what[1..2]),
            foreseen: what.ends_with('?'),
        }
    }

    #[test]
    fn sn_5_what_a_file_may_hold_follows_from_when_each_change_may_have_happened() {
        for (changes, first, last) in [
            (&["0-1 ab"][..], "a", &["b"][..]),
            (&["0-1 ab", "2-3 bc"], "a", &["c"]),
            // Cut off: it happened or it did not.
            (&["0-1 ab?"], "a", &["a", "b"]),
            (&["0-1 ab", "2-3 bc?"], "a", &["b", "c"]),
            (&["0-1 ab?", "2-3 bc"], "a", &["c"]),
            // Put back while a call that was cut off was under way: it may have come after.
            (&["0-1 ab", "2-5 bc?", "3-4 ba"], "a", &["a", "c"]),
            // At once, and on record in another order than they happened in.
            (&["0-9 ab", "1-8 bc"], "a", &["c"]),
            (&["0-9 bc", "1-8 ab"], "a", &["c"]),
            (&["0-9 -b", "1-2 bc", "3-4 cd"], "-", &["d"]),
            (&["0-9 cd", "1-2 -b", "3-4 bc"], "-", &["d"]),
            // The call that was cut off was the first, or lay between the others.
            (&["0-9 bc", "1-8 ab?"], "a", &["c", "b"]),
            // Someone else was at it between them: any of those at once may have been the last.
            (&["0-9 ab", "1-8 cd"], "a", &["b", "d"]),
            (&["0-9 ab", "1-2 cd", "5-8 ef"], "a", &["b", "f"]),
            (&["0-1 ab", "2-3 cd"], "a", &["d"]),
        ] {
            let changes: Vec<Change> = changes.iter().map(|text| change(text)).collect();
            let spans = by_file(&changes);
            let span = spans.values().next().unwrap();
            let last: Vec<FileWas> = last.iter().map(|letter| held(letter)).collect();
            assert_eq!((&span.first, &span.last), (&held(first), &last), "{changes:?}");
        }
    }
}
