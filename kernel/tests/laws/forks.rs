//! Forks, and forks of forks, against a reference that knows nothing of states: the events of each
//! ancestor up to where the next branches off, read forward as one log (SN-4).

use plica_kernel::envelope::Envelope;
use plica_kernel::event::EventType;
use plica_kernel::id::Seq;
use plica_kernel::row::Status;
use plica_kernel::state::Task;
use proptest::prelude::*;

use crate::common::hand::Hand;
use crate::common::world::text_of;
use crate::common::{Choices, log};
use crate::live_path::{Story, alive, read, said};

/// A log, its ancestors and where each of them was left.
struct Lineage {
    /// The oldest first, each with the seq at which the next branches off.
    ancestors: Vec<(Hand, Seq)>,
    last: Hand,
}

impl std::fmt::Debug for Lineage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ancestors.iter().try_for_each(|(hand, at)| writeln!(f, "{hand:?}left at {at}"))?;
        write!(f, "{:?}", self.last)
    }
}

impl Lineage {
    fn told(seed: u64, forks: usize) -> Self {
        let mut story = Story::begin(seed);
        story.go_on(1);
        let mut ancestors = Vec::new();
        for number in 0..forks {
            let turns = story.choices.below(3);
            story.go_on(turns);
            let source = story.hand.clone();
            ancestors.extend(story.branch(&format!("fork-{number}")).map(|at| (source, at)));
        }
        story.go_on(2);
        Self { ancestors, last: story.hand }
    }

    /// The events that are alive after `seq` of the last log, those of all ancestors included.
    fn alive_at(&self, seq: Seq) -> Vec<Envelope> {
        let logs = self.ancestors.iter().map(|(hand, at)| (hand, *at)).chain([(&self.last, seq)]);
        logs.flat_map(|(hand, at)| {
            let events = hand.log.envelopes();
            alive(&events[..at.0 as usize]).into_iter().cloned().collect::<Vec<_>>()
        })
        .collect()
    }

    /// How many events of a kind there were, dead or alive, before each branch and in the last log.
    fn count(&self, kind: EventType) -> u64 {
        let logs = self.ancestors.iter().map(|(hand, at)| (hand, at.0 as usize)).chain([(&self.last, usize::MAX)]);
        let of = |(hand, at): (&Hand, usize)| {
            hand.log.envelopes().iter().take(at).filter(|event| event.kind() == kind).count() as u64
        };
        logs.map(of).sum()
    }

    /// The state of the last log, folded from the first event of the first ancestor on; `kept`
    /// says which contents can be had.
    fn folded(&self, kept: impl Fn(&plica_kernel::canonical::Hash) -> bool) -> Task {
        let content = |hand: &Hand, hash: &_| hand.log.blobs.get(hash).filter(|_| kept(hash)).cloned();
        let mut ancestor: Option<Task> = None;
        for (hand, at) in &self.ancestors {
            let log = hand.log.prefix(at.0 as usize);
            ancestor = Some(log::fold_on(&log, ancestor.as_ref(), |hash| content(hand, hash)));
        }
        log::fold_on(&self.last.log, ancestor.as_ref(), |hash| content(&self.last, hash))
    }
}

fn lineage() -> impl Strategy<Value = Lineage> {
    (any::<u64>(), 0..5usize).prop_map(|(seed, forks)| Lineage::told(seed, forks))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn sn_4_the_conversation_is_what_is_alive_of_all_ancestors(lineage in lineage()) {
        for state in &lineage.last.states {
            let events = lineage.alive_at(state.head().seq);
            prop_assert_eq!(said(state), read(&events.iter().collect::<Vec<_>>()));
        }
    }

    #[test]
    fn sn_4_what_the_branch_consumed_is_consumed(lineage in lineage()) {
        let governance = lineage.last.task().governance();
        prop_assert_eq!(governance.steps, lineage.count(EventType::LLMRequestStarted));
        prop_assert_eq!(governance.tool_calls, lineage.count(EventType::ToolCallStarted));
        prop_assert_eq!(governance.cost_nano_usd, lineage.count(EventType::LLMRequestFinished));
        let ended = lineage.count(EventType::LLMRequestFinished) + lineage.count(EventType::ToolCallFinished);
        prop_assert_eq!(governance.elapsed_ms, ended);
    }

    #[test]
    fn sn_4_nothing_pending_is_inherited(lineage in lineage()) {
        let first = &lineage.last.states[0];
        if lineage.ancestors.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(first.status(), Status::Waiting);
        prop_assert!(first.governance().actions.is_empty() && first.runtime().round.is_none());
        prop_assert!(first.governance().questions.is_empty() && first.governance().approvals.is_empty());
    }

    #[test]
    fn sn_2_sn_4_any_snapshots_of_any_ancestor_lost_change_nothing(lineage in lineage(), seed in any::<u64>()) {
        let whole = text_of(lineage.last.task());
        prop_assert_eq!(&text_of(&lineage.folded(|_| false)), &whole);
        prop_assert_eq!(&text_of(&lineage.folded(|_| true)), &whole);
        let mut choices = Choices::new(seed);
        let all = lineage.last.log.blobs.keys().chain(lineage.ancestors.iter().flat_map(|(hand, _)| hand.log.blobs.keys()));
        let lost: Vec<_> = all.filter(|_| choices.chance(50)).copied().collect();
        prop_assert_eq!(&text_of(&lineage.folded(|hash| !lost.contains(hash))), &whole);
    }
}
