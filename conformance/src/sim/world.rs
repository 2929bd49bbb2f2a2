//! A world from its beginning to its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plica_engine::{Host, Stop, Worker, WorkerOptions};
use plica_kernel::id::{InstanceId, Seq, TaskId, WorkerId};
use plica_memory::MemoryStore;
use plica_ports::store::{Page, StoredEvent, TaskFilter, Worker as Identity};
use plica_ports::{ContentStore, Store};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinHandle, JoinSet};

use super::agents::Plans;
use super::collector::{Collector, HurriedClock};
use super::desk::{Desk, Post};
use super::equipment::{Equipment, Variety};
use super::faults::{Misfortune, Way, Weather};
use super::gate::Gate;
use super::model::{OneModel, SimModel};
use super::observer::Audit;
use super::oracle::{Need, Oracle, Violation};
use super::outside::Outside;
use super::people::Person;
use super::planted::{Planted, Side};
use super::prng::Prng;
use super::time::{WorkerClock, WorldClock};
use super::tools::{Asking, SimTool};
use super::witness::Witness;
use super::{Failure, Options, Report};
use crate::faults::Faulty;
use crate::layer::Layered;

/// How long things go wrong at most.
const SAFETY: Duration = Duration::from_secs(120);
/// How long everything may take to end once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(40 * 60);
/// How long what is still on its way may take to arrive.
const AFTERMATH: Duration = Duration::from_secs(12);
/// How often the world looks whether all has ended.
const LOOK: Duration = Duration::from_millis(500);

/// A world.
pub struct World {
    seed: u64,
    options: Options,
    plans: Arc<Plans>,
    outside: Arc<Outside>,
    clock: Arc<WorldClock>,
    oracle: Arc<Oracle>,
    memory: Arc<MemoryStore>,
    /// The store as everyone reaches it, but for the way there.
    store: Arc<dyn Store>,
    /// Where bodies are, when that is another place than the store.
    content: Option<Arc<dyn ContentStore>>,
    weather: Arc<Weather>,
    /// How workers differ.
    variety: Variety,
    /// Whether someone keeps a tally of every log.
    observed: bool,
    starts: AtomicU64,
    lease: Duration,
    /// What tasks ask of people; whoever answers takes it.
    needed: Mutex<Option<UnboundedReceiver<(TaskId, Need)>>>,
}

impl World {
    /// The world of a seed, before anything has happened.
    pub async fn begin(seed: u64, options: Options) -> Arc<Self> {
        let prng = Prng::named(seed, "world");
        let plans = Arc::new(Plans::new(seed));
        let outside = Arc::new(Outside::default());
        let clock = Arc::new(WorldClock::new());
        let memory = Arc::new(MemoryStore::with(clock.clone(), seed));
        let ledger = memory.ledger().await.map(|ledger| ledger.to_string()).unwrap_or_default();
        let (needs, needed) = unbounded_channel();
        let observed = prng.chance(600);
        let oracle = Oracle::new(plans.clone(), outside.clone(), clock.clone(), ledger, options.trace, needs);
        let oracle = Arc::new(if observed { oracle.observed() } else { oracle });
        let apart = prng.chance(350);
        let elsewhere = || Arc::new(MemoryStore::with(Arc::new(HurriedClock(clock.clone())), seed + 1));
        let content = apart.then(|| elsewhere() as Arc<dyn ContentStore>);
        let flawed = Arc::new(Layered(Planted::new(memory.clone(), options.planted, Side::Store, seed)));
        let store = Arc::new(Layered(Witness::new(flawed, content.clone(), oracle.clone())));
        let lease = Duration::from_secs(prng.between(5, 30));
        let weather = Arc::new(Weather::new(seed));
        Arc::new(Self {
            seed,
            options,
            plans,
            outside,
            clock,
            oracle,
            memory,
            store,
            content,
            weather,
            variety: Variety::drawn(&prng),
            observed,
            starts: AtomicU64::new(0),
            lease,
            needed: Mutex::new(Some(needed)),
        })
    }

