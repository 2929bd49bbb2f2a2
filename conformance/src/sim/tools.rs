//! The tools of a world, one of each kind, and what they do outside.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_kernel::body::{Blob, MEDIA_TEXT};
use plica_ports::{
    CallContext, Effect, Guard, GuardView, JobState, KnownJob, Record, Recovered, Ruling, RunningJob, StartedJob, Tool,
    ToolDeclaration, ToolError, ToolOutput,
};

use super::agents::{ASK, HURRY};
use super::equipment::Equipment;
use super::gate::Gate;
use super::oracle::Oracle;
use super::outside::Outside;
use super::planted::PlantedBug;
use super::processes::Handle;

/// What a tool is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Changes the outside; nobody can tell afterwards.
    Mutate,
    /// Changes the outside by a request that arrives even when its sender is gone.
    Far,
    /// Changes the outside, and can look whether it did.
    Mail,
    /// Changes the outside once a key, however often it is asked.
    Put,
    /// Reads.
    Look,
    /// Ends and says that it failed.
    Fail,
    /// Cannot say whether it happened.
    Vague,
    /// Has a bug.
    Burst,
    /// No call of it is allowed.
    Forbidden,
    /// Leaves a job running.
    Start,
    /// Ends the last job of its task, or says how that ended.
    Kill,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Mutate,
        Self::Far,
        Self::Mail,
        Self::Put,
        Self::Look,
        Self::Fail,
        Self::Vague,
        Self::Burst,
        Self::Forbidden,
        Self::Start,
        Self::Kill,
    ];

    /// The tool's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutate => "Mutate",
            Self::Far => "Far",
            Self::Mail => "Mail",
            Self::Put => "Put",
            Self::Look => "Look",
            Self::Fail => "Fail",
            Self::Vague => "Vague",
            Self::Burst => "Burst",
            Self::Forbidden => "Forbidden",
            Self::Start => "Start",
            Self::Kill => "Kill",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether a call that was cut off may simply run again.
    pub const fn is_retry_safe(self) -> bool {
        matches!(self, Self::Put | Self::Look)
    }

    /// Whether a call that went well changed the outside.
    pub const fn lands(self) -> bool {
        matches!(self, Self::Mutate | Self::Far | Self::Mail | Self::Put)
    }

    const fn effect(self) -> Effect {
        match self {
            Self::Look => Effect::Read,
            Self::Put => Effect::Idempotent,
            _ => Effect::Mutation,
        }
    }
}

const SCHEMA: &str = r#"{"additionalProperties":false,"properties":{"life":{"type":"integer"},"ms":{"type":"integer"},"note":{"type":"string"}},"required":["ms","note"],"type":"object"}"#;

/// A tool in the hands of one worker process.
pub struct SimTool {
    kind: Kind,
    /// The version that it is, whatever it declares.
    version: &'static str,
    declaration: ToolDeclaration,
    outside: Arc<Outside>,
    oracle: Arc<Oracle>,
    gate: Arc<Gate>,
    planted: Option<PlantedBug>,
}

impl SimTool {
    /// Every tool that the process behind `gate` has.
    pub fn all(
        outside: &Arc<Outside>,
        oracle: &Arc<Oracle>,
        gate: &Arc<Gate>,
        equipment: &Equipment,
        planted: Option<PlantedBug>,
    ) -> Vec<Arc<dyn Tool>> {
        let make = |kind: Kind| -> Option<Arc<dyn Tool>> {
            let pretended = (planted == Some(PlantedBug::ToolPretended)).then_some("1");
            let version = equipment.version(kind.name()).or(pretended)?;
            let declared = if planted == Some(PlantedBug::VersionHidden) { "1" } else { version };
            let declaration = ToolDeclaration {
                name: kind.name().into(),
                description: format!("{kind:?}"),
                schema: SCHEMA.into(),
                effect: kind.effect(),
                retry_safe: kind.is_retry_safe() || planted == Some(PlantedBug::RetryOfMutations),
                version: declared.into(),
            };
            let (outside, oracle, gate) = (outside.clone(), oracle.clone(), gate.clone());
            Some(Arc::new(Self { kind, version, declaration, outside, oracle, gate, planted }))
        };
        Kind::ALL.into_iter().filter_map(make).collect()
    }

    fn told(&self, key: &str) -> String {
        format!("{} did {key}", self.kind.name())
    }

    /// Half of the body; ends early when the call is told to stop.
    async fn work(&self, ms: u64, context: &CallContext) -> Result<(), ToolError> {
        let stopped = tokio::select! {
            biased;
            () = context.stop.stopped() => true,
            () = tokio::time::sleep(Duration::from_millis(ms)) => false,
        };
        self.gate.pass().await;
        if stopped { Err(ToolError::stopped("stopped half-way")) } else { Ok(()) }
    }

