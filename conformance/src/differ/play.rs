//! Operations played on both stores.

use std::sync::Arc;
use std::time::Duration;

use plica_kernel::body::Blob;
use plica_kernel::id::{DedupKey, LedgerId, Position, Seq, TaskId};
use plica_kernel::limits::AGE_STEP_MAX_MS;
use plica_kernel::row::{Blocked, Status};
use plica_kernel::time::Timestamp;
use plica_ports::store::{
    AppendError, Appended, ClaimRequest, Claimed, NewTask, Page, Renewed, StoreError, TaskFilter, rules,
};
use plica_ports::{ContentError, ContentStore, KeptBody, Store};

use super::op::{Append, Op, Pick, WrongClaim, WrongTask};
use super::shape::Given;
use super::{Pair, shape};
use crate::{Log, opening_facts};

/// How much of a list is asked for: all of it.
const ALL: usize = 1_000;

/// Two answers that are not the same.
#[derive(Debug)]
pub(crate) struct Told {
    pub asked: String,
    pub left: String,
    pub right: String,
}

/// A task that both stores have.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// As it stands now.
    pub log: Log,
    /// As it stood before the last append.
    pub old: Log,
}

/// A claim that both stores gave out.
#[derive(Debug, Clone)]
pub(super) struct Twins {
    pub left: Claimed,
    pub right: Claimed,
}

/// Both stores, and what their client knows of them.
pub(crate) struct Play {
    pair: Pair,
    pub(super) ledger: LedgerId,
    pub(super) tasks: Vec<Known>,
    pub(super) claims: Vec<Twins>,
    pub(super) numbers: u64,
}

type Step = Result<(), Told>;

impl Play {
    pub(crate) fn new(pair: Pair) -> Self {
        let ledger = LedgerId::new("the-same-for-both").expect("a name is an id");
        Self { pair, ledger, tasks: Vec::new(), claims: Vec::new(), numbers: 0 }
    }

    /// Plays one operation and compares what both stores answer, then what they show.
    pub(crate) async fn step(&mut self, op: &Op) -> Step {
        // Every operation has a moment of its own, so what is due is due in one order.
        (self.pair.advance)(Duration::from_micros(1));
        self.play(op).await?;
        self.look_at_rows(&TaskFilter::default(), ALL).await
    }

    async fn play(&mut self, op: &Op) -> Step {
        match op {
            Op::Tick(by) => (self.pair.advance)(shape::tick(*by)),
            Op::Create { key, contents, facts, wrong } => return self.create(*key, *contents, *facts, *wrong).await,
            Op::Claim { worker, queues, lease, max, named, except } => {
                let request = ClaimRequest {
                    worker: shape::worker(*worker),
                    queues: shape::queues(*queues),
                    lease: shape::lease(*lease),
                    max: [1, 1, 2, 3, 9, 0][max % 6],
                    task: named.and_then(|pick| self.task(pick)),
                    except: except.and_then(|pick| self.task(pick)).into_iter().collect(),
                };
                return self.claim(&request).await;
            }
            Op::Adopt { worker, task, lease } => return self.adopt(*worker, *task, *lease).await,
            Op::Renew { claims, lease } => return self.renew(claims, *lease).await,
            Op::Release { claim, not_before, wrong } => return self.release(*claim, *not_before, *wrong).await,
            Op::Append(append) => return self.append(append).await,
            Op::Settle { task, seq, old } => return self.settle(*task, *seq, *old).await,
            Op::Deliver { task, item, key, sender } => return self.deliver(*task, *item, *key, *sender).await,
            Op::Block { claim, wrong } => return self.block(*claim, *wrong).await,
            Op::Unblock { task } => {
                let Some(task) = self.task(*task) else { return Ok(()) };
                let [left, right] = self.both(async |store| store.unblock(&task).await).await;
                return same("unblock", left.map_err(shape::store_error), right.map_err(shape::store_error));
            }
            Op::Register { worker, queues, lease } => {
                let (worker, queues, lease) = (shape::worker(*worker), shape::queues(*queues), shape::lease(*lease));
                let [left, right] = self.both(async |store| store.register(&worker, &queues, lease).await).await;
                return same("register", left, right);
            }
            Op::Deregister { worker } => {
                let worker = shape::worker(*worker);
                let [left, right] = self.both(async |store| store.deregister(&worker).await).await;
                return same("deregister", left, right);
            }
            Op::Look { task, from, limit, filter } => {
                self.look(*task, *from, limit % 5).await?;
                return self.look_at_pages(&self.filter(*filter), limit % 5).await;
            }
            Op::Keep { body } => return self.keep(*body).await,
            Op::Collect { bodies, age } => return self.collect(bodies, *age).await,
        }
        Ok(())
    }

