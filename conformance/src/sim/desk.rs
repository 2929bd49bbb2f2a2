//! Those who answer what tasks ask: late, twice, wrongly, or before they are asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plica_kernel::body::Blob;
use plica_kernel::event::{ApprovalVerdict, CallResolution};
use plica_kernel::id::{CallId, DedupKey, Seq, TaskId};
use plica_kernel::wake::Item;
use plica_ports::store::DeliverError;
use plica_ports::{ContentStore, Store};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::agents::{Plan, Plans, Sending, Sent};
use super::definitions;
use super::oracle::{Need, Oracle};
use super::prng::Prng;

/// How long someone waits before trying again.
pub const PAUSE: Duration = Duration::from_millis(700);

/// Rulings on one task after which whoever is asked says no: else a task whose budget is spent
/// before its model replies, and that is granted the same again and again, comes to no end.
const RULINGS: u32 = 5;

/// The way of people to inboxes.
#[derive(Clone)]
pub struct Post {
    store: Arc<dyn Store>,
    /// Where bodies go, if not into the store.
    content: Option<Arc<dyn ContentStore>>,
    oracle: Arc<Oracle>,
}

impl Post {
    /// The way through `store`, and `content` if bodies are there.
    pub fn new(store: Arc<dyn Store>, content: Option<Arc<dyn ContentStore>>, oracle: Arc<Oracle>) -> Self {
        Self { store, content, oracle }
    }

