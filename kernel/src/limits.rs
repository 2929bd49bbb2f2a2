//! Every bound in the system, in one table (RC-10): what a size, a count or a wait may at
//! most be, unit last in the name.

/// Canonical bytes of a payload (EV-7).
pub const PAYLOAD_BYTES_MAX: usize = 4096;
/// Canonical bytes of an event body (EV-7).
pub const EVENT_BYTES_MAX: usize = 8192;
/// Canonical bytes of a text that stays inline in an event (EV-7).
pub const INLINE_BYTES_MAX: usize = 1024;
/// Bytes of an identifier.
pub const ID_BYTES_MAX: usize = 255;
/// Calls that one `DecisionRecorded` lists; further ones are answered "too many calls" (EV-7).
pub const CALLS_MAX: usize = 32;
/// Alternatives of one wake condition (section 8 of the design).
pub const WAKE_ALTERNATIVES_MAX: usize = 8;
/// References that a `ContextPlanComposed` names (MO-4).
pub const PLAN_REFS_MAX: usize = 16;
/// Entries of a sealed list segment (SN-7).
pub const SEGMENT_ITEMS: usize = 128;
/// Events since the last snapshot from which a suspend or an end writes one (SN-3).
pub const SNAPSHOT_EVENTS_MIN: u64 = 16;
/// Consecutive tool rounds after which a snapshot is written (SN-3).
pub const SNAPSHOT_ROUNDS: u32 = 20;
/// Bytes of an inbox item; larger ones are refused at `deliver`.
pub const ITEM_BYTES_MAX: usize = 16 << 20;
/// Bytes of one content body; larger ones are refused at `put`.
pub const CONTENT_BYTES_MAX: usize = 256 << 20;
/// Bytes of a file that are kept before it is changed, so that a rewind can put it back; a
/// larger one is named and left (SN-5).
pub const PREIMAGE_BYTES_MAX: u64 = 1 << 20;
/// Background jobs of one task that run at once; a call that would start another is refused.
pub const JOBS_MAX: usize = 8;
/// Canonical bytes of the line that says what a background job runs.
pub const JOB_WHAT_BYTES_MAX: usize = 2048;
/// Bytes of a background job's output that are kept: the last ones.
pub const JOB_OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Background jobs that have ended and whose output an agent can still ask for; older ones are in
/// the log alone.
pub const JOBS_KEPT_MAX: usize = 16;
/// Bytes of a failure's detail kept inline; longer ones are cut.
pub const DETAIL_BYTES_MAX: usize = 900;

