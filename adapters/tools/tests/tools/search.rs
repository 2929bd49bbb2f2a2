use plica_tools::{Glob, Grep};
use serde_json::json;

use crate::harness::Scene;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.put("b.txt", "beta\nALPHA\n");
    scene.put("a.txt", "alpha\nmiddle\nend alpha\n");
    scene.put("src/main.rs", "fn alpha() {}\n");
    scene.put("src/deep/lib.rs", "fn beta() {}\n");
    scene.put(".hidden/x.txt", "alpha\n");
    scene.put(".git/config.txt", "alpha\n");
    scene.put("target/out.txt", "alpha\n");
    scene.put("src/kept.log", "alpha\n");
    scene.put("src/lost.log", "alpha\n");
    scene.put("bin.dat", b"alpha\0alpha\n");
    scene.put(".gitignore", "target/\n*.log\n");
    scene.put("src/.gitignore", "!kept.log\n");
    scene
}

#[tokio::test]
async fn glob_gives_sorted_paths_relative_to_the_workspace() {
    let scene = scene();
    let glob = Glob::default();
    for (args, expected) in [
        (json!({"pattern": "*.txt"}), "a.txt\nb.txt\n"),
        (json!({"pattern": "./*.txt"}), "a.txt\nb.txt\n"),
        (json!({"pattern": scene.path("*.txt")}), "a.txt\nb.txt\n"),
        (json!({"pattern": "**/*.rs"}), "src/deep/lib.rs\nsrc/main.rs\n"),
        (json!({"pattern": "*.rs", "path": "src"}), "src/main.rs\n"),
        (json!({"pattern": "*.rs", "path": scene.path("src")}), "src/main.rs\n"),
        (json!({"pattern": "**/*.{log,dat}"}), "bin.dat\nsrc/kept.log\n"),
        (json!({"pattern": ".hidden/*"}), ".hidden/x.txt\n"),
        (json!({"pattern": "*", "path": ".hidden"}), ".hidden/x.txt\n"),
        (json!({"pattern": "*", "path": "target"}), "target/out.txt\n"),
        (json!({"pattern": "**/lost.log"}), "[no file in . matches **/lost.log]\n"),
        (json!({"pattern": "*.none"}), "[no file in . matches *.none]\n"),
    ] {
        assert_eq!(scene.text(&glob, args.clone()).await, expected, "{args}");
    }
}

#[tokio::test]
async fn searches_that_cannot_be_made_say_why() {
    let scene = scene();
    for (pattern, path, reason) in
        [("[", ".", "cannot be used"), ("*", "none", "does not exist"), ("../*", ".", "`..`")]
    {
        let text = scene.failure(&Glob::default(), json!({"pattern": pattern, "path": path})).await;
        assert!(text.contains(reason), "{text}");
    }
    for (pattern, path, reason) in
        [("(", ".", "cannot be used"), ("a\nb", ".", "cannot be used"), ("a", "none", "does not exist")]
    {
        let text = scene.failure(&Grep::default(), json!({"pattern": pattern, "path": path})).await;
        assert!(text.contains(reason), "{text}");
    }
    let text = scene.failure(&Glob::default(), json!({"pattern": "*", "path": "a.txt"})).await;
    assert!(text.contains("a.txt"), "{text}");
}

