//! Laws that hold for any log the machine can produce.

use std::collections::{BTreeMap, BTreeSet};

use plica_kernel::canonical::Hash;
use plica_kernel::cited::cited;
use plica_kernel::event::{Budget, CallResolution, Class, EventType, MessageOrigin, Payload, Role};
use plica_kernel::id::{CallId, Seq};
use plica_kernel::message::{Block, read_blocks};
use plica_kernel::row::Status;
use plica_kernel::snapshot;
use plica_kernel::state::{Entry, Task};
use proptest::prelude::*;

use crate::common::world::text_of;
use crate::common::{Choices, Habits, Log, World, fold, fold_with, log};

fn budget() -> impl Strategy<Value = Budget> {
    prop_oneof![
        4 => Just(Budget::default()),
        1 => (1..8u64).prop_map(|steps| Budget { steps: Some(steps), ..Budget::default() }),
        1 => (1..80u64).prop_map(|tokens| Budget { tokens: Some(tokens), ..Budget::default() }),
        1 => (1..50u64).prop_map(|nano_usd| Budget { nano_usd: Some(nano_usd), ..Budget::default() }),
        1 => (1..90u64).prop_map(|wall_ms| Budget { wall_ms: Some(wall_ms), ..Budget::default() }),
    ]
}

/// A walk: its seed, its length, and what it is allowed.
fn walk() -> impl Strategy<Value = World> {
    (any::<u64>(), 1..60usize, any::<bool>(), budget())
        .prop_map(|(seed, steps, interactive, budget)| World::walk(seed, steps, Habits::wild(interactive, budget)))
}

/// A walk that was brought to its end.
fn life() -> impl Strategy<Value = World> {
    walk().prop_map(|mut world| {
        world.finish();
        world
    })
}

/// How every call came out, by the events alone: what the model is to be told.
fn told(log: &Log) -> BTreeMap<CallId, Vec<String>> {
    let mut told: BTreeMap<CallId, Vec<String>> = BTreeMap::new();
    // What a call brings that runs again on a person's word is told in a message of its own.
    let mut again = BTreeSet::new();
    for event in log.envelopes() {
        match &event.payload {
            Payload::CallResolved(resolved) if resolved.verdict == CallResolution::NotLanded => {
                again.insert(resolved.call);
            }
            Payload::ToolCallFinished(finished) if again.contains(&finished.call) => {}
            Payload::ToolCallFinished(finished) if !finished.again => {
                told.entry(finished.call).or_default().push(log.text(&finished.output));
            }
            Payload::ToolCallDenied(denied) => {
                told.entry(denied.call).or_default().push(log.text(&denied.reason));
            }
            _ => {}
        }
    }
    told
}

/// TO-4: each assistant message with calls is followed by one list of results, one for each
/// call in the calls' order; only the last may still lack it, while its round is open.
fn check_results(log: &Log, task: &Task) {
    let told = told(log);
    let entries: Vec<&Entry> = task.runtime().messages.iter().collect();
    let mut lists = 0;
    for (index, entry) in entries.iter().enumerate() {
        let Entry::Message(message) = entry else { continue };
        if message.role != Role::Assistant {
            continue;
        }
        let blocks = read_blocks(&log.text(&message.blocks)).unwrap();
        let asked = blocks.iter().filter(|block| matches!(block, Block::ToolUse { .. })).count();
        match entries.get(index + 1) {
            Some(Entry::Results(results)) => {
                lists += 1;
                assert_eq!(results.results.len() + results.over as usize, asked);
                for (index, result) in results.results.iter().enumerate() {
                    let call = CallId { decision: results.decision, index: index as u32 };
                    assert_eq!(told[&call], [log.text(&result.output)], "call {call} is answered once, in its place");
                }
            }
            other => {
                let round = task.runtime().round.as_ref();
                let open = round.map_or(0, |round| round.calls.len() + round.over as usize);
                assert_eq!(asked, if other.is_none() { open } else { 0 });
            }
        }
    }
    assert_eq!(entries.iter().filter(|entry| matches!(entry, Entry::Results(_))).count(), lists);
}

