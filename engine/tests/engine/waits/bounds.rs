//! How many tasks a tree may have.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plica_conformance::layer::{Layer, Layered};
use plica_engine::Stop;
use plica_kernel::event::EventType;
use plica_kernel::limits::TREE_TASKS_MAX;
use plica_ports::Store;
use plica_ports::store::{Page, Row, StoreError, TaskFilter};
use serde_json::json;

use super::stage::{Stage, calls, delegate};
use crate::common::say;

/// A store in which every tree has so many tasks below its root already.
struct Crowded {
    inner: Arc<dyn Store>,
    tasks: usize,
}

#[async_trait]
impl Layer for Crowded {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Vec<Row>, StoreError> {
        let Some(prefix) = &filter.prefix else { return self.inner.tasks(filter, page).await };
        let root = prefix.trim_end_matches('.').parse().expect("a prefix is a root and a point");
        let row = self.inner.row(&root).await?.expect("the root is there");
        Ok(vec![row; self.tasks.min(page.limit)])
    }
}

/// The last task that a tree has room for is spawned, also by a reply that asks for more.
#[tokio::test(start_paused = true)]
async fn rc_10_a_tree_of_tasks_is_bounded() {
    let most = usize::try_from(TREE_TASKS_MAX).expect("a bound fits");
    for (there, spawned) in [(0, 2), (most - 1, 1), (most, 0)] {
        let two = calls(&[delegate("helper", json!({})), delegate("helper", json!({}))]);
        let stage = Stage::new(&[("helper", &[say("done")]), ("main", &[two, say("so be it")])]);
        let task = stage.submit(|_| ()).await;
        let worker = stage.other(Arc::new(Layered(Crowded { inner: stage.store.clone(), tasks: there })));
        let stop = Stop::new();
        let told = stop.clone();
        let working = tokio::spawn(async move { worker.run(told).await });
        stage.reaches(&task, EventType::TaskCompleted).await;
        stop.stop();
        working.await.unwrap().unwrap();
        assert_eq!(stage.count(&task, EventType::SubtaskSpawned).await, spawned, "{there} tasks below the root");
        assert_eq!(stage.count(&task, EventType::ToolCallDenied).await, 2 - spawned);
        assert_eq!(stage.conversation(&task).await.contains("4000 tasks all together"), spawned < 2);
        tokio::time::sleep(Duration::from_secs(60)).await;
        stage.is_at_rest(&task).await;
    }
}
