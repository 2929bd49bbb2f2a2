use std::os::unix::fs::{PermissionsExt, symlink};

use plica_kernel::body::{ContentRef, MEDIA_BYTES};
use plica_kernel::canonical::content_hash;
use plica_kernel::decide::{ChangedFile, Foreseen};
use plica_kernel::event::FileWas;
use plica_ports::{Recovered, Tool, ToolError, ToolOutput};
use plica_tools::{Edit, Read, Write};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::harness::Scene;

const STRANGE: &str = "a\0b \u{feff}é 𝄞\u{fffd}\u{2028}\r\n\u{7f}no end";

/// The only file that a call says it changed.
fn changed(output: &ToolOutput) -> &ChangedFile {
    let [file] = &output.files[..] else { panic!("one file: {:?}", output.files) };
    file
}

fn kept(content: &[u8]) -> FileWas {
    FileWas::Kept(ContentRef::of(MEDIA_BYTES, content))
}

fn file(path: &str, before: FileWas, after: &[u8]) -> ChangedFile {
    ChangedFile { after: Some(content_hash(after)), before, path: path.into() }
}

#[tokio::test]
async fn write_makes_files_and_folders_and_keeps_every_byte() {
    let scene = Scene::new();
    let args = json!({"file_path": "new/deep/a.txt", "content": STRANGE});
    let output = scene.call(&Write::default(), args).await.unwrap();
    assert_eq!(scene.content("new/deep/a.txt"), STRANGE.as_bytes());
    assert!(output.text.starts_with("created new/deep/a.txt ("), "{}", output.text);
    assert_eq!(*changed(&output), file("new/deep/a.txt", FileWas::Absent, STRANGE.as_bytes()));
    assert!(output.blobs.is_empty());
    assert_eq!(std::fs::read_dir(scene.path("new/deep")).unwrap().count(), 1, "nothing is left beside it");
}

#[tokio::test]
async fn to_5_write_records_what_the_file_was_before() {
    let scene = Scene::new();
    scene.put("a.txt", b"old \xff\0");
    let args = json!({"file_path": scene.path("a.txt"), "content": "new"});
    let output = scene.call(&Write::default(), args).await.unwrap();
    assert_eq!(*changed(&output), file("a.txt", kept(b"old \xff\0"), b"new"));
    assert_eq!(output.blobs.len(), 1);
    assert_eq!(output.blobs[0].bytes, b"old \xff\0");
    assert_eq!(scene.content("a.txt"), b"new");
}

#[tokio::test]
async fn to_5_what_cannot_be_done_is_not_foreseen() {
    let scene = Scene::new();
    scene.put("a.txt", b"old");
    symlink(scene.outside(), scene.path("out")).unwrap();
    let (write, edit) = (Write::default(), Edit::default());
    let calls: [(&dyn Tool, _); 5] = [
        (&write, json!({"file_path": "../b.txt", "content": "new"})),
        (&write, json!({"file_path": "out/b.txt", "content": "new"})),
        (&write, json!({"file_path": 3})),
        (&edit, json!({"file_path": "none.txt", "old_string": "old", "new_string": "new"})),
        (&edit, json!({"file_path": "a.txt", "old_string": "other", "new_string": "new"})),
    ];
    for (tool, args) in calls {
        let foreseen = tool.foresee(&args.to_string(), &scene.context.workspace).await;
        assert_eq!(foreseen, Foreseen::default(), "{args}");
    }
    assert_eq!(scene.content("a.txt"), b"old");
}

#[tokio::test]
async fn to_5_of_a_file_over_1_mib_the_record_says_that_it_was_not_kept() {
    let scene = Scene::new();
    for (size, kept) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let old = "x".repeat(size);
        scene.put("a.txt", format!("y{}", &old[1..]));
        for output in [
            scene.call(&Edit::default(), json!({"file_path": "a.txt", "old_string": "y", "new_string": "x"})).await,
            scene.call(&Write::default(), json!({"file_path": "a.txt", "content": "new"})).await,
        ] {
            let output = output.unwrap();
            assert_eq!(matches!(changed(&output).before, FileWas::Kept(_)), kept);
            assert_eq!(matches!(changed(&output).before, FileWas::Large(_)), !kept);
            assert_eq!(output.blobs.len(), usize::from(kept));
        }
    }
}

