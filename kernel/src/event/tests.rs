use alloc::{string::ToString, vec, vec::Vec};

use super::*;
use crate::body::{Body, ContentRef, MEDIA_BYTES};
use crate::canonical::{Hash, to_vec};

fn of_all(holds: fn(EventType) -> bool) -> Vec<&'static str> {
    EventType::ALL.iter().filter(|kind| holds(**kind)).map(|kind| kind.name()).collect()
}

/// Section 5: the names are recorded, so each is its type's alone.
#[test]
fn ev_8_every_type_is_found_by_its_name() {
    assert_eq!(EventType::ALL.len(), 55);
    for kind in EventType::ALL {
        assert_eq!((EventType::named(kind.name()), kind.to_string().as_str()), (Some(*kind), kind.name()));
    }
    assert_eq!(["", "taskCreated", "TaskAdjourned"].map(EventType::named), [None; 3]);
    assert_eq!(EventType::ALL.iter().filter(|kind| kind.is_readable()).count(), 40);
}

#[test]
fn fo_4_what_ends_a_task_and_what_may_follow() {
    assert_eq!(of_all(EventType::is_terminal), ["TaskCompleted", "TaskFailed", "TaskCancelled"]);
    let follow = [
        "TaskSnapshot",
        "TaskRewound",
        "LateResultRecorded",
        "ExtensionRecorded",
        "ConversationClosed",
        "ConversationReopened",
        "ArtifactRetired",
        "ArtifactPurged",
        "EffectResolved",
        "RetentionChanged",
        "CheckpointRecorded",
    ];
    assert_eq!(of_all(EventType::may_follow_end), follow);
}

#[test]
fn st_11_where_a_fold_starts_or_turns() {
    let baselines = ["TaskForked", "TaskSnapshot", "TaskRewound", "StepAttemptAbandoned"];
    assert_eq!(of_all(EventType::is_baseline), baselines);
}

/// A payload is read as what its type says, from canonical bytes alone.
#[test]
fn ev_8_a_payload_is_of_its_type() {
    let cancelled = Payload::from(TaskCancelled { reason: None });
    let bytes = to_vec(&cancelled).unwrap();
    assert_eq!((cancelled.kind(), bytes.as_slice()), (EventType::TaskCancelled, &b"{}"[..]));
    assert_eq!(Payload::decode(EventType::TaskCancelled, &bytes), Ok(cancelled));
    assert!(Payload::decode(EventType::TaskFailed, &bytes).is_err());
    assert!(Payload::decode(EventType::TaskCancelled, b"{ }").is_err());
    let reserved = Payload::decode(EventType::Compacted, &bytes);
    assert_eq!(reserved, Err(CanonicalError::Unrepresentable("Compacted".into())), "only a name");
}

fn caps(nano_usd: u64, steps: u64, tokens: u64, wall_ms: u64) -> Budget {
    Budget { nano_usd: Some(nano_usd), steps: Some(steps), tokens: Some(tokens), wall_ms: Some(wall_ms) }
}

const fn spent(nano_usd: u64, steps: u64, tokens: u64, wall_ms: u64) -> Spent {
    Spent { nano_usd, steps, tokens, wall_ms }
}

/// EN-4: each dimension by itself; no cap stays no cap, and no sum is beyond what can be written.
#[test]
fn en_4_budgets_are_counted_dimension_by_dimension() {
    let none = Budget::default();
    let one = Budget { steps: Some(5), ..none };
    assert!(none.is_unlimited() && !one.is_unlimited() && !caps(0, 0, 0, 0).is_unlimited());
    assert_eq!(Budget::all(spent(1, 2, 3, 4)), caps(1, 2, 3, 4));
    assert_eq!(caps(10, 20, 30, 40).less(spent(1, 2, 3, 4)), caps(9, 18, 27, 36));
    assert_eq!(caps(1, 1, 1, 1).less(spent(1, 2, 0, 9)), caps(0, 0, 1, 0), "never below nothing");
    assert_eq!(one.less(spent(9, 2, 9, 9)), Budget { steps: Some(3), ..none });
    assert_eq!(caps(1, 2, 3, 4).raised_by(caps(10, 20, 30, 40)), caps(11, 22, 33, 44));
    assert_eq!((caps(1, 2, 3, 4).raised_by(one), one.raised_by(none)), (caps(1, 7, 3, 4), one));
    assert_eq!(none.raised_by(one), none, "what has no cap gets none");
    let most = (1 << 53) - 1;
    assert_eq!(caps(most - 1, most, 0, 1).raised_by(caps(1, 1, most, most)), caps(most, most, most, most));
    assert_eq!(caps(1, 2, 3, 4).zip(one, |mine, theirs| theirs.or(mine)), caps(1, 5, 3, 4));
    assert_eq!(spent(1, 2, 3, 4).plus(spent(10, 20, 30, 40)), spent(11, 22, 33, 44));
    assert_eq!(spent(u64::MAX, 0, 0, 0).plus(spent(1, 0, 0, 0)), spent(u64::MAX, 0, 0, 0));
    assert_eq!((Spent::from(one), Spent::from(caps(1, 2, 3, 4))), (spent(0, 5, 0, 0), spent(1, 2, 3, 4)));
}

