//! What is tested: a store or content store with the means that some clauses take.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use plica_kernel::body::ContentRef;
use plica_ports::{ContentStore, Store};

/// How long one test may take before it counts as hanging. Nothing waits for this long: it
/// turns a lost wake-up into a failure that names the test.
const HANG: Duration = Duration::from_secs(60);

/// A means that a test may need and an adapter may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Moving the store's clock: without it, waits longer than about a second are not proved.
    Time,
    /// Opening the same store once more, as another process would.
    SecondHandle,
    /// Keeping content in the same place (CO-2).
    Content,
    /// Damaging a stored body behind the port's back.
    Damage,
}

/// What a test is told when it asks for a capability.
fn undeclared(capability: Capability) -> ! {
    panic!("the subject has no {capability:?}: give it, or declare it with .lacking(Capability::{capability:?})")
}

type Advance = Arc<dyn Fn(Duration) + Send + Sync>;
type Damage = Arc<dyn Fn(&ContentRef) + Send + Sync>;

/// A fresh, empty store under test.
#[derive(Clone)]
pub struct Subject {
    store: Arc<dyn Store>,
    second: Option<Arc<dyn Store>>,
    advance: Option<Advance>,
    lacking: Vec<Capability>,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Subject {
    /// A store, which must be empty.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, second: None, advance: None, lacking: Vec::new(), kept: Vec::new() }
    }

    /// A second handle on the same store, opened as another process would open it.
    #[must_use]
    pub fn with_second(mut self, store: Arc<dyn Store>) -> Self {
        self.second = Some(store);
        self
    }

    /// A way to move the store's clock forward.
    #[must_use]
    pub fn with_time(mut self, advance: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.advance = Some(Arc::new(advance));
        self
    }

    /// Declares that the adapter lacks a capability; what needs it is not proved.
    #[must_use]
    pub fn lacking(mut self, capability: Capability) -> Self {
        self.lacking.push(capability);
        self
    }

    /// Keeps something alive as long as the test: a temporary folder, a server.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.kept.push(Arc::new(thing));
        self
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The second handle; `None` only when its lack is declared.
    pub fn second(&self) -> Option<&Arc<dyn Store>> {
        self.second.as_ref().or_else(|| self.declared(Capability::SecondHandle))
    }

    /// How to move the clock; `None` only when its lack is declared.
    pub fn time(&self) -> Option<&(dyn Fn(Duration) + Send + Sync)> {
        self.advance.as_deref().or_else(|| self.declared(Capability::Time))
    }

    /// The store's own content store; `None` only when its lack is declared.
    pub fn content(&self) -> Option<&dyn ContentStore> {
        self.store.content().or_else(|| self.declared(Capability::Content))
    }

    /// Moves the clock if it can be moved; says whether it could.
    pub fn advance(&self, by: Duration) -> bool {
        match &self.advance {
            Some(advance) => {
                advance(by);
                true
            }
            None => false,
        }
    }

    fn declared<T>(&self, capability: Capability) -> Option<T> {
        if self.lacking.contains(&capability) { None } else { undeclared(capability) }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("lacking", &self.lacking)
            .field("kept", &self.kept.len())
            .finish_non_exhaustive()
    }
}

/// A content store under test.
#[derive(Clone)]
pub struct ContentSubject {
    content: Arc<dyn ContentStore>,
    advance: Option<Advance>,
    damage: Option<Damage>,
    lacking: Vec<Capability>,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl ContentSubject {
    /// A content store, which must be empty.
    pub fn new(content: Arc<dyn ContentStore>) -> Self {
        Self { content, advance: None, damage: None, lacking: Vec::new(), kept: Vec::new() }
    }

    /// A way to move forward the clock by which the store tells the age of bodies.
    #[must_use]
    pub fn with_time(mut self, advance: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.advance = Some(Arc::new(advance));
        self
    }

    /// A way to change a stored body without the port's knowledge, its length apart.
    #[must_use]
    pub fn with_damage(mut self, damage: impl Fn(&ContentRef) + Send + Sync + 'static) -> Self {
        self.damage = Some(Arc::new(damage));
        self
    }

    /// Declares that the adapter lacks a capability; what needs it is not proved.
    #[must_use]
    pub fn lacking(mut self, capability: Capability) -> Self {
        self.lacking.push(capability);
        self
    }

    /// Keeps something alive as long as the test.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.kept.push(Arc::new(thing));
        self
    }

    /// The content store.
    pub fn content(&self) -> &dyn ContentStore {
        &*self.content
    }

    /// How to move the clock; `None` only when its lack is declared.
    pub fn time(&self) -> Option<&(dyn Fn(Duration) + Send + Sync)> {
        match &self.advance {
            Some(advance) => Some(&**advance),
            None if self.lacking.contains(&Capability::Time) => None,
            None => undeclared(Capability::Time),
        }
    }

    /// How to damage a body; `None` only when its lack is declared.
    pub fn damage(&self) -> Option<&(dyn Fn(&ContentRef) + Send + Sync)> {
        match &self.damage {
            Some(damage) => Some(&**damage),
            None if self.lacking.contains(&Capability::Damage) => None,
            None => undeclared(Capability::Damage),
        }
    }
}

impl fmt::Debug for ContentSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentSubject")
            .field("lacking", &self.lacking)
            .field("kept", &self.kept.len())
            .finish_non_exhaustive()
    }
}

/// Runs one test on a fresh subject, in a runtime of its own; not at all where there is none to be
/// had, which whoever makes it then has said.
///
/// # Panics
/// When the test does, when it hangs, or when no runtime can be started.
pub fn run<S, M, T>(make: impl FnOnce() -> M, test: impl FnOnce(S) -> T)
where
    M: Future<Output: Into<Option<S>>>,
    T: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a test machine can start a runtime");
    runtime.block_on(async {
        let Some(subject) = make().await.into() else { return };
        assert!(tokio::time::timeout(HANG, test(subject)).await.is_ok(), "the test hangs: not done after {HANG:?}");
    });
}