    /// Asks the left store, then the right one.
    pub(super) async fn both<T>(&self, ask: impl AsyncFn(Arc<dyn Store>) -> T) -> [T; 2] {
        let left = ask(Arc::clone(&self.pair.left)).await;
        [left, ask(Arc::clone(&self.pair.right)).await]
    }

    pub(super) fn left(&self) -> &dyn Store {
        &*self.pair.left
    }

    pub(super) async fn now(&self) -> Timestamp {
        self.pair.left.now().await.expect("a store tells the time")
    }

    fn task(&self, pick: Pick) -> Option<TaskId> {
        shape::one(&self.tasks, pick).map(|known| known.log.id.clone())
    }

    /// A claim, most likely one of the last.
    pub(super) fn twins(&self, pick: Pick) -> Option<Twins> {
        let few = if pick.is_multiple_of(8) { self.claims.len() } else { 3 };
        shape::one(&self.claims[self.claims.len().saturating_sub(few)..], pick / 8).cloned()
    }

    /// A name that no task has; later ones sort later, as the ids of real ones do.
    pub(super) fn fresh_id(&mut self) -> TaskId {
        self.numbers += 1;
        TaskId::new(format!("task-{:04}", self.numbers)).expect("a name is an id")
    }

    pub(super) fn key(pick: Pick) -> DedupKey {
        DedupKey::new(format!("k{}", pick % 5)).expect("a name is a key")
    }

    async fn create(&mut self, key: Option<Pick>, contents: Pick, facts: Pick, wrong: Option<WrongTask>) -> Step {
        let now = self.now().await;
        let mut opening = opening_facts(now);
        opening.queue = shape::queue(facts);
        opening.priority = (facts / 3 % 4) as u8;
        opening.agent = ["tester", "other"][facts / 12 % 2].into();
        opening.not_before = (facts / 24).is_multiple_of(4).then(|| shape::due(facts / 96, now));
        let taken = shape::one(&self.tasks, contents).map(|known| known.log.id.clone());
        let id = match (wrong, taken) {
            (Some(WrongTask::TakenId), Some(taken)) => taken,
            _ => self.fresh_id(),
        };
        let (log, mut task) = Log::begin(&self.ledger, &id, opening);
        task.key = key.map(|key| (Self::key(key), rules::fingerprint(&[&[(contents % 2) as u8]])));
        self.spoil_task(&mut task, wrong);
        let [left, right] = self.both(async |store| store.create(task.clone()).await).await;
        let is_made = left.as_ref().is_ok_and(|created| created.fresh);
        same("create", left.map_err(shape::create_error), right.map_err(shape::create_error))?;
        if is_made {
            self.tasks.push(Known { old: log.clone(), log });
        }
        Ok(())
    }

    fn spoil_task(&mut self, task: &mut NewTask, wrong: Option<WrongTask>) {
        match wrong {
            None | Some(WrongTask::TakenId) => {}
            Some(WrongTask::NoEvents) => task.events.clear(),
            Some(WrongTask::LaterSeq) => task.events[0].seq = Seq(2),
            Some(WrongTask::OtherHash) => task.events[0].hash = plica_kernel::canonical::Hash::from_bytes([5; 32]),
            Some(WrongTask::Class) => task.facts.priority = 4,
            Some(WrongTask::Goal) => task.facts.goal = "x".repeat(201),
            Some(WrongTask::Parent) => task.facts.parent = Some(self.fresh_id()),
            Some(WrongTask::Body) => {
                let mut blob = Blob::new("text/plain", b"one".to_vec());
                blob.bytes = b"two".to_vec();
                task.blobs = vec![blob];
            }
        }
    }

