use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use plica_ports::{Tool, ToolError, ToolOutput};
use plica_tools::{Edit, Glob, Grep, Read, Write};
use serde_json::json;

use crate::harness::Scene;

/// A workspace with every way out that a path or a link can be.
fn scene() -> (Scene, Vec<String>) {
    let scene = Scene::new();
    std::fs::write(scene.outside().join("secret.txt"), "secret").unwrap();
    scene.put("dir/a.txt", "a");
    symlink("../secret.txt", scene.path("link")).unwrap();
    symlink(scene.outside().join("secret.txt"), scene.path("absolute")).unwrap();
    symlink("..", scene.path("up")).unwrap();
    symlink("/", scene.path("root")).unwrap();
    symlink("../../secret.txt", scene.path("dir/link")).unwrap();
    let outside = scene.outside().join("secret.txt");
    let from_root = format!("root{}", outside.display());
    let mut ways: Vec<String> =
        ["../secret.txt", "dir/../../secret.txt", "link", "absolute", "up/secret.txt", "dir/link", "/etc/passwd"]
            .map(String::from)
            .into();
    ways.push(outside.to_string_lossy().into_owned());
    ways.push(from_root);
    ways.push(scene.path("../secret.txt").to_string_lossy().into_owned());
    ways.push(scene.path("link").to_string_lossy().into_owned());
    (scene, ways)
}

#[tokio::test]
async fn to_5_no_path_and_no_link_leads_out() {
    let (scene, ways) = scene();
    for way in ways {
        for result in [
            scene.call(&Read::default(), json!({"file_path": way})).await,
            scene.call(&Write::default(), json!({"file_path": way, "content": "gotcha"})).await,
            scene.call(&Edit::default(), json!({"file_path": way, "old_string": "secret", "new_string": "x"})).await,
            scene.call(&Grep::default(), json!({"pattern": "s", "path": way, "output_mode": "content"})).await,
            scene.call(&Glob::default(), json!({"pattern": "*", "path": way})).await,
        ] {
            let Err(ToolError::Failed(output)) = result else { panic!("{way}: {result:?}") };
            assert!(output.text.contains(&way), "{way}: {}", output.text);
            assert!(output.text.contains("leads out of the workspace"), "{way}: {}", output.text);
        }
    }
    assert_eq!(std::fs::read(scene.outside().join("secret.txt")).unwrap(), b"secret");
}

#[tokio::test]
async fn to_5_nothing_is_made_outside() {
    let (scene, _) = scene();
    for path in ["../new.txt", "up/new.txt", "up/new/a.txt", "fresh/../../new.txt", "root/tmp/../new.txt"] {
        scene.failure(&Write::default(), json!({"file_path": path, "content": "x"})).await;
    }
    let mut names: Vec<_> =
        std::fs::read_dir(scene.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["secret.txt", "workspace"]);
    assert!(!scene.path("fresh").exists());
}

#[tokio::test]
async fn to_5_searches_do_not_follow_links() {
    let (scene, _) = scene();
    symlink("dir", scene.path("inside")).unwrap();
    assert_eq!(scene.text(&Glob::default(), json!({"pattern": "**/*"})).await, "dir/a.txt\n");
    let args = json!({"pattern": "secret|a", "output_mode": "content"});
    assert_eq!(scene.text(&Grep::default(), args).await, "dir/a.txt:1:a\n");
}

#[tokio::test]
async fn to_5_links_inside_and_dots_inside_are_fine() {
    let (scene, _) = scene();
    symlink("dir", scene.path("inside")).unwrap();
    for path in ["inside/a.txt", "dir/../dir/a.txt", "./dir/./a.txt"] {
        assert_eq!(scene.text(&Read::default(), json!({"file_path": path})).await, "     1\ta\n", "{path}");
    }
    let real = std::fs::canonicalize(scene.path("dir/a.txt")).unwrap();
    assert_eq!(scene.text(&Read::default(), json!({"file_path": real})).await, "     1\ta\n");
    assert_eq!(scene.text(&Glob::default(), json!({"pattern": "*", "path": "inside"})).await, "dir/a.txt\n");
}

/// Whoever can change the workspace tries to get outside by swapping a folder for a link while
/// tools run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_5_tools_run_as_opened_and_not_as_checked() {
    let scene = Scene::new();
    std::fs::create_dir(scene.outside().join("victim")).unwrap();
    std::fs::write(scene.outside().join("victim/a.txt"), "secret").unwrap();
    let folder = scene.path("d");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // Each step may meet what a Write has just made there; the next round clears it.
                let _ = symlink("../victim", &folder);
                let _ = std::fs::remove_file(&folder);
                let _ = std::fs::create_dir(&folder);
                let _ = std::fs::write(folder.join("a.txt"), "inside");
                let _ = std::fs::remove_dir_all(&folder);
            }
        });
        let seen = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let mut seen = Vec::new();
                for _ in 0..200 {
                    let args = json!({"file_path": "d/a.txt", "content": "written"}).to_string();
                    let foreseen = Write::default().foresee(&args, &scene.context.workspace).await;
                    let text =
                        foreseen.blobs.iter().map(|blob| String::from_utf8_lossy(&blob.bytes)).collect::<String>();
                    seen.push(Ok(ToolOutput::text(text)));
                    let _ = Write::default().call(&args, &scene.context).await;
                    seen.push(scene.call(&Read::default(), json!({"file_path": "d/a.txt"})).await);
                    let args = json!({"pattern": ".", "output_mode": "content"});
                    seen.push(scene.call(&Grep::default(), args).await);
                }
                seen
            })
        });
        done.store(true, Ordering::Relaxed);
        for result in seen {
            assert!(!format!("{result:?}").contains("secret"), "{result:?}");
        }
    });
    assert_eq!(std::fs::read(scene.outside().join("victim/a.txt")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(scene.outside().join("victim")).unwrap().count(), 1);
}