#[tokio::test]
async fn grep_gives_files_lines_and_counts() {
    let scene = scene();
    let grep = Grep::default();
    for (args, expected) in [
        (json!({"pattern": "alpha"}), "a.txt\nsrc/kept.log\nsrc/main.rs\n"),
        (json!({"pattern": "alpha", "path": "src"}), "src/kept.log\nsrc/main.rs\n"),
        (json!({"pattern": "alpha", "path": "b.txt", "case_insensitive": true}), "b.txt\n"),
        (json!({"pattern": "alpha", "glob": "*.rs"}), "src/main.rs\n"),
        (json!({"pattern": "alpha", "glob": "src/**"}), "src/kept.log\nsrc/main.rs\n"),
        (json!({"pattern": "alpha", "glob": "!*.txt"}), "src/kept.log\nsrc/main.rs\n"),
        (json!({"pattern": "alpha", "glob": ".hidden/*"}), ".hidden/x.txt\n"),
        (
            json!({"pattern": "alpha", "head_limit": 1}),
            "a.txt\n[the search ended at head_limit 1; there may be more]\n",
        ),
        (json!({"pattern": "alpha", "output_mode": "count"}), "a.txt:2\nsrc/kept.log:1\nsrc/main.rs:1\n"),
        (
            json!({"pattern": "^fn (\\w+)", "output_mode": "content"}),
            "src/deep/lib.rs:1:fn beta() {}\nsrc/main.rs:1:fn alpha() {}\n",
        ),
        (json!({"pattern": "middle", "output_mode": "content", "line_numbers": false}), "a.txt:middle\n"),
        (json!({"pattern": "nothing"}), "[nothing in . matches nothing]\n"),
    ] {
        assert_eq!(scene.text(&grep, args.clone()).await, expected, "{args}");
    }
}

#[tokio::test]
async fn grep_gives_context_in_groups() {
    let scene = Scene::new();
    scene.put("a.txt", "1\n2\nx\n4\n5\n6\n7\nx\n9\n");
    scene.put("b.txt", "x\n");
    let args = json!({"pattern": "x", "output_mode": "content", "context": 1});
    let expected = "a.txt-2-2\na.txt:3:x\na.txt-4-4\n--\na.txt-7-7\na.txt:8:x\na.txt-9-9\n--\nb.txt:1:x\n";
    assert_eq!(scene.text(&Grep::default(), args).await, expected);
    let args = json!({"pattern": "x", "output_mode": "content", "context": 1, "head_limit": 3});
    let expected = "a.txt-2-2\na.txt:3:x\na.txt-4-4\n[the search ended at head_limit 3; there may be more]\n";
    assert_eq!(scene.text(&Grep::default(), args).await, expected);
}

#[tokio::test]
async fn ev_6_grep_reads_utf_16_by_its_mark_and_replaces_what_is_not_utf_8() {
    let scene = Scene::new();
    let utf_16: Vec<u8> = "\u{feff}match é\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    scene.put("a.txt", utf_16);
    scene.put("b.txt", b"match \xff\n");
    let args = json!({"pattern": "match", "output_mode": "content"});
    let expected = "a.txt:1:match é\nb.txt:1:match \u{fffd}\n[bytes that are not UTF-8 are shown as U+FFFD]\n";
    assert_eq!(scene.text(&Grep::default(), args).await, expected);
}

#[tokio::test]
async fn long_results_are_cut_at_a_line_and_kept_whole() {
    let scene = Scene::new();
    scene.put("a.txt", format!("{}\n", "x".repeat(600)).repeat(200));
    let args = json!({"pattern": "x", "output_mode": "content"});
    let output = scene.call(&Grep::default(), args).await.unwrap();
    let (shown, note) = output.text.trim_end().rsplit_once('\n').unwrap();
    assert!(shown.len() < 31_000 && shown.ends_with("… [cut: the line has 600 bytes, the first 500 are shown]"));
    assert!(note.starts_with("[the rest is left out here; all "), "{note}");
    let whole = String::from_utf8(output.whole.unwrap().bytes).unwrap();
    assert_eq!(whole.lines().count(), 200);
    assert!(whole.starts_with(shown));
}

#[tokio::test]
async fn ignore_files_count_down_to_a_repository_and_in_their_order() {
    let scene = Scene::new();
    scene.put(".gitignore", "*.tmp\n/top.txt\n");
    scene.put(".ignore", "!seen.tmp\n");
    scene.put("seen.tmp", "");
    scene.put("lost.tmp", "");
    scene.put("top.txt", "");
    scene.put("sub/top.txt", "");
    scene.put("vendored/.git/info/exclude", "excluded.txt\n");
    scene.put("vendored/own.tmp", "");
    scene.put("vendored/excluded.txt", "");
    let text = scene.text(&Glob::default(), json!({"pattern": "**/*"})).await;
    assert_eq!(text, "seen.tmp\nsub/top.txt\nvendored/own.tmp\n");
}