/// Tries of one model request that end in an error worth retrying (MO-3).
pub const MODEL_TRIES_MAX: u32 = 9;
/// First back-off between such tries; it doubles from there (MO-3).
pub const MODEL_BACKOFF_MIN_MS: u64 = 500;
/// Longest back-off between such tries, unless the provider asks for longer (MO-3).
pub const MODEL_BACKOFF_MAX_MS: u64 = 30_000;
/// Longest wait that a provider's retry-after is honoured for.
pub const MODEL_RETRY_AFTER_MAX_MS: u64 = 3_600_000;
/// Model requests in a row that ended without any answer, as by a crash (RC-1).
pub const MODEL_INTERRUPTIONS_MAX: u32 = 3;
/// Starts of one retry-safe tool call (RC-2).
pub const TOOL_STARTS_MAX: u32 = 3;
/// Seals of attempts in a row at which the task parks, whatever its agent chose (RC-3).
pub const SEALS_MAX: u32 = 3;
/// Calls of unknown outcome that a person can still settle; older ones are forgotten.
pub const UNKNOWN_CALLS_MAX: usize = 32;
/// Truncated replies in a row that fail the turn (RC-7).
pub const TRUNCATED_REPLIES_MAX: u32 = 3;
/// Empty replies in a row that end the turn with an empty answer (RC-7).
pub const EMPTY_REPLIES_MAX: u32 = 3;
/// Internal errors in a row that fail an interactive task (RC-7).
pub const INTERNAL_ERRORS_MAX: u32 = 2;
/// Claims without an append from which the next claim waits (ST-18).
pub const IDLE_CLAIMS_FREE: u32 = 3;
/// Claims without an append at which a task is blocked as poison (ST-18).
pub const IDLE_CLAIMS_MAX: u32 = 10;
/// First wait after an idle claim; it doubles from there (ST-18).
pub const IDLE_BACKOFF_MIN_MS: u64 = 1_000;
/// Longest wait after an idle claim (ST-18).
pub const IDLE_BACKOFF_MAX_MS: u64 = 30_000;
/// How long `run` and `worker --until-idle` go on without a committed append while the
/// store is unavailable (ST-10).
pub const UNAVAILABLE_MAX_MS: u64 = 30_000;
/// Events that an observer is shown at most before its place in the log is on record again (EN-5).
pub const OBSERVED_EVENTS_MAX: u64 = 256;
/// Claims in a row by one worker that lacks a plugin in force, at which the task fails (RC-8).
pub const PLUGIN_CLAIMS_MAX: u32 = 3;
/// How long a worker leaves a task alone whose log it cannot read (RC-9).
pub const NEWER_VERSION_REST_MS: u64 = 600_000;
/// How long a model back-off is waited out while holding the claim; longer ones hand back.
pub const BACKOFF_HELD_MAX_MS: u64 = 30_000;
/// Commits tried again after a conflict that only means "look again" (InboxMoved).
pub const RECONSIDER_MAX: u32 = 1_000;
/// Moves in a row that may come before something outside is needed, for each item that there is and
/// as many besides.
pub const MOVES_MAX: usize = 256;
/// Reads of one unknown commit's fate before the claim is taken as lost (ST-9).
pub const READBACK_TRIES_MAX: u32 = 5;
/// Depth of subtasks below a root.
pub const TASK_DEPTH_MAX: u32 = 8;
/// Children that one task may spawn in its life.
pub const SUBTASKS_MAX: u64 = 1_000;
/// Tasks below one root, at any depth, from which on none of them spawns another. They are counted
/// when a reply asks for children, so replies at the same moment may overshoot it by their calls.
pub const TREE_TASKS_MAX: u64 = 4_000;
/// Bytes of the kind of an event that is waited for.
pub const EVENT_KIND_BYTES_MAX: usize = 96;
/// Canonical bytes of the kinds of events that the waits of one reply name, all together: a
/// decision that lists 32 calls has to fit a payload.
pub const EVENT_KINDS_BYTES_MAX: usize = 1_400;
/// Longest wait for a time, in seconds: a hundred years.
pub const WAIT_SECONDS_MAX: u64 = 3_155_760_000;
/// Age of a batch from which its bodies are put again before the append (CO-2).
pub const BODY_AGE_MAX_MS: u64 = 3_600_000;
/// How old a body may be before putting it again has to renew its age: one that many put at once
/// need not be written each time (CO-1).
pub const AGE_STEP_MAX_MS: u64 = 60_000;
/// How long ago content must have been put at least to be removed, unless another time is asked
/// for (CO-3).
pub const GRACE_MS: u64 = 86_400_000;
/// The shortest such time: well beyond the age at which a writer puts a body again that it has
/// not cited yet.
pub const GRACE_MIN_MS: u64 = 2 * BODY_AGE_MAX_MS;
/// Bytes of content that one transaction removes, a larger body apart: so long do others wait.
pub const REMOVED_BYTES_MAX: u64 = 16 << 20;

/// The wait before the claim that follows `idle` claims without an append (ST-18): none for
/// the first two, then 1, 2, 4 … 30 s. `idle` counts the claim just made.
pub const fn idle_backoff_ms(idle: u32) -> u64 {
    if idle < IDLE_CLAIMS_FREE {
        return 0;
    }
    let shift = idle - IDLE_CLAIMS_FREE;
    let wait = if shift >= 5 { IDLE_BACKOFF_MAX_MS } else { IDLE_BACKOFF_MIN_MS << shift };
    if wait > IDLE_BACKOFF_MAX_MS { IDLE_BACKOFF_MAX_MS } else { wait }
}

/// The back-off after the `attempt`-th failed try of a model request, before jitter (MO-3).
pub const fn model_backoff_ms(attempt: u32) -> u64 {
    let shift = if attempt > 7 { 7 } else { attempt.saturating_sub(1) };
    let wait = MODEL_BACKOFF_MIN_MS << shift;
    if wait > MODEL_BACKOFF_MAX_MS { MODEL_BACKOFF_MAX_MS } else { wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rc_10_back_offs_are_bounded() {
        let idle: alloc::vec::Vec<u64> = (0..11).map(idle_backoff_ms).collect();
        assert_eq!(idle, [0, 0, 0, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        let model: alloc::vec::Vec<u64> = (1..10).map(model_backoff_ms).collect();
        assert_eq!(model, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        assert_eq!(model_backoff_ms(u32::MAX), 30_000);
        assert_eq!(idle_backoff_ms(u32::MAX), 30_000);
    }
}