/// CA-4: every action that an outcome answers has one, and how many have none.
fn open_actions(log: &Log) -> Vec<Seq> {
    let mut open = Vec::new();
    for event in log.envelopes() {
        match event.kind().class() {
            Class::Action => open.push(event.seq),
            Class::Outcome => {
                let action = event.links.action.unwrap();
                let at = open.iter().position(|seq| *seq == action).expect("an open action, once");
                open.remove(at);
            }
            _ => {}
        }
    }
    open
}

/// Background jobs by the events alone: what the model was told of, and when.
fn check_jobs(log: &Log) {
    let mut ended: BTreeMap<Seq, u32> = BTreeMap::new();
    let mut started = BTreeSet::new();
    let mut landed = false;
    for event in log.envelopes() {
        match &event.payload {
            Payload::BackgroundJobStarted(_) => assert!(started.insert(event.seq)),
            Payload::BackgroundJobEnded(_) => {
                let job = event.links.action.unwrap();
                assert!(started.contains(&job));
                assert_eq!(ended.insert(job, 0), None, "job {job} ends once");
            }
            Payload::MessagesAppended(appended) => appended.jobs.iter().for_each(|job| {
                let told = ended.get_mut(job).expect("a job that has ended");
                *told += 1;
                assert!(*told == 1 || landed, "job {job} is told once");
            }),
            Payload::TaskRewound(_) | Payload::StepAttemptAbandoned(_) => landed = true,
            Payload::ContextPlanComposed(_) if !landed => {
                assert!(ended.values().all(|told| *told == 1), "told before event {}", event.seq);
            }
            _ => {}
        }
    }
    assert_eq!(started, ended.keys().copied().collect());
}

/// The counters, by the events alone.
fn check_counters(log: &Log, task: &Task) {
    let governance = task.governance();
    let events = log.envelopes();
    let count =
        |matches: &dyn Fn(&Payload) -> bool| events.iter().filter(|event| matches(&event.payload)).count() as u64;
    let ended = |event: &Payload| match event {
        Payload::LLMRequestFinished(finished) => finished.elapsed_ms,
        Payload::ToolCallFinished(finished) => finished.elapsed_ms,
        _ => 0,
    };
    assert_eq!(governance.steps, count(&|event| event_is(event, EventType::LLMRequestStarted)));
    assert_eq!(
        governance.tool_calls,
        count(&|event| matches!(event, Payload::ToolCallStarted(started) if started.attempt == 1))
    );
    assert_eq!(governance.denials.len(), count(&|event| event_is(event, EventType::ToolCallDenied)));
    let rewound = events.iter().rposition(|event| event.kind() == EventType::TaskRewound).unwrap_or(0);
    let woken = events[rewound..].iter().filter(|event| event.kind() == EventType::TaskWoken).count();
    assert_eq!(governance.resume, woken as u32);
    assert_eq!(governance.elapsed_ms, events.iter().map(|event| ended(&event.payload)).sum::<u64>());
    let usage = events.iter().filter_map(|event| match &event.payload {
        Payload::LLMRequestFinished(finished) => Some((finished.usage, finished.cost_nano_usd.unwrap_or(0))),
        _ => None,
    });
    let (tokens, cost) = usage.fold((0, 0), |sum, (usage, cost)| (sum.0 + usage.input() + usage.output, sum.1 + cost));
    assert_eq!((governance.spent().tokens, governance.cost_nano_usd), (tokens, cost));
    let alive = crate::live_path::alive(&events);
    let replied = alive.iter().filter(|event| event.kind() == EventType::DecisionRecorded).count();
    assert_eq!(task.runtime().assistant_messages, replied as u64);
}

fn event_is(payload: &Payload, kind: EventType) -> bool {
    payload.kind() == kind
}

