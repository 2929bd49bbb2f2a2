//! Operations as plain numbers, so that one which is left out changes no other: what a number
//! means (which task, which claim) is settled when it is played.

use super::dice::Dice;

/// A choice, settled by what there is to choose from.
pub(crate) type Pick = usize;

/// How large a pick may be; there is never that much to choose from.
const PICKS: usize = 1 << 16;

/// One operation.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Tick(Pick),
    Create { key: Option<Pick>, contents: Pick, facts: Pick, wrong: Option<WrongTask> },
    Claim { worker: Pick, queues: Pick, lease: Pick, max: Pick, named: Option<Pick>, except: Option<Pick> },
    Adopt { worker: Pick, task: Pick, lease: Pick },
    Renew { claims: Vec<Pick>, lease: Pick },
    Release { claim: Pick, not_before: Option<Pick>, wrong: Option<WrongClaim> },
    Append(Box<Append>),
    Settle { task: Pick, seq: Pick, old: bool },
    Deliver { task: Pick, item: Pick, key: Pick, sender: Pick },
    Block { claim: Pick, wrong: Option<WrongClaim> },
    Unblock { task: Pick },
    Register { worker: Pick, queues: Pick, lease: Pick },
    Deregister { worker: Pick },
    Look { task: Pick, from: Pick, limit: Pick, filter: Pick },
    Keep { body: Pick },
    Collect { bodies: Vec<Pick>, age: Pick },
}

/// An append, in all its parts.
#[derive(Debug, Clone)]
pub(crate) struct Append {
    pub claim: Pick,
    pub what: What,
    pub wake: Pick,
    pub take: Take,
    pub seen: Seen,
    pub deliveries: Vec<(Pick, Pick, Pick)>,
    pub children: usize,
    pub body: Option<Pick>,
    pub after: After,
    pub wrong: Option<Wrong>,
}

/// What an append records.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Notes(usize),
    Suspend,
    Wake,
    Complete,
    Rewind,
}

/// Which items an append takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Take {
    Nothing,
    All,
    First,
    FirstTwice,
    WhatIsNotThere,
}

/// Up to which item its writer has seen the inbox.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    AtTheClaim,
    Now,
    Nothing,
}

/// What becomes of the claim.
#[derive(Debug, Clone, Copy)]
pub(crate) enum After {
    ByStatus,
    Release,
    ReleaseUntil(Pick),
    Retain,
}

/// How a claim is wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WrongClaim {
    Token,
    OldEpoch,
    FutureEpoch,
    UnknownTask,
}

/// How a new task is wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WrongTask {
    TakenId,
    NoEvents,
    LaterSeq,
    OtherHash,
    Class,
    Goal,
    Parent,
    Body,
}

/// How an append is wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wrong {
    Claim(WrongClaim),
    ForeignTask(Pick),
    OldHead,
    OtherHeadHash,
    NoEvents,
    Gap,
    OtherHash,
    Oversize,
    RowElsewhere,
    TooManyAlternatives,
    UnreadableWake,
    FalseBody,
    TakenChild,
    ForeignChild,
    KeyedChild,
    TwinChildren,
    UnwritableDelivery,
}

