//! The suite of the content store port (CO-1, CO-2, CO-3);
//! [`content_suite!`](crate::content_suite) makes a test of each function.

use std::time::Duration;

use plica_kernel::body::{Blob, ContentRef};
use plica_kernel::canonical::Hash;
use plica_kernel::limits::AGE_STEP_MAX_MS;
use plica_kernel::time::Timestamp;
use plica_ports::{ContentError, ContentStore, KeptBody, Removed};

use crate::ContentSubject;

/// The one list of the content suite.
#[doc(hidden)]
#[macro_export]
macro_rules! with_content_clauses {
    ([$($then:tt)+], $($context:tt)*) => {
        $($then)+! { $($context)*;
            content:
                co_1_what_is_put_comes_back,
                co_1_putting_twice_is_putting_once,
                co_1_what_was_never_put_is_missing,
                co_1_only_hash_and_size_count,
                co_1_a_body_that_is_not_its_references_is_refused,
                co_1_a_damaged_body_is_corrupt,
                co_2_racing_puts_all_land,
                co_3_what_is_old_is_listed_in_pages,
                co_3_what_is_removed_is_gone_and_counted,
                co_3_a_body_that_is_put_again_stays,
                co_3_what_is_put_beside_a_removal_is_there;
        }
    };
}

/// Makes a test of every clause of the content suite; `$make` names an
/// `async fn() -> ContentSubject` that returns a fresh, empty content store at every call.
#[macro_export]
macro_rules! content_suite {
    ($make:path) => {
        mod content {
            $crate::with_content_clauses!([$crate::tests_of], content, $make);
        }
    };
}

fn blob(bytes: impl Into<Vec<u8>>) -> Blob {
    Blob::new("text/plain; charset=utf-8", bytes.into())
}

/// CO-1: what was put comes back byte for byte: empty, binary and large bodies too.
pub async fn co_1_what_is_put_comes_back(subject: ContentSubject) {
    let large: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    for blob in [blob(""), blob(b"\0\xff\r\n'".to_vec()), blob("text"), blob(large)] {
        subject.content().put(&blob).await.expect("a body is kept");
        assert_eq!(subject.content().get(&blob.reference).await, Ok(blob.bytes));
    }
}

/// CO-1: putting what exists is no error and changes nothing.
pub async fn co_1_putting_twice_is_putting_once(subject: ContentSubject) {
    let blob = blob("twice");
    for _ in 0..3 {
        subject.content().put(&blob).await.expect("a body is kept");
        assert_eq!(subject.content().get(&blob.reference).await, Ok(blob.bytes.clone()));
    }
}

/// CO-1: nothing there is `Missing`, naming the reference.
pub async fn co_1_what_was_never_put_is_missing(subject: ContentSubject) {
    subject.content().put(&blob("there")).await.expect("a body is kept");
    let reference = blob("never put").reference;
    assert_eq!(subject.content().get(&reference).await, Err(ContentError::Missing(reference)));
}

/// CO-1: the media type is the reader's affair: a body is found under any.
pub async fn co_1_only_hash_and_size_count(subject: ContentSubject) {
    let blob = blob("{}");
    subject.content().put(&blob).await.expect("a body is kept");
    let reread = ContentRef { media: "application/json".into(), ..blob.reference.clone() };
    assert_eq!(subject.content().get(&reread).await, Ok(blob.bytes));
}

/// CO-1: a body whose bytes are not those of its reference, by hash or by size, is refused,
/// and nothing is there afterwards.
pub async fn co_1_a_body_that_is_not_its_references_is_refused(subject: ContentSubject) {
    let sound = blob("the body");
    let other_bytes = Blob { bytes: b"the BODY".to_vec(), ..sound.clone() };
    let other_size = Blob { reference: ContentRef { size: 3, ..sound.reference.clone() }, ..sound.clone() };
    for false_blob in [other_bytes, other_size] {
        let refused = subject.content().put(&false_blob).await;
        assert!(matches!(refused, Err(ContentError::Refused { .. })), "{refused:?}");
        let missing = subject.content().get(&sound.reference).await;
        assert_eq!(missing, Err(ContentError::Missing(sound.reference.clone())));
    }
}

/// CO-1: bytes that no longer have the hash they are stored under are `Corrupt`, naming the
/// reference, and never returned; others are untouched.
pub async fn co_1_a_damaged_body_is_corrupt(subject: ContentSubject) {
    let Some(damage) = subject.damage() else { return };
    let (spoiled, sound) = (blob("will be spoiled"), blob("will not"));
    for blob in [&spoiled, &sound] {
        subject.content().put(blob).await.expect("a body is kept");
    }
    damage(&spoiled.reference);
    let corrupt = subject.content().get(&spoiled.reference).await;
    assert_eq!(corrupt, Err(ContentError::Corrupt(spoiled.reference)));
    assert_eq!(subject.content().get(&sound.reference).await, Ok(sound.bytes));
}

/// CO-2: bodies put at the same time, some of them the same, are all there when their calls
/// have returned.
pub async fn co_2_racing_puts_all_land(subject: ContentSubject) {
    let putters: Vec<_> = (0..20)
        .map(|number| {
            let (subject, blob) = (subject.clone(), blob(format!("body {}", number / 2)));
            tokio::spawn(async move {
                subject.content().put(&blob).await.expect("a body is kept");
                assert_eq!(subject.content().get(&blob.reference).await, Ok(blob.bytes));
            })
        })
        .collect();
    for putter in putters {
        putter.await.expect("the putter ends well");
    }
}

