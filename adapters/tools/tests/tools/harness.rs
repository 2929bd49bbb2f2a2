//! A workspace to call tools in.

use std::path::{Path, PathBuf};

use plica_kernel::event::FileWas;
use plica_kernel::id::{CallId, Epoch, RunId, Seq, TaskId, idempotency_key};
use plica_ports::{CallContext, Recovered, Stop, StopSignal, TaskJobs, Tool, ToolError, ToolOutput};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A folder that is a workspace, in a folder that is not.
pub struct Scene {
    outside: tempfile::TempDir,
    pub context: CallContext,
}

impl Scene {
    pub fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let workspace = outside.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let context = context(&workspace);
        Self { outside, context }
    }

    pub fn outside(&self) -> &Path {
        self.outside.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.context.workspace.join(name)
    }

    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn content(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The names in the workspace's own folder, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(&self.context.workspace)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn stopped_by(&mut self, token: &CancellationToken) {
        self.context.stop = StopSignal::new(Token(token.clone()));
    }

    /// Calls the tool, which does to files what it foresaw and nothing else (TO-5); what a file over
    /// the bound of what is kept held need not be foreseen.
    pub async fn call(&self, tool: &dyn Tool, args: Value) -> Result<ToolOutput, ToolError> {
        let args = args.to_string();
        let foreseen = tool.foresee(&args, &self.context.workspace).await;
        let result = tool.call(&args, &self.context).await;
        if let Ok(output) = &result {
            let mut files = foreseen.files;
            for (seen, happened) in files.iter_mut().zip(&output.files) {
                if seen.before == FileWas::Unknown && matches!(happened.before, FileWas::Large(_)) {
                    seen.before = happened.before.clone();
                }
            }
            assert_eq!(output.files, files, "{args}");
            assert_eq!(output.blobs, foreseen.blobs, "{args}");
        }
        result
    }

    pub async fn text(&self, tool: &dyn Tool, args: Value) -> String {
        self.call(tool, args).await.unwrap().text
    }

    /// The text of a call that has to fail.
    pub async fn failure(&self, tool: &dyn Tool, args: Value) -> String {
        match self.call(tool, args).await {
            Err(ToolError::Failed(output)) => output.text,
            other => panic!("the call did not fail: {other:?}"),
        }
    }

    pub async fn recover(&self, tool: &dyn Tool, args: Value) -> Recovered {
        tool.recover(&args.to_string(), &self.context).await
    }
}

struct Token(CancellationToken);

#[async_trait::async_trait]
impl Stop for Token {
    fn is_stopped(&self) -> bool {
        self.0.is_cancelled()
    }
    async fn stopped(&self) {
        self.0.cancelled().await;
    }
}

pub fn context(workspace: &Path) -> CallContext {
    let task = TaskId::new("task-1").unwrap();
    let call = CallId { decision: Seq(7), index: 0 };
    CallContext {
        idempotency_key: idempotency_key(&task, call),
        task,
        call,
        attempt: 1,
        epoch: Epoch(3),
        run: RunId::new("run-1").unwrap(),
        workspace: workspace.to_path_buf(),
        env: vec![],
        jobs: TaskJobs::none(),
        stop: StopSignal::never(),
    }
}