    async fn claim(&mut self, request: &ClaimRequest) -> Step {
        let [left, right] = self.both(async |store| store.claim(request).await).await;
        let told = |claimed: &Vec<Claimed>| claimed.iter().map(Given::from).collect::<Vec<_>>();
        let shown = (left.as_ref().map(told).map_err(Clone::clone), right.as_ref().map(told).map_err(Clone::clone));
        same("claim", shown.0.map_err(shape::claim_error), shown.1.map_err(shape::claim_error))?;
        let pairs = left.into_iter().flatten().zip(right.into_iter().flatten());
        self.claims.extend(pairs.map(|(left, right)| Twins { left, right }));
        Ok(())
    }

    async fn adopt(&mut self, worker: Pick, task: Pick, lease: Pick) -> Step {
        let Some(task) = self.task(task) else { return Ok(()) };
        let (worker, lease) = (shape::worker(worker), shape::lease(lease));
        let [left, right] = self.both(async |store| store.adopt(&worker, &task, lease).await).await;
        let told = |claimed: &Option<Claimed>| claimed.as_ref().map(Given::from);
        let shown = (left.as_ref().map(told).map_err(Clone::clone), right.as_ref().map(told).map_err(Clone::clone));
        same("adopt", shown.0.map_err(shape::claim_error), shown.1.map_err(shape::claim_error))?;
        if let (Ok(Some(left)), Ok(Some(right))) = (left, right) {
            self.claims.push(Twins { left, right });
        }
        Ok(())
    }

    async fn renew(&self, picks: &[Pick], lease: Pick) -> Step {
        let twins: Vec<Twins> = picks.iter().filter_map(|pick| self.twins(*pick)).collect();
        let lease = shape::lease(lease);
        let claims: Vec<_> = twins.iter().map(|twins| twins.left.claim.clone()).collect();
        let left = self.pair.left.renew(&claims, lease).await;
        let claims: Vec<_> = twins.iter().map(|twins| twins.right.claim.clone()).collect();
        let right = self.pair.right.renew(&claims, lease).await;
        let told = |renewed: Result<Renewed, StoreError>| {
            renewed.map(|renewed| (renewed.now, renewed.verdicts)).map_err(shape::store_error)
        };
        same("renew", told(left), told(right))
    }

    async fn release(&self, claim: Pick, not_before: Option<Pick>, wrong: Option<WrongClaim>) -> Step {
        let Some(twins) = self.twins(claim) else { return Ok(()) };
        let now = self.now().await;
        let not_before = not_before.map(|pick| shape::due(pick, now));
        let left = self.pair.left.release(&shape::spoil(&twins.left.claim, wrong), not_before).await;
        let right = self.pair.right.release(&shape::spoil(&twins.right.claim, wrong), not_before).await;
        same("release", left.map_err(shape::append_error), right.map_err(shape::append_error))
    }

    async fn block(&self, claim: Pick, wrong: Option<WrongClaim>) -> Step {
        let Some(twins) = self.twins(claim) else { return Ok(()) };
        let why = Blocked::UnreadableLog { rule: "hash".into(), seq: Seq(1) };
        let left = self.pair.left.block(&shape::spoil(&twins.left.claim, wrong), &why).await;
        let right = self.pair.right.block(&shape::spoil(&twins.right.claim, wrong), &why).await;
        same("block", left.map_err(shape::append_error), right.map_err(shape::append_error))
    }