#[tokio::test]
async fn to_5_what_a_file_held_that_is_too_large_to_keep_is_not_foreseen() {
    let scene = Scene::new();
    // Reading it would take hours.
    std::fs::File::create(scene.path("a.txt")).unwrap().set_len(1 << 42).unwrap();
    let args = json!({"file_path": "a.txt", "content": "new"}).to_string();
    let foreseen = Write::default().foresee(&args, &scene.context.workspace).await;
    assert_eq!(foreseen, Foreseen { blobs: vec![], files: vec![file("a.txt", FileWas::Unknown, b"new")] });
    let args = json!({"file_path": "a.txt", "old_string": "old", "new_string": "new"});
    let text = scene.failure(&Edit::default(), args).await;
    assert!(text.contains("it has 4398046511104 bytes, more than Edit takes"), "{text}");
}

/// Calls of one reply run at once, and none of them undoes another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_5_changes_of_one_file_at_once_all_happen() {
    let scene = Scene::new();
    let old: String = (0..24).map(|n| format!("<{n}>")).collect();
    scene.put("d/a.txt", &old);
    symlink("d", scene.path("dl")).unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..24 {
        let path = ["d/a.txt", "dl/a.txt"][n % 2];
        let args = json!({"file_path": path, "old_string": format!("<{n}>"), "new_string": format!("[{n}]")});
        let mut context = crate::harness::context(&scene.context.workspace);
        context.idempotency_key = format!("task-1:7.{n}");
        calls.spawn(async move { Edit::default().call(&args.to_string(), &context).await });
    }
    for result in calls.join_all().await {
        assert_eq!(changed(&result.unwrap()).path, "d/a.txt");
    }
    let new: String = (0..24).map(|n| format!("[{n}]")).collect();
    assert_eq!(String::from_utf8(scene.content("d/a.txt")).unwrap(), new);
}

#[tokio::test]
async fn to_5_changes_of_one_file_happen_in_the_order_in_which_they_began() {
    let scene = Scene::new();
    let (write, edit) = (Write::default(), Edit::default());
    let first = json!({"file_path": "new/a.txt", "content": "one"}).to_string();
    let second = json!({"file_path": "new/a.txt", "old_string": "one", "new_string": "two"}).to_string();
    let third = json!({"file_path": "new/a.txt", "old_string": "two", "new_string": "three"}).to_string();
    let context = &scene.context;
    let (first, second, third) =
        tokio::join!(write.call(&first, context), edit.call(&second, context), edit.call(&third, context));
    assert_eq!(*changed(&first.unwrap()), file("new/a.txt", FileWas::Absent, b"one"));
    assert_eq!(*changed(&second.unwrap()), file("new/a.txt", kept(b"one"), b"two"));
    assert_eq!(*changed(&third.unwrap()), file("new/a.txt", kept(b"two"), b"three"));
}

