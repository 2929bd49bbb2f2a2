//! Calls of one reply that change the same file.

use plica_kernel::event::Payload;
use serde_json::json;

use crate::back::{bench, go_back, head, put, puts, turn};
use crate::common::say;

/// Outcomes go on record as they come, which is not the order in which the calls had the file.
#[tokio::test]
async fn sn_5_a_file_that_calls_of_one_reply_changed_in_turn_is_put_back() {
    let late = json!({"tool": "Put", "args": {"path": "a", "text": "two", "ends": "last"}});
    let (bench, folder) = bench(&[puts(&[put("a", "one")]), say("1"), puts(&[late, put("a", "three")]), say("2")]);
    let task = bench.submit("Turn one.").await;
    bench.work().await;
    let first = head(&bench, &task).await;
    turn(&bench, &task, "Turn two.").await;
    let second = head(&bench, &task).await;
    assert_eq!(folder.text("a").as_deref(), Some("three"));
    let ended = bench.events(&task).await.into_iter().filter_map(|event| match event.payload {
        Payload::ToolCallFinished(finished) if event.seq > first => Some(finished.call.index),
        _ => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [1, 0], "on record the other way round");

    go_back(&bench, &task, first).await;
    assert_eq!(folder.text("a").as_deref(), Some("one"));
    let last = bench.events(&task).await.pop().unwrap();
    let Payload::FilesRestored(restored) = last.payload else { panic!("{last:?}") };
    assert_eq!((restored.restored, restored.left), (1, None));
    go_back(&bench, &task, second).await;
    assert_eq!(folder.text("a").as_deref(), Some("three"), "and a rewind is undone");
    bench.sound(&task).await;
}