#[test]
fn mo_1_input_is_what_was_read_from_the_prompt() {
    let usage = Usage { cache_read: 1, cache_write: 10, output: 100, reasoning: 50, uncached: 1_000 };
    assert_eq!((usage.input(), usage.is_zero()), (1_011, false));
    assert_eq!((Usage::default().input(), Usage::default().is_zero()), (0, true));
    assert!(!Usage { reasoning: 1, ..Usage::default() }.is_zero());
}

#[test]
fn rc_11_reasons_and_ends_have_their_words() {
    let reasons = [
        (FailureReason::LlmError, "llm_error"),
        (FailureReason::LlmTruncated, "llm_truncated"),
        (FailureReason::Budget, "budget"),
        (FailureReason::InternalError, "internal_error"),
        (FailureReason::ContentError, "content_error"),
        (FailureReason::PluginMissing, "plugin_missing"),
        (FailureReason::DefinitionError, "definition_error"),
    ];
    for (reason, word) in reasons {
        assert_eq!(reason.to_string(), word);
        assert_eq!(to_vec(&reason).unwrap(), alloc::format!("\"{word}\"").into_bytes(), "as it is recorded");
    }
    for (end, word) in [(JobEnd::Exited, "exited"), (JobEnd::Killed, "killed"), (JobEnd::Lost, "lost")] {
        assert_eq!((end.name(), end.to_string().as_str()), (word, word));
        assert_eq!(to_vec(&end).unwrap(), alloc::format!("\"{word}\"").into_bytes());
    }
}

/// RC-8: a plugin is known by its kind and name, whatever its version.
#[test]
fn rc_8_another_version_is_the_same_plugin() {
    let pin = |kind, name: &str, version: &str| PluginPin {
        kind,
        name: name.into(),
        parameters: None,
        source: version.into(),
        version: version.into(),
    };
    let tool = pin(PluginKind::Tool, "Read", "1");
    assert!(tool.is_same_plugin(&pin(PluginKind::Tool, "Read", "2")));
    assert!(!tool.is_same_plugin(&pin(PluginKind::Guard, "Read", "1")));
    assert!(!tool.is_same_plugin(&pin(PluginKind::Tool, "Write", "1")));
}

/// SN-5: what a file held is known by its hash, and can be put back when it was kept.
#[test]
fn sn_5_what_a_file_held() {
    let kept = ContentRef::of(MEDIA_BYTES, b"kept");
    let large = Hash::from_bytes([7; 32]);
    for (was, hash, reference) in [
        (FileWas::Absent, Some(None), None),
        (FileWas::Kept(kept.clone()), Some(Some(kept.sha256)), Some(&kept)),
        (FileWas::Large(large), Some(Some(large)), None),
        (FileWas::Unknown, None, None),
    ] {
        assert_eq!((was.hash(), was.reference()), (hash, reference));
    }
}

/// CO-3: pre-images and paths of files are content that an event cites.
#[test]
fn co_3_files_of_a_call_are_cited() {
    let (held, path) = (ContentRef::of(MEDIA_BYTES, b"held"), ContentRef::of("text/plain", b"a/long/path"));
    let change = |before, path| FileChange { after: None, before, path };
    let started = ToolCallStarted {
        args: Body::default(),
        attempt: 1,
        call: crate::id::CallId { decision: crate::id::Seq(7), index: 0 },
        files: vec![
            change(FileWas::Kept(held.clone()), Body::Inline("a".into())),
            change(FileWas::Absent, Body::Ref(path.clone())),
        ],
        tool: "Write".into(),
    };
    assert_eq!(Payload::from(started).references(), [&held, &path]);
}