impl Op {
    /// An operation, likelier the more there is to it.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let kind = dice.weighed(&[
            (12, 0),
            (8, 1),
            (18, 2),
            (2, 3),
            (5, 4),
            (6, 5),
            (36, 6),
            (2, 7),
            (14, 8),
            (2, 9),
            (3, 10),
            (2, 11),
            (1, 12),
            (3, 13),
            (1, 14),
            (1, 15),
        ]);
        match kind {
            0 => Self::Tick(dice.below(PICKS)),
            1 => Self::create(dice),
            2 => Self::claim(dice),
            3 => Self::Adopt { worker: dice.below(PICKS), task: dice.below(PICKS), lease: dice.below(PICKS) },
            4 => Self::Renew {
                claims: (0..dice.below(4)).map(|_| dice.below(PICKS)).collect(),
                lease: dice.below(PICKS),
            },
            5 => Self::Release { claim: dice.below(PICKS), not_before: rarely(dice, 3), wrong: wrong_claim(dice) },
            6 => Self::Append(Box::new(Append::draw(dice))),
            7 => Self::Settle { task: dice.below(PICKS), seq: dice.below(PICKS), old: dice.below(2) == 0 },
            8 => Self::Deliver {
                task: dice.below(PICKS),
                item: dice.below(PICKS),
                key: dice.below(PICKS),
                sender: dice.below(PICKS),
            },
            9 => Self::Block { claim: dice.below(PICKS), wrong: wrong_claim(dice) },
            10 => Self::Unblock { task: dice.below(PICKS) },
            11 => Self::Register { worker: dice.below(PICKS), queues: dice.below(PICKS), lease: dice.below(PICKS) },
            12 => Self::Deregister { worker: dice.below(PICKS) },
            13 => Self::Look {
                task: dice.below(PICKS),
                from: dice.below(PICKS),
                limit: dice.below(PICKS),
                filter: dice.below(PICKS),
            },
            14 => Self::Keep { body: dice.below(PICKS) },
            _ => Self::Collect {
                bodies: (0..dice.below(4)).map(|_| dice.below(PICKS)).collect(),
                age: dice.below(PICKS),
            },
        }
    }

    fn create(dice: &mut Dice) -> Self {
        use WrongTask::*;
        let wrong = match dice.below(4) {
            0 => Some(dice.weighed(&[
                (3, TakenId),
                (1, NoEvents),
                (1, LaterSeq),
                (1, OtherHash),
                (1, Class),
                (1, Goal),
                (1, Parent),
                (1, Body),
            ])),
            _ => None,
        };
        Self::Create { key: rarely(dice, 3), contents: dice.below(PICKS), facts: dice.below(PICKS), wrong }
    }

    fn claim(dice: &mut Dice) -> Self {
        Self::Claim {
            worker: dice.below(PICKS),
            queues: dice.below(PICKS),
            lease: dice.below(PICKS),
            max: dice.below(PICKS),
            named: rarely(dice, 2),
            except: rarely(dice, 6),
        }
    }
}

impl Append {
    fn draw(dice: &mut Dice) -> Self {
        let notes = What::Notes(1 + dice.below(3));
        let later = After::ReleaseUntil(dice.below(PICKS));
        Self {
            claim: dice.below(PICKS),
            what: dice.weighed(&[
                (9, notes),
                (8, What::Suspend),
                (3, What::Wake),
                (2, What::Complete),
                (2, What::Rewind),
            ]),
            wake: dice.below(PICKS),
            take: dice.weighed(&[
                (10, Take::Nothing),
                (5, Take::All),
                (3, Take::First),
                (1, Take::FirstTwice),
                (1, Take::WhatIsNotThere),
            ]),
            seen: dice.weighed(&[(5, Seen::AtTheClaim), (10, Seen::Now), (1, Seen::Nothing)]),
            deliveries: (0..dice.below(5).saturating_sub(2))
                .map(|_| (dice.below(PICKS), dice.below(PICKS), dice.below(PICKS)))
                .collect(),
            children: dice.weighed(&[(10, 0), (2, 1), (1, 2)]),
            body: rarely(dice, 4),
            after: dice.weighed(&[(20, After::ByStatus), (2, After::Release), (2, later), (3, After::Retain)]),
            wrong: if dice.below(4) == 0 { Some(Wrong::draw(dice)) } else { None },
        }
    }
}

impl Wrong {
    fn draw(dice: &mut Dice) -> Self {
        let foreign = Self::ForeignTask(dice.below(PICKS));
        dice.weighed(&[
            (2, Self::Claim(WrongClaim::Token)),
            (1, Self::Claim(WrongClaim::OldEpoch)),
            (1, Self::Claim(WrongClaim::FutureEpoch)),
            (1, Self::Claim(WrongClaim::UnknownTask)),
            (2, foreign),
            (3, Self::OldHead),
            (2, Self::OtherHeadHash),
            (1, Self::NoEvents),
            (1, Self::Gap),
            (1, Self::OtherHash),
            (1, Self::Oversize),
            (1, Self::RowElsewhere),
            (1, Self::TooManyAlternatives),
            (1, Self::UnreadableWake),
            (1, Self::FalseBody),
            (2, Self::TakenChild),
            (1, Self::ForeignChild),
            (1, Self::KeyedChild),
            (1, Self::TwinChildren),
            (1, Self::UnwritableDelivery),
        ])
    }
}

/// A pick one time in `often`.
fn rarely(dice: &mut Dice, often: usize) -> Option<Pick> {
    (dice.below(often) == 0).then(|| dice.below(PICKS))
}

fn wrong_claim(dice: &mut Dice) -> Option<WrongClaim> {
    let wrong = dice.weighed(&[
        (2, WrongClaim::Token),
        (1, WrongClaim::OldEpoch),
        (1, WrongClaim::FutureEpoch),
        (1, WrongClaim::UnknownTask),
    ]);
    (dice.below(4) == 0).then_some(wrong)
}