/// EN-6: messages that the log took, by sender and text.
fn joined(log: &Log) -> Vec<String> {
    let mut joined = Vec::new();
    for event in log.envelopes() {
        let Payload::MessagesAppended(appended) = &event.payload else { continue };
        for message in &appended.messages {
            if message.origin == Some(MessageOrigin::Human) {
                let blocks = read_blocks(&log.text(&message.blocks)).unwrap();
                let [Block::Text { text }] = blocks.as_slice() else { panic!("a message is one text") };
                joined.push(text.clone());
            }
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// The live state is compared with the folded one after every append, inside the walk.
    #[test]
    fn fo_1_fo_2_live_state_is_the_folded_state(
        seed in any::<u64>(), steps in 1..60usize, interactive in any::<bool>(), budget in budget()
    ) {
        let habits = Habits { compare: 1, ..Habits::wild(interactive, budget) };
        let world = World::walk(seed, steps, habits);
        prop_assert_eq!(text_of(&fold(&world.log)), text_of(&world.task));
    }

    #[test]
    fn sn_1_sn_2_any_subset_of_snapshots_deleted_or_damaged_folds_the_same(world in walk(), seed in any::<u64>()) {
        let whole = text_of(&fold(&world.log));
        prop_assert_eq!(&text_of(&fold_with(&world.log, |hash| world.log.blobs.get(hash).cloned())), &whole);
        let mut choices = Choices::new(seed);
        let mut content: BTreeMap<Hash, Vec<u8>> = world.log.blobs.clone();
        for bytes in content.values_mut() {
            match choices.below(3) {
                0 => bytes.clear(),
                1 => {
                    let at = choices.below(bytes.len());
                    bytes[at] ^= 1;
                }
                _ => {}
            }
        }
        prop_assert_eq!(&text_of(&fold_with(&world.log, |hash| content.get(hash).cloned())), &whole);
    }

    /// Sealed segments apart, which are not in a whole state, so that content which events cite is
    /// all that has to be kept for one.
    #[test]
    fn co_3_a_state_cites_nothing_that_no_event_cites(world in walk()) {
        let events = world.log.envelopes();
        let known: Vec<Hash> = events
            .iter()
            .flat_map(|event| event.payload.references().into_iter().map(|reference| reference.sha256))
            .collect();
        for reference in cited(&fold(&world.log).to_bytes().unwrap()).unwrap() {
            prop_assert!(known.contains(&reference.sha256), "{reference}");
        }
    }

    #[test]
    fn sn_2_a_snapshot_of_another_fold_version_is_passed_over(world in life()) {
        for mut event in world.log.envelopes() {
            let Payload::TaskSnapshot(taken) = &event.payload else { continue };
            let bytes = world.log.blobs[&taken.state_ref.sha256].clone();
            prop_assert!(snapshot::load(&event, &bytes).is_some());
            let mut other = taken.clone();
            other.fold = Hash::from_bytes([7; 32]);
            event.payload = other.into();
            prop_assert!(snapshot::load(&event, &bytes).is_none());
        }
    }

    #[test]
    fn pr_1_no_walked_log_has_a_break(world in walk()) {
        let verified = log::verify_log(&world.log);
        prop_assert_eq!(verified.breaks, vec![]);
        prop_assert_eq!(verified.not_checked, Vec::<String>::new());
        prop_assert_eq!(text_of(&verified.task.unwrap()), text_of(&world.task));
    }

    #[test]
    fn ca_4_every_action_has_exactly_one_outcome_when_the_task_ends(world in life()) {
        prop_assert!(world.task.status().is_over());
        prop_assert_eq!(open_actions(&world.log), vec![]);
        prop_assert_eq!(&world.task.governance().actions, &vec![]);
    }

    /// Section 19: every background job ends, and the model is told of each once before it is asked
    /// again; after a rewind of those that it still knows.
    #[test]
    fn st_13_every_background_job_ends_and_is_told_once(world in life()) {
        check_jobs(&world.log);
    }

    #[test]
    fn to_4_every_call_gets_one_result_in_its_place(world in walk()) {
        check_results(&world.log, &world.task);
        let mut world = world;
        world.finish();
        check_results(&world.log, &world.task);
    }

    #[test]
    fn sn_1_counters_are_those_of_all_events(world in walk()) {
        check_counters(&world.log, &world.task);
    }

    #[test]
    fn en_6_messages_join_once_and_none_is_left_when_a_task_ends(world in life()) {
        let mut texts = joined(&world.log);
        prop_assert_eq!(texts.remove(0), "walk");
        let delivered: Vec<String> = world.delivered.iter().filter_map(|item| match &item.item {
            plica_kernel::wake::Item::Message { text } => Some(text.clone()),
            _ => None,
        }).collect();
        prop_assert_eq!(&texts, &delivered);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn rc_1_every_prefix_is_carried_on_to_an_end(
        seed in any::<u64>(), steps in 1..20usize, interactive in any::<bool>(), budget in budget()
    ) {
        let world = World::walk(seed, steps, Habits::wild(interactive, budget));
        for appends in 1..=world.log.appends.len() {
            let mut other = world.prefix(appends);
            other.finish();
            prop_assert!(other.task.status().is_over());
            prop_assert_eq!(open_actions(&other.log), vec![]);
            check_results(&other.log, &other.task);
            prop_assert_eq!(log::verify_log(&other.log).breaks, vec![]);
        }
    }

    #[test]
    fn pr_1_a_log_cut_inside_an_append_is_no_whole_log(world in walk(), seed in any::<u64>()) {
        let task = world.task.id();
        let ends: Vec<Seq> = world.log.appends.iter().map(|append| append.last().unwrap().seq).collect();
        let mut choices = Choices::new(seed);
        for _ in 0..8 {
            let cut = 1 + choices.below(world.task.head().seq.0 as usize - 1) as u64;
            let events = world.log.events().take(cut as usize);
            let found = log::verify(task, events.map(|event| (event.seq, &event.hash, event.body.as_slice())));
            if ends.contains(&Seq(cut)) {
                prop_assert_eq!(found.breaks, vec![]);
            } else {
                prop_assert_eq!(found.breaks.len(), 1);
                prop_assert_eq!(found.breaks[0].seq, Seq(cut + 1));
                prop_assert_eq!(&found.breaks[0].rule, "missing: the last append is not whole");
            }
        }
    }
}

/// Long enough for sealed segments and for the snapshots that come by themselves.
#[test]
fn sn_3_sn_7_long_logs_fold_the_same_from_segments() {
    let world = World::walk(7, 400, Habits::rounds());
    let snapshots = world.log.events().filter(|event| event.kind == EventType::TaskSnapshot).count();
    let messages = world.task.runtime().messages.len();
    assert!(messages > 256 && snapshots > 4, "{messages} messages, {snapshots} snapshots");
    let whole = text_of(&fold(&world.log));
    assert_eq!(text_of(&fold_with(&world.log, |hash| world.log.blobs.get(hash).cloned())), whole);
    // A lost segment makes the fold start further back.
    let mut choices = Choices::new(7);
    for _ in 0..4 {
        let lost: Vec<Hash> = world.log.blobs.keys().filter(|_| choices.chance(20)).copied().collect();
        let content = |hash: &Hash| world.log.blobs.get(hash).filter(|_| !lost.contains(hash)).cloned();
        assert_eq!(text_of(&fold_with(&world.log, content)), whole);
    }
    assert_eq!(log::verify_log(&world.log).breaks, vec![]);
}

#[test]
fn en_1_a_walk_sees_everything_it_is_meant_to_see() {
    let mut kinds = BTreeMap::new();
    let mut ends = BTreeMap::new();
    for seed in 0..40 {
        let mut world = World::walk(seed, 60, Habits::wild(seed % 2 == 0, Budget::default()));
        world.finish();
        *ends.entry(world.task.status()).or_insert(0) += 1;
        for event in world.log.events() {
            *kinds.entry(event.kind).or_insert(0) += 1;
        }
    }
    for kind in [
        EventType::LLMRetryScheduled,
        EventType::AssistantThinkingRecorded,
        EventType::TaskStatePatched,
        EventType::ToolCallFinished,
        EventType::ToolCallDenied,
        EventType::BackgroundJobStarted,
        EventType::BackgroundJobEnded,
        EventType::TaskSuspended,
        EventType::TaskWoken,
        EventType::TaskSnapshot,
        EventType::ExtensionRecorded,
    ] {
        assert!(kinds.get(&kind).is_some_and(|count| *count > 5), "{kind}: {kinds:?}");
    }
    for status in [Status::Completed, Status::Failed, Status::Cancelled] {
        assert!(ends.contains_key(&status), "{status}: {ends:?}");
    }
}