/// A file has one name on record, by whatever path it was written and whether it was there or not.
#[tokio::test]
async fn sn_5_a_file_that_is_not_there_yet_has_the_name_that_it_will_have() {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path("d/e")).unwrap();
    symlink("d", scene.path("dl")).unwrap();
    symlink("d/e", scene.path("el")).unwrap();
    symlink("nowhere", scene.path("dangling")).unwrap();
    for (given, path) in [
        ("dl/x", "d/x"),
        ("d/x", "d/x"),
        ("dl/new/deep/x", "d/new/deep/x"),
        ("el/../y", "d/y"),
        ("gone/../z", "z"),
        ("gone/../dl/z", "d/z"),
        ("el/gone/../../v", "d/v"),
        ("./w", "w"),
    ] {
        let output = scene.call(&Write::default(), json!({"file_path": given, "content": "new"})).await.unwrap();
        assert_eq!(changed(&output).path, path, "{given}");
        assert_eq!(scene.content(path), b"new", "{given}");
    }
    scene.failure(&Write::default(), json!({"file_path": "dangling/x", "content": "new"})).await;
    let text = scene.failure(&Write::default(), json!({"file_path": "el/n/../../../../x", "content": "new"})).await;
    assert!(text.contains("out of the workspace"), "{text}");
    symlink("../..", scene.path("d/e/up")).unwrap();
    let text = scene.failure(&Write::default(), json!({"file_path": "d/e/up/n/../../x", "content": "new"})).await;
    assert!(text.contains("out of the workspace"), "{text}");
}