    /// The change is on its way, whatever becomes of this process.
    async fn send_far(&self, ms: u64, key: &str) {
        let (outside, key) = (self.outside.clone(), key.to_owned());
        let sent = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            outside.land(&key);
        });
        // Nothing in it can fail, and nobody aborts it.
        let _ = sent.await;
        self.gate.pass().await;
    }

    fn land(&self, key: &str) {
        match self.kind {
            _ if self.planted == Some(PlantedBug::DoneWithoutEffect) => {}
            Kind::Put if self.planted != Some(PlantedBug::TargetForgetsKeys) => self.outside.land_once(key),
            kind if kind.lands() => self.outside.land(key),
            _ => {}
        }
    }

    async fn run(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let key = context.idempotency_key.as_str();
        let half = ms_of(args) / 2;
        if self.kind == Kind::Far {
            self.send_far(half, key).await;
        } else {
            self.work(half, context).await?;
        }
        match self.kind {
            // Without the panic hook: its words would be of no use to anyone.
            Kind::Burst => std::panic::resume_unwind(Box::new("the tool has a bug")),
            Kind::Fail => return Err(ToolError::failed(format!("Fail cannot do {key}"))),
            Kind::Vague => {
                if half.is_multiple_of(2) {
                    self.outside.land(key);
                }
                return Err(ToolError::unknown(format!("no telling what became of {key}")));
            }
            Kind::Far => {}
            Kind::Kill => self.kill(context).await,
            _ => self.land(key),
        }
        tokio::time::sleep(Duration::from_millis(half)).await;
        self.gate.pass().await;
        let job = (self.kind == Kind::Start).then(|| self.start(args, context)).flatten();
        self.outside.done(key);
        let key = if self.planted == Some(PlantedBug::ResultsMixedUp) { "another call" } else { key };
        Ok(ToolOutput { job, ..self.output(key, args) })
    }

    /// Leaves a job running, if there is room for another.
    fn start(&self, args: &str, context: &CallContext) -> Option<StartedJob> {
        let slot = context.jobs.slot()?;
        let ms = ms_of(args);
        let life = number_of(args, "life").map(|life| (Duration::from_millis(life), i32::from(ms.is_multiple_of(3))));
        let dying = Duration::from_millis(ms % 4_000);
        let (handle, process) = Handle::start(context, (self.gate.clone(), slot), life, dying, self.planted);
        self.outside.start(context.idempotency_key.as_str(), process);
        Some(StartedJob { job: RunningJob::new(handle), what: format!("a job\nof {}", context.call) })
    }

    /// Ends the last job of the task, if it runs here.
    async fn kill(&self, context: &CallContext) {
        let Some(id) = self.oracle.last_job(&context.task) else { return };
        let known = context.jobs.job(id).await;
        self.oracle.note(|| format!("job {id} of {} is to be killed: {known:?}", context.task));
        if let Ok(Some(KnownJob { state: JobState::Running(job), .. })) = known {
            job.kill().await;
        }
        self.gate.pass().await;
    }

    fn output(&self, key: &str, args: &str) -> ToolOutput {
        let mut output = ToolOutput::text(self.told(key));
        if self.kind == Kind::Look && args.len() > 1_000 {
            output.whole = Some(Blob::new(MEDIA_TEXT, args.repeat(3).into_bytes()));
            let body = format!("looked at {} bytes", args.len());
            output.records.push(Record { plugin: "sim".into(), kind: "look".into(), body });
            output.text.push_str(&"; much was seen".repeat(100));
        }
        output
    }
}

/// The milliseconds that arguments ask for.
fn ms_of(args: &str) -> u64 {
    number_of(args, "ms").unwrap_or(0)
}

fn number_of(args: &str, name: &str) -> Option<u64> {
    let args: serde_json::Value = serde_json::from_str(args).unwrap_or_default();
    args[name].as_u64()
}

#[async_trait]
impl Tool for SimTool {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, args: &str, context: &CallContext) -> Result<ToolOutput, ToolError> {
        self.gate.pass().await;
        let key = context.idempotency_key.as_str();
        self.oracle.tool_begins((self.kind, self.version), args, context);
        self.outside.begin(key, self.kind.name());
        let ended = self.run(args, context).await;
        self.oracle.note(|| format!("{} ends {key}: {ended:.100?}", self.kind.name()));
        ended
    }

    async fn recover(&self, args: &str, context: &CallContext) -> Recovered {
        self.gate.pass().await;
        self.oracle.tool_looks((self.kind, self.version), context);
        if self.kind != Kind::Mail {
            return Recovered::Unknown;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.gate.pass().await;
        let key = context.idempotency_key.as_str();
        let found = self.outside.effect(key).landed > 0 || self.planted == Some(PlantedBug::RecoveryInvents);
        if found { Recovered::Found(self.output(key, args)) } else { Recovered::Unknown }
    }
}

/// Asks a person about calls whose note or goal says so.
pub struct Asking;

impl Guard for Asking {
    fn name(&self) -> &str {
        "asking"
    }

    fn rule(&self, view: &GuardView<'_>) -> Ruling {
        let member = if view.steers { "goal" } else { "note" };
        let begins = |word: &str| view.args.contains(&format!("\"{member}\":\"{word}"));
        match () {
            () if begins(HURRY) => Ruling::Ask { expires_after: Some(Duration::from_secs(12)), rule: None },
            () if begins(ASK) => Ruling::Ask { expires_after: None, rule: None },
            () => Ruling::Allow { rule: None },
        }
    }
}
