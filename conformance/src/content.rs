//! The suite of the content store port (CO-1, CO-2);
//! [`content_suite!`](crate::content_suite) makes a test of each function.

use plica_kernel::body::{Blob, ContentRef};
use plica_ports::ContentError;

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
                co_2_racing_puts_all_land;
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