#[tokio::test]
async fn a_change_keeps_permissions_and_goes_to_where_a_link_points() {
    let scene = Scene::new();
    scene.put("real/script.sh", "#!/bin/sh\n");
    std::fs::set_permissions(scene.path("real/script.sh"), std::fs::Permissions::from_mode(0o751)).unwrap();
    symlink("real/script.sh", scene.path("link.sh")).unwrap();
    let args = json!({"file_path": "link.sh", "content": "#!/bin/sh\necho\n"});
    let output = scene.call(&Write::default(), args).await.unwrap();
    assert_eq!(changed(&output).path, "real/script.sh");
    let args = json!({"file_path": "link.sh", "old_string": "echo", "new_string": "true"});
    scene.call(&Edit::default(), args).await.unwrap();
    assert_eq!(scene.content("real/script.sh"), b"#!/bin/sh\ntrue\n");
    assert!(scene.path("link.sh").is_symlink());
    let mode = std::fs::metadata(scene.path("real/script.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
}

#[tokio::test]
async fn write_refuses_what_is_no_file() {
    let scene = Scene::new();
    scene.put("dir/a", "");
    symlink("nowhere", scene.path("dangling")).unwrap();
    symlink("round", scene.path("round")).unwrap();
    for (path, reason) in [
        ("round", "symbolic links"),
        ("dir", "is a folder"),
        (".", "is a folder"),
        ("new/", "is a folder"),
        ("dangling", "does not exist"),
        ("dir/a/b", "dir/a/b"),
    ] {
        let text = scene.failure(&Write::default(), json!({"file_path": path, "content": "x"})).await;
        assert!(text.contains(path) && text.contains(reason), "{path}: {text}");
    }
    assert_eq!(scene.names(), ["dangling", "dir", "round"]);
}

#[tokio::test]
async fn edit_replaces_the_one_occurrence_and_shows_it() {
    let scene = Scene::new();
    scene.put("a.txt", b"one\n\xfftwo\nthree\n");
    let args = json!({"file_path": "a.txt", "old_string": "two\nthree", "new_string": "2\0\n3"});
    let output = scene.call(&Edit::default(), args).await.unwrap();
    assert_eq!(scene.content("a.txt"), b"one\n\xff2\0\n3\n");
    assert_eq!(output.text, "edited a.txt: 1 replacement; it now reads\n     1\tone\n     2\t\u{fffd}2\0\n     3\t3\n");
    assert_eq!(output.blobs[0].bytes, b"one\n\xfftwo\nthree\n");
    assert_eq!(changed(&output).after, Some(content_hash(b"one\n\xff2\0\n3\n")));
}

#[tokio::test]
async fn edit_replaces_all_when_told_to() {
    let scene = Scene::new();
    scene.put("a.txt", "x x x");
    let args = json!({"file_path": "a.txt", "old_string": "x", "new_string": "xx", "replace_all": true});
    let text = scene.text(&Edit::default(), args).await;
    assert!(text.starts_with("edited a.txt: 3 replacements;"), "{text}");
    assert_eq!(scene.content("a.txt"), b"xx xx xx");
}

#[tokio::test]
async fn edit_refuses_what_is_not_clear() {
    let scene = Scene::new();
    scene.put("a.txt", "x y x aaa");
    for (path, old, new, reason) in [
        ("a.txt", "z", "y", "found 0 times"),
        ("a.txt", "x", "y", "found 2 times"),
        ("a.txt", "aa", "b", "found 2 times"),
        ("a.txt", "y", "y", "are the same"),
        ("a.txt", "", "y", "old_string is empty"),
        ("none.txt", "x", "y", "does not exist"),
        (".", "x", "y", "is a folder"),
    ] {
        let args = json!({"file_path": path, "old_string": old, "new_string": new});
        let text = scene.failure(&Edit::default(), args).await;
        assert!(text.contains(path) && text.contains(reason), "{old}: {text}");
    }
    assert_eq!(scene.content("a.txt"), b"x y x aaa");
    assert_eq!(scene.names(), ["a.txt"]);
}

#[tokio::test]
async fn to_3_a_write_that_a_crash_cut_off_is_found_by_its_content() {
    let scene = Scene::new();
    let write = Write::default();
    let args = json!({"file_path": "a.txt", "content": STRANGE});
    assert_eq!(scene.recover(&write, args.clone()).await, Recovered::Unknown, "there is no file");
    scene.put("a.txt", "something else");
    assert_eq!(scene.recover(&write, args.clone()).await, Recovered::Unknown);
    scene.call(&write, args.clone()).await.unwrap();
    let Recovered::Found(output) = scene.recover(&write, args).await else { panic!("it was found") };
    assert_eq!(*changed(&output), file("a.txt", FileWas::Unknown, STRANGE.as_bytes()));
}

#[tokio::test]
async fn to_3_an_edit_is_never_taken_for_done() {
    let scene = Scene::new();
    let args = json!({"file_path": "a.txt", "old_string": "x", "new_string": "y"});
    scene.put("a.txt", "x");
    scene.call(&Edit::default(), args.clone()).await.unwrap();
    assert_eq!(scene.recover(&Edit::default(), args).await, Recovered::Unknown);
}

#[tokio::test]
async fn to_3_recovery_removes_what_starts_of_the_call_left_and_nothing_else() {
    let scene = Scene::new();
    let key = content_hash(scene.context.idempotency_key.as_bytes()).to_string();
    let (ours, others) = (format!(".plica-{}-2-1.tmp", &key[..16]), ".plica-0123456789abcdef-2-1.tmp");
    let write = json!({"file_path": "a.txt", "content": "x"});
    let edit = json!({"file_path": "a.txt", "old_string": "x", "new_string": "y"});
    scene.put("a.txt", "z");
    scene.put(others, "of another call");
    for half in 0..2 {
        scene.put(&ours, "half");
        match half {
            0 => scene.recover(&Write::default(), write.clone()).await,
            _ => scene.recover(&Edit::default(), edit.clone()).await,
        };
        assert_eq!(scene.names(), [others, "a.txt"]);
    }
    assert_eq!(scene.content("a.txt"), b"z");
}

#[tokio::test]
async fn a_call_that_was_stopped_before_changes_nothing() {
    let mut scene = Scene::new();
    let token = CancellationToken::new();
    token.cancel();
    scene.stopped_by(&token);
    scene.put("a.txt", "x");
    for result in [
        scene.call(&Write::default(), json!({"file_path": "a.txt", "content": "y"})).await,
        scene.call(&Edit::default(), json!({"file_path": "a.txt", "old_string": "x", "new_string": "y"})).await,
        scene.call(&Read::default(), json!({"file_path": "a.txt"})).await,
    ] {
        assert!(matches!(result, Err(ToolError::Stopped(_))), "{result:?}");
    }
    assert_eq!(scene.content("a.txt"), b"x");
}