    async fn append(&mut self, append: &Append) -> Step {
        let Some(twins) = self.twins(append.claim) else { return Ok(()) };
        let Some((batch, children)) = self.batch(append, &twins).await else { return Ok(()) };
        let wrong = match append.wrong {
            Some(super::op::Wrong::Claim(wrong)) => Some(wrong),
            _ => None,
        };
        let left = self.pair.left.append(&shape::spoil(&twins.left.claim, wrong), &batch).await;
        let right = self.pair.right.append(&shape::spoil(&twins.right.claim, wrong), &batch).await;
        let is_written = left.is_ok();
        let told = |answer: Result<Appended, AppendError>| answer.map_err(shape::append_error);
        same("append", told(left), told(right))?;
        if !is_written {
            return Ok(());
        }
        if let Some(known) = self.tasks.iter_mut().find(|known| known.log.id == batch.task) {
            known.old = known.log.clone();
            known.log.accept(&batch);
        }
        self.tasks.extend(children.into_iter().map(|log| Known { old: log.clone(), log }));
        self.look_at_bodies(&batch.blobs).await
    }

    async fn settle(&self, task: Pick, seq: Pick, old: bool) -> Step {
        let Some(known) = shape::one(&self.tasks, task) else { return Ok(()) };
        let row = if old { &known.old.row } else { &known.log.row };
        let seq = Seq((seq % (known.log.row.seq.0 as usize + 2)) as u64);
        let [left, right] = self.both(async |store| store.settle(&known.log.id, seq, &row.hash).await).await;
        same("settle", left.map_err(shape::store_error), right.map_err(shape::store_error))
    }

    async fn deliver(&self, task: Pick, item: Pick, key: Pick, sender: Pick) -> Step {
        let nobody = TaskId::new("nobody").expect("a name is an id");
        let task = if task.is_multiple_of(20) { nobody } else { self.task(task / 20).unwrap_or(nobody) };
        let item = if item.is_multiple_of(40) { shape::unwritable() } else { shape::item(item / 40) };
        let key = DedupKey::new(format!("d{}", key % 12)).expect("a name is a key");
        let sender = ["user:ada", "user:bob", "tool:Post"][sender % 3];
        let [left, right] = self.both(async |store| store.deliver(&task, sender, &item, &key).await).await;
        same("deliver", left.map_err(shape::deliver_error), right.map_err(shape::deliver_error))
    }

    fn filter(&self, pick: Pick) -> TaskFilter {
        let all = TaskFilter::default();
        match pick % 7 {
            0 => TaskFilter { status: Some(Status::Waiting), ..all },
            1 => TaskFilter { queue: Some(shape::queue(0)), ..all },
            2 => TaskFilter { agent: Some("other".into()), ..all },
            3 => TaskFilter { parent: self.task(pick / 7), ..all },
            4 => TaskFilter { prefix: Some("task-000".into()), ..all },
            5 => TaskFilter { blocked: true, ..all },
            _ => TaskFilter { status: Some(Status::Ready), queue: Some(shape::queue(1)), ..all },
        }
    }

    async fn look_at_rows(&self, filter: &TaskFilter, limit: usize) -> Step {
        self.look_at_page(filter, &Page::first(limit)).await
    }

    /// The first part of a list, and the one after it.
    async fn look_at_pages(&self, filter: &TaskFilter, limit: usize) -> Step {
        let first = Page::first(limit);
        self.look_at_page(filter, &first).await?;
        let rows = self.left().tasks(filter, &first).await.unwrap_or_default();
        let Some(last) = rows.last() else { return Ok(()) };
        self.look_at_page(filter, &Page { limit, after: Some((last.facts.created_at, last.id.clone())) }).await
    }

    async fn look_at_page(&self, filter: &TaskFilter, page: &Page) -> Step {
        let [left, right] = self.both(async |store| store.tasks(filter, page).await).await;
        let told = |rows: Result<Vec<_>, StoreError>| rows.map(|rows| rows.into_iter().map(shape::row).collect());
        let (left, right): (Result<Vec<_>, _>, Result<Vec<_>, _>) = (told(left), told(right));
        if let (Ok(left), Ok(right)) = (&left, &right)
            && left.len() == right.len()
            && let Some((left, right)) = left.iter().zip(right).find(|(left, right)| left != right)
        {
            return same("row", left, right);
        }
        same("rows", left, right)
    }