    /// Delivers until it is certain what became of it.
    pub async fn deliver(&self, task: &TaskId, key: &str, item: &Item) {
        let key = DedupKey::new(key).expect("a key without white space");
        loop {
            match self.store.deliver(task, "user:sim", item, &key).await {
                Ok(_) => return self.oracle.promised(task, item),
                Err(DeliverError::TaskOver { .. }) => return self.oracle.turned_down(task, item),
                Err(DeliverError::CommitUnknown { .. } | DeliverError::Store(_)) => {}
                Err(error) => return self.oracle.violated(task.as_str(), error.to_string()),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends everything that is to be sent to a task that exists now.
    pub async fn send_all(&self, plan: &Plan) {
        let mut sendings = JoinSet::new();
        for (nth, sending) in plan.sendings.iter().cloned().enumerate() {
            sendings.spawn(self.clone().send(plan.clone(), nth, sending));
        }
        while sendings.join_next().await.is_some() {}
    }

    async fn send(self, plan: Plan, nth: usize, sending: Sending) {
        let task = plan.id.clone();
        tokio::time::sleep(Duration::from_millis(sending.at_ms)).await;
        let key = format!("key-{nth}");
        let item = match sending.what {
            Sent::Item(item) => item,
            Sent::Back(choice) => Item::Rewind { to_seq: self.place(&task, choice) },
            Sent::Another(choice) => self.revision(&plan, choice).await,
        };
        self.deliver(&task, &key, &item).await;
        if let Some(after) = sending.again_ms {
            tokio::time::sleep(Duration::from_millis(after)).await;
            self.deliver(&task, &key, &item).await;
        }
    }

    /// The order to move to another definition, whose bodies are there before it is.
    async fn revision(&self, plan: &Plan, choice: u64) -> Item {
        let (definition, mut bodies) = definitions::another(plan, choice);
        let definition = definitions::blob(&definition);
        bodies.push(definition.clone());
        for body in &bodies {
            while !self.put(body).await {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Item::Revise { definition: definition.reference }
    }

    async fn put(&self, body: &Blob) -> bool {
        let Some(content) = self.content.as_deref().or_else(|| self.store.content()) else { return false };
        content.put(body).await.is_ok()
    }

    /// Where a task is to go back to: mostly where a turn has ended.
    fn place(&self, task: &TaskId, choice: u64) -> Seq {
        let landings = self.oracle.landings(task);
        let nth = usize::try_from(choice).unwrap_or(0);
        match landings.len() {
            0 => Seq(choice),
            _ if choice.is_multiple_of(6) => Seq(choice),
            many => landings[nth % many],
        }
    }
}

/// Those who answer.
pub struct Desk {
    seed: u64,
    post: Post,
    plans: Arc<Plans>,
    needs: UnboundedReceiver<(TaskId, Need)>,
    /// How many needs are not answered yet.
    open: Arc<AtomicUsize>,
}

impl Desk {
    /// Those who answer `needs`, of which `open` are left.
    pub fn new(
        seed: u64,
        post: Post,
        plans: Arc<Plans>,
        needs: UnboundedReceiver<(TaskId, Need)>,
        open: Arc<AtomicUsize>,
    ) -> Self {
        Self { seed, post, plans, needs, open }
    }

    /// Answers everything sooner or later.
    pub async fn answer_all(mut self) {
        let mut answering = JoinSet::new();
        let mut rulings: BTreeMap<TaskId, u32> = BTreeMap::new();
        while let Some((task, need)) = self.needs.recv().await {
            let rulings = rulings.entry(task.clone()).or_default();
            *rulings += u32::from(matches!(need, Need::Verdict(_)));
            let clerk = Clerk {
                is_tired: *rulings > RULINGS,
                prng: Prng::named(self.seed, &format!("{task} {need:?}")),
                post: self.post.clone(),
                plans: self.plans.clone(),
                task,
            };
            let open = self.open.clone();
            answering.spawn(async move {
                clerk.see_to(need).await;
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

/// Someone who sees to one need of one task.
struct Clerk {
    prng: Prng,
    post: Post,
    plans: Arc<Plans>,
    task: TaskId,
    /// Whether there have been too many rulings already.
    is_tired: bool,
}

impl Clerk {
    async fn see_to(self, need: Need) {
        match need {
            Need::Answer(call) => {
                let text = |word: &str| format!("{word} answer to {call} of {}", self.task);
                let right = Item::Answer { call, text: text("the") };
                let other = Item::Answer { call, text: text("another") };
                self.answer(call, "answer", right, other).await;
            }
            Need::Verdict(call) => {
                let approves = self.prng.chance(700) && !self.is_tired;
                let right = if approves { ApprovalVerdict::Approve } else { ApprovalVerdict::Deny };
                let other = if self.prng.chance(500) { ApprovalVerdict::Approve } else { ApprovalVerdict::Deny };
                let ruling = |verdict, reason: &str| Item::Verdict { call, reason: Some(reason.into()), verdict };
                self.answer(call, "verdict", ruling(right, "on the whole"), ruling(other, "then again")).await;
            }
            Need::Settlement(call) => {
                // Not everybody cares, and some say two things of it.
                for nth in 0..self.prng.below(3) {
                    self.pause(20_000).await;
                    let landed = self.prng.chance(500);
                    let output = landed.then(|| format!("as seen by someone, {nth}"));
                    let verdict = if landed { CallResolution::Landed } else { CallResolution::Skip };
                    let item = Item::Resolve { call, output, verdict };
                    self.post.deliver(&self.task, &format!("settle-{nth}:{call}"), &item).await;
                }
            }
            Need::Event(call, kind) => {
                self.pause(30_000).await;
                let event = Item::Event { data: None, event: kind };
                self.post.deliver(&self.task, &format!("event:{call}"), &event).await;
                if self.prng.chance(150) {
                    // It happens twice, and the second time perhaps to nobody.
                    self.pause(5_000).await;
                    self.post.deliver(&self.task, &format!("event-again:{call}"), &event).await;
                }
            }
            Need::Word(at) => {
                self.pause(20_000).await;
                let key = format!("word-{at}");
                self.post.deliver(&self.task, &key, &Item::Message { text: format!("go on: {key}") }).await;
            }
            Need::Company(child) => self.keep_company(&child).await,
        }
    }

    /// Mostly soon, and at times after so long.
    async fn pause(&self, longest_ms: u64) {
        let late = self.prng.chance(150);
        let ms = if late { self.prng.between(longest_ms / 6, longest_ms) } else { self.prng.between(20, 8_000) };
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Gives the right answer, and now and then others: of the wrong kind, to another call, to
    /// one that is still to come, or a second one that says something else.
    async fn answer(&self, call: CallId, word: &str, right: Item, other: Item) {
        let wrong = match self.prng.below(16) {
            0 => Some(Item::Answer { call, text: "beside the point".into() }),
            1 => Some(Item::Verdict { call, reason: None, verdict: ApprovalVerdict::Approve }),
            2 => Some(redirected(&right, CallId { index: call.index + 1, ..call })),
            3 => {
                Some(redirected(&right, CallId { decision: Seq(call.decision.0 + self.prng.between(1, 9)), index: 0 }))
            }
            _ => None,
        };
        self.pause(30_000).await;
        if let Some(wrong) = wrong {
            self.post.deliver(&self.task, &format!("wrong-{word}:{call}"), &wrong).await;
        }
        let key = format!("{word}:{call}");
        self.post.deliver(&self.task, &key, &right).await;
        if self.prng.chance(200) {
            self.pause(5_000).await;
            self.post.deliver(&self.task, &key, &right).await;
        }
        if self.prng.chance(150) {
            self.post.deliver(&self.task, &format!("other-{key}"), &other).await;
        }
    }

    /// Sends a child what it is to be sent; its parent may be told to stop while it is made.
    async fn keep_company(&self, child: &TaskId) {
        if self.prng.chance(60) {
            tokio::time::sleep(Duration::from_millis(self.prng.below(50))).await;
            let reason = Some("never mind".into());
            let order = if self.prng.chance(600) { Item::Cancel { reason } } else { Item::Interrupt { reason } };
            self.post.deliver(&self.task, &format!("order-after:{child}"), &order).await;
        }
        if let Some(plan) = self.plans.of(child) {
            self.post.send_all(&plan).await;
        }
    }
}

/// The same answer to another call.
fn redirected(item: &Item, to: CallId) -> Item {
    let mut item = item.clone();
    if let Item::Answer { call, .. } | Item::Verdict { call, .. } = &mut item {
        *call = to;
    }
    item
}