    /// Lets the world go on until all has ended or something does not hold.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub async fn live(self: Arc<Self>) -> Result<Report, Failure> {
        let mut everyone = JoinSet::new();
        for slot in 0..Prng::named(self.seed, "slots").between(2, 3) {
            everyone.spawn(self.clone().keep_working(slot));
        }
        everyone.spawn(self.clone().meddle());
        everyone.spawn(self.clone().inspect());
        tokio::select! {
            biased;
            () = self.oracle.broken() => {}
            () = self.story() => {}
        }
        everyone.shutdown().await;
        match self.oracle.violation() {
            None => Ok(self.report().await),
            Some(violation) => Err(self.failure(violation)),
        }
    }

    fn failure(&self, violation: Violation) -> Failure {
        Failure { seed: self.seed, violation, trace: self.oracle.trace() }
    }

    /// Safety, liveness, and the reckoning.
    async fn story(self: &Arc<Self>) {
        let mut people = JoinSet::new();
        let way = Arc::new(Way::new(self.weather.clone(), None));
        let store: Arc<dyn Store> = Arc::new(Faulty::new(self.store.clone(), way));
        let needed = self.needed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut desk = JoinSet::new();
        if let Some(needed) = needed {
            let post = Post::new(store.clone(), self.content.clone(), self.oracle.clone());
            desk.spawn(Desk::new(self.seed, post, self.plans.clone(), needed, self.oracle.open_needs()).answer_all());
        }
        if let Some(content) = self.content.clone() {
            let oracle = self.oracle.clone();
            desk.spawn(Collector::new(self.seed, store.clone(), content, oracle, self.options.planted).go_on());
        }
        for plan in self.plans.all() {
            let person = Person::new(
                self.seed,
                (plan, self.plans.clone()),
                store.clone(),
                self.content.clone(),
                self.oracle.clone(),
            );
            people.spawn(person.act());
        }
        if tokio::time::timeout(SAFETY, self.all_ended(&mut people)).await.is_err() {
            self.oracle.note(|| "from here on nothing goes wrong any more".into());
        }
        self.weather.clear_up();
        // What is not over when patience is lost is named by the reckoning.
        let _ = tokio::time::timeout(PATIENCE, self.all_ended(&mut people)).await;
        tokio::time::sleep(AFTERMATH).await;
        let rows = self.memory.tasks(&TaskFilter::default(), &Page::first(usize::MAX)).await.unwrap_or_default();
        self.oracle.finish(&rows);
    }

    /// Returns once every task is at its end and everyone has sent what they wanted to.
    async fn all_ended(&self, people: &mut JoinSet<()>) {
        while people.join_next().await.is_some() {}
        let open = self.oracle.open_needs();
        let ended = || self.plans.all().iter().all(|plan| self.oracle.has_ended(&plan.id));
        while open.load(Ordering::Relaxed) > 0 || !ended() {
            if self.weather.is_clear() {
                self.unblock().await;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Someone looks after tasks that became poison while things went wrong.
    async fn unblock(&self) {
        let blocked = TaskFilter { blocked: true, ..TaskFilter::default() };
        for row in self.memory.tasks(&blocked, &Page::first(usize::MAX)).await.unwrap_or_default() {
            self.oracle.unblocking(&row.id);
            // The row is there, and a store in memory does not fail.
            let _ = self.memory.unblock(&row.id).await;
        }
    }

    /// Looks whether jobs are alive that should not be, and whether their tasks are due.
    async fn inspect(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.oracle.look_at_processes();
            for task in self.oracle.waiting_with_jobs() {
                if let (Ok(Some(row)), Ok(now)) = (self.memory.row(&task).await, self.memory.now().await) {
                    self.oracle.row_shown(&row, now);
                }
            }
        }
    }

    /// Outages, and a clock that is set.
    async fn meddle(self: Arc<Self>) {
        let prng = Prng::named(self.seed, "meddling");
        while !self.weather.is_clear() {
            tokio::time::sleep(Duration::from_millis(prng.between(2_000, 40_000))).await;
            if self.weather.is_clear() {
                return;
            }
            match prng.below(4) {
                0 => self.weather.outage(prng.between(300, 45_000)),
                1 => self.clock.set(i64::try_from(prng.between(1_000, 90_000_000)).unwrap_or(0)),
                2 => self.clock.set(-i64::try_from(prng.between(1_000, 20_000_000)).unwrap_or(0)),
                _ => {}
            }
        }
    }

    /// One worker after another, each until something befalls it.
    async fn keep_working(self: Arc<Self>, slot: u64) {
        let prng = Prng::named(self.seed, &format!("slot {slot}"));
        loop {
            let misfortune = Misfortune::drawn(&prng);
            let gate = Arc::new(Gate::new(misfortune.last_passage()));
            let stop = Stop::new();
            let mut process = self.start(slot, &prng, &gate, &stop);
            let befallen = async {
                self.befall(misfortune, &gate, &stop, &mut process).await;
                tokio::time::sleep(Duration::from_millis(prng.between(10, 15_000))).await;
            };
            tokio::select! {
                biased;
                () = self.weather.cleared() => {}
                () = befallen => continue,
            }
            gate.spare();
            gate.resume();
            if !gate.is_gone() && !process.is_finished() {
                // It works on until the world ends.
                let _ = process.await;
                if matches!(misfortune, Misfortune::Retires(_)) {
                    continue;
                }
                return self.oracle.violated("worker", "ended though nothing went wrong".into());
            }
            process.abort();
        }
    }

    /// Lets something befall a process, until it has ended.
    async fn befall(&self, misfortune: Misfortune, gate: &Gate, stop: &Stop, process: &mut JoinHandle<()>) {
        match misfortune {
            Misfortune::DiesAfter(after) => tokio::time::sleep(after).await,
            Misfortune::DiesAt(_) => gate.died().await,
            Misfortune::Stalls(after, during) => {
                tokio::time::sleep(after).await;
                gate.stall();
                tokio::time::sleep(during).await;
                gate.resume();
                tokio::time::sleep(during).await;
            }
            Misfortune::Retires(after) => {
                tokio::time::sleep(after).await;
                self.oracle.note(|| "a worker is told to stop".into());
                stop.stop();
                // Once told it ends by itself; if it does not in time it is killed.
                let _ = tokio::time::timeout(Duration::from_secs(60), &mut *process).await;
            }
        }
        self.oracle.note(|| format!("a worker ends: {misfortune:?}"));
        gate.kill();
        process.abort();
    }

    fn start(self: &Arc<Self>, slot: u64, prng: &Prng, gate: &Arc<Gate>, stop: &Stop) -> JoinHandle<()> {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        let clock = WorkerClock::new(
            Duration::from_millis(prng.below(100_000_000)),
            i32::try_from(prng.below(400)).unwrap_or(0) - 200,
            gate.clone(),
        );
        let way = Arc::new(Way::new(self.weather.clone(), Some(gate.clone())));
        let store = Arc::new(Faulty::new(self.store.clone(), way));
        let store = Arc::new(Layered(Planted::new(store, self.options.planted, Side::Worker, self.seed)));
        let instance = format!("w{slot}-{number}");
        let equipment = self.equip(&instance, prng);
        let model = SimModel::new(self.plans.clone(), self.oracle.clone(), gate.clone(), &instance);
        let mut host = Host::builder(store, Arc::new(OneModel(Arc::new(model))))
            .tools(SimTool::all(&self.outside, &self.oracle, gate, &equipment, self.options.planted))
            .guard(Arc::new(Asking))
            .clock(Arc::new(clock));
        if let Some(content) = &self.content {
            host = host.content(content.clone());
        }
        if self.observed {
            host = host.observer(Arc::new(Audit::new(&instance, self.oracle.clone())));
        }
        let identity = Identity {
            id: WorkerId::new(format!("w{slot}")).expect("a letter and a number"),
            instance: InstanceId::new(instance).expect("a letter and numbers"),
            host: "sim".into(),
            version: "sim".into(),
            process: None,
        };
        let options = WorkerOptions {
            identity,
            queues: Vec::new(),
            lease: self.lease,
            concurrency: usize::try_from(prng.between(1, 3)).unwrap_or(1),
            until_idle: false,
            only: None,
        };
        let (worker, stop, oracle) = (Worker::new(host.build(), options), stop.clone(), self.oracle.clone());
        tokio::spawn(async move {
            if let Err(error) = worker.run(stop).await {
                oracle.violated("worker", format!("gave up: {error}"));
            }
        })
    }

    /// What a process that starts now has of the tools; nothing lacks once nothing goes wrong.
    fn equip(&self, instance: &str, prng: &Prng) -> Arc<Equipment> {
        let variety = Variety { lacks: self.variety.lacks && !self.weather.is_clear(), ..self.variety };
        let equipment = Arc::new(Equipment::drawn(prng, variety));
        self.oracle.equipped(instance, equipment.clone());
        equipment
    }

    /// The logs of all tasks.
    pub async fn logs(&self) -> Vec<Vec<StoredEvent>> {
        let mut logs = Vec::new();
        for plan in self.plans.all() {
            logs.push(self.memory.read(&plan.id, Seq(1), usize::MAX).await.unwrap_or_default());
        }
        logs
    }

    async fn report(&self) -> Report {
        let mut hashed = Vec::new();
        let (mut events, mut kinds) = (0, BTreeMap::new());
        let logs = self.logs().await;
        let tasks = logs.len();
        for log in logs {
            events += log.len();
            for event in log {
                let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap_or_default();
                *kinds.entry(body["type"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
                hashed.extend(event.body);
            }
        }
        let virtual_ms = self.clock.elapsed().as_millis();
        hashed.extend(format!("{:?} {virtual_ms}", self.outside.all()).into_bytes());
        Report {
            seed: self.seed,
            digest: plica_kernel::canonical::content_hash(&hashed).to_string(),
            tasks,
            events,
            starts: self.starts.load(Ordering::Relaxed),
            virtual_ms,
            kinds,
        }
    }
}