/// Lets what was put so far grow old; a time between its age and that of whatever is put from now
/// on. `None` when the clock cannot be moved.
async fn grown_old(subject: &ContentSubject) -> Option<Timestamp> {
    let advance = subject.time()?;
    advance(Duration::from_millis(2 * AGE_STEP_MAX_MS));
    Some(subject.content().clock().await.expect("a clock can be read"))
}

async fn put_all(content: &dyn ContentStore, bodies: &[Blob]) {
    for body in bodies {
        content.put(body).await.expect("a body is kept");
    }
}

fn bodies(count: u32) -> Vec<Blob> {
    (0..count).map(|number| blob(format!("body {number}"))).collect()
}

fn hashes(bodies: &[Blob]) -> Vec<Hash> {
    bodies.iter().map(|body| body.reference.sha256).collect()
}

/// CO-3: what was last put before a time is listed by ascending hash, page by page; what was put
/// since, for the first time or again, is not.
pub async fn co_3_what_is_old_is_listed_in_pages(subject: ContentSubject) {
    let content = subject.content();
    let old = bodies(7);
    put_all(content, &old).await;
    let Some(before) = grown_old(&subject).await else { return };
    put_all(content, &old[..1]).await;
    put_all(content, &[blob("young")]).await;

    let mut expected: Vec<KeptBody> =
        old[1..].iter().map(|body| KeptBody { sha256: body.reference.sha256, size: body.reference.size }).collect();
    expected.sort_by_key(|body| body.sha256);
    let mut found = Vec::new();
    loop {
        let after = found.last().map(|last: &KeptBody| last.sha256);
        let page = content.aged(before, after.as_ref(), 4).await.expect("bodies can be listed");
        let is_full = page.len() == 4;
        found.extend(page);
        if !is_full {
            break;
        }
    }
    assert_eq!(found, expected);
    let nothing = content.aged(Timestamp::from_micros(1), None, 4).await;
    assert_eq!(nothing, Ok(Vec::new()), "nothing is as old as that");
}

/// CO-3: what is old and named goes, and what that freed is told; others stay, what is not
/// there is passed over, and doing it again frees nothing.
pub async fn co_3_what_is_removed_is_gone_and_counted(subject: ContentSubject) {
    let content = subject.content();
    let (gone, stays) = (bodies(3), blob("stays"));
    put_all(content, &gone).await;
    put_all(content, std::slice::from_ref(&stays)).await;
    let Some(before) = grown_old(&subject).await else { return };
    let mut named = hashes(&gone);
    named.push(blob("never put").reference.sha256);
    let bytes = gone.iter().map(|body| body.reference.size).sum();
    assert_eq!(content.remove(&named, before).await, Ok(Removed { bodies: 3, bytes }));
    for body in gone {
        assert_eq!(content.get(&body.reference).await, Err(ContentError::Missing(body.reference)));
    }
    assert_eq!(content.get(&stays.reference).await, Ok(stays.bytes));
    assert_eq!(content.remove(&named, before).await, Ok(Removed::default()));
    assert_eq!(content.remove(&[], before).await, Ok(Removed::default()));
}

/// CO-3, CO-1: a body that was put again since it was listed stays; one that is put after it
/// was removed is there again.
pub async fn co_3_a_body_that_is_put_again_stays(subject: ContentSubject) {
    let content = subject.content();
    let body = blob("put again");
    put_all(content, std::slice::from_ref(&body)).await;
    let Some(before) = grown_old(&subject).await else { return };
    assert_eq!(content.aged(before, None, 9).await.map(|listed| listed.len()), Ok(1));
    put_all(content, std::slice::from_ref(&body)).await;
    assert_eq!(content.remove(&[body.reference.sha256], before).await, Ok(Removed::default()));
    assert_eq!(content.get(&body.reference).await, Ok(body.bytes.clone()));

    let Some(later) = grown_old(&subject).await else { return };
    let freed = Removed { bodies: 1, bytes: body.reference.size };
    assert_eq!(content.remove(&[body.reference.sha256], later).await, Ok(freed));
    put_all(content, std::slice::from_ref(&body)).await;
    assert_eq!(content.get(&body.reference).await, Ok(body.bytes));
}

/// CO-3: removal beside writers loses nothing that they have put since.
pub async fn co_3_what_is_put_beside_a_removal_is_there(subject: ContentSubject) {
    let all = bodies(40);
    put_all(subject.content(), &all).await;
    let Some(before) = grown_old(&subject).await else { return };
    let removers: Vec<_> = (0..2)
        .map(|_| {
            let (subject, named) = (subject.clone(), hashes(&all));
            tokio::spawn(async move {
                let mut removed = 0;
                for _ in 0..10 {
                    for lot in named.chunks(7) {
                        removed += subject.content().remove(lot, before).await.expect("bodies are removed").bodies;
                    }
                }
                removed
            })
        })
        .collect();
    let putters: Vec<_> = all[..20]
        .iter()
        .cloned()
        .map(|body| {
            let subject = subject.clone();
            tokio::spawn(async move {
                subject.content().put(&body).await.expect("a body is kept");
                assert_eq!(subject.content().get(&body.reference).await, Ok(body.bytes), "it was put");
            })
        })
        .collect();
    for putter in putters {
        putter.await.expect("the putter ends well");
    }
    let mut removed = 0;
    for remover in removers {
        removed += remover.await.expect("the remover ends well");
    }
    assert!((20..=40).contains(&removed), "each is removed once at most, those that nobody put for sure: {removed}");
    for body in &all[..20] {
        assert_eq!(subject.content().get(&body.reference).await, Ok(body.bytes.clone()));
    }
}