    /// Keeps a body, long enough after whatever was kept last that its age is renewed for certain.
    async fn keep(&self, pick: Pick) -> Step {
        (self.pair.advance)(Duration::from_millis(AGE_STEP_MAX_MS + 1));
        let blob = shape::kept(pick);
        let [left, right] = self.of_contents(async |content| content.put(&blob).await).await;
        same("put", left, right)?;
        self.look_at_bodies(&[blob]).await
    }

    /// Removes what is old of some bodies, and looks at what is left. Bodies of batches are left out:
    /// when their age is renewed is each store's own affair.
    async fn collect(&self, picks: &[Pick], age: Pick) -> Step {
        let before = shape::aged(age, self.now().await);
        let bodies: Vec<_> = picks.iter().map(|pick| shape::kept(*pick).reference.sha256).collect();
        let [left, right] = self.of_contents(async |content| content.remove(&bodies, before).await).await;
        same("remove", left, right)?;
        let all: Vec<Blob> = (0..shape::KEPT).map(shape::kept).collect();
        let ours = |listed: Vec<KeptBody>| -> Vec<KeptBody> {
            listed.into_iter().filter(|body| all.iter().any(|blob| blob.reference.sha256 == body.sha256)).collect()
        };
        let [left, right] = self.of_contents(async |content| content.aged(before, None, ALL).await.map(&ours)).await;
        same("aged", left, right)?;
        self.look_at_bodies(&all).await
    }

    /// Asks the content stores of both; nothing where a store keeps no content.
    async fn of_contents<T>(
        &self,
        ask: impl AsyncFn(&dyn ContentStore) -> Result<T, ContentError>,
    ) -> [Option<Result<T, ContentError>>; 2] {
        let [left, right] = [&self.pair.left, &self.pair.right].map(|store| store.content());
        let (Some(left), Some(right)) = (left, right) else { return [None, None] };
        [Some(ask(left).await), Some(ask(right).await)]
    }

    async fn look_at_bodies(&self, blobs: &[Blob]) -> Step {
        for blob in blobs {
            let [left, right] = self.of_contents(async |content| content.get(&blob.reference).await).await;
            same("get", left, right)?;
        }
        Ok(())
    }

    /// One task from every side.
    async fn look(&self, task: Pick, from: Pick, limit: usize) -> Step {
        let Some(known) = shape::one(&self.tasks, task) else { return Ok(()) };
        let (id, end) = (&known.log.id, known.log.row.seq.0 as usize);
        let (from, after) = (Seq((from % (end + 2)) as u64), Position((from / 8 % 4) as u64));
        let [left, right] = self.both(async |store| store.read(id, from, limit).await).await;
        same("read", left, right)?;
        let [left, right] = self.both(async |store| store.baselines(id, limit).await).await;
        same("baselines", left, right)?;
        let [left, right] = self.both(async |store| store.inbox(id, after).await).await;
        same("inbox", left, right)?;
        let [left, right] = self.both(async |store| store.watch(id, from, after, Duration::ZERO).await).await;
        same("watch", left, right)
    }

    /// Everything that can be read.
    pub(crate) async fn look_at_everything(&self) -> Step {
        let [left, right] = self.both(async |store| store.now().await).await;
        same("now", left, right)?;
        for task in 0..self.tasks.len() {
            self.look(task, 0, ALL).await?;
        }
        let ids: Vec<TaskId> = self.tasks.iter().map(|known| known.log.id.clone()).collect();
        let [left, right] = self.both(async |store| store.inbox_tails(&ids).await).await;
        same("inbox_tails", left, right)?;
        for pick in 0..6 {
            let queues = shape::queues(pick);
            let [left, right] = self.both(async |store| store.outlook(&queues).await).await;
            same("outlook", left, right)?;
            let worker = shape::worker(pick);
            let [left, right] = self.both(async |store| store.held_by(&worker).await).await;
            same("held_by", left, right)?;
        }
        let [left, right] = self.both(async |store| store.workers().await).await;
        same("workers", left, right)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(asked: &str, left: T, right: T) -> Step {
    if left == right {
        return Ok(());
    }
    Err(Told { asked: asked.into(), left: format!("{left:?}"), right: format!("{right:?}") })
}
