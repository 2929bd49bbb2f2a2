use plica_tools::Read;
use serde_json::json;

use crate::harness::Scene;

#[tokio::test]
async fn lines_come_with_their_numbers() {
    let scene = Scene::new();
    scene.put("a.txt", "one\ntwo\r\n\nfour");
    let text = scene.text(&Read::default(), json!({"file_path": "a.txt"})).await;
    assert_eq!(text, "     1\tone\n     2\ttwo\r\n     3\t\n     4\tfour\n");
    let absolute = scene.path("a.txt");
    assert_eq!(scene.text(&Read::default(), json!({"file_path": absolute})).await, text);
}

#[tokio::test]
async fn a_range_of_lines_says_where_to_go_on() {
    let scene = Scene::new();
    scene.put("a.txt", (1..=5000).map(|n| format!("line {n}\n")).collect::<String>());
    let read = Read::default();
    let text = scene.text(&read, json!({"file_path": "a.txt"})).await;
    assert_eq!(text.lines().count(), 2001);
    assert!(
        text.ends_with(
            "  2000\tline 2000\n[lines 1 to 2000 are shown and the file goes on; read on with offset 2001]\n"
        )
    );
    let text = scene.text(&read, json!({"file_path": "a.txt", "offset": 4999, "limit": 10.0})).await;
    assert_eq!(text, "  4999\tline 4999\n  5000\tline 5000\n");
    let text = scene.text(&read, json!({"file_path": "a.txt", "offset": 5000, "limit": 1})).await;
    assert_eq!(text, "  5000\tline 5000\n");
    let text = scene.failure(&read, json!({"file_path": "a.txt", "offset": 5001})).await;
    assert!(text.contains("has 5000 lines"), "{text}");
}

#[tokio::test]
async fn long_lines_and_large_files_are_cut_and_say_so() {
    let scene = Scene::new();
    let read = Read::default();
    scene.put("a.txt", format!("{}\nshort\n", "é".repeat(100_000)));
    let text = scene.text(&read, json!({"file_path": "a.txt"})).await;
    let first = text.lines().next().unwrap();
    assert_eq!(first, format!("     1\t{}… [cut: the line has 200000 bytes]", "é".repeat(2000)));
    assert!(text.ends_with("     2\tshort\n"));

    scene.put("b.txt", format!("{}\n", "x".repeat(1000)).repeat(1000));
    let text = scene.text(&read, json!({"file_path": "b.txt"})).await;
    assert!(text.len() < 270_000, "{}", text.len());
    assert!(text.contains("the file goes on; read on with offset 2"), "{}", &text[text.len() - 100..]);
}

#[tokio::test]
async fn ev_6_bytes_that_are_not_utf_8_are_replaced_and_said_so() {
    let scene = Scene::new();
    scene.put("a.txt", b"caf\xe9\n");
    let text = scene.text(&Read::default(), json!({"file_path": "a.txt"})).await;
    assert_eq!(text, "     1\tcaf\u{fffd}\n[bytes that are not UTF-8 are shown as U+FFFD]\n");
    scene.put("b.txt", "a real \u{fffd}\n");
    assert_eq!(scene.text(&Read::default(), json!({"file_path": "b.txt"})).await, "     1\ta real \u{fffd}\n");
}

#[tokio::test]
async fn what_is_no_text_file_is_refused_by_name() {
    let scene = Scene::new();
    let read = Read::default();
    scene.put("bin", b"\x7fELF\0\0");
    scene.put("dir/a", "");
    assert!(std::process::Command::new("mkfifo").arg(scene.path("pipe")).status().unwrap().success());
    for (path, reason) in [
        ("bin", "binary file"),
        ("dir", "is a folder"),
        (".", "is a folder"),
        ("pipe", "neither a file nor a folder"),
        ("none", "does not exist"),
        ("dir/none", "does not exist"),
        ("a\0b", "NUL character"),
    ] {
        let text = scene.failure(&read, json!({"file_path": path})).await;
        assert!(text.contains(path) && text.contains(reason), "{path:?}: {text}");
    }
    assert_eq!(scene.text(&read, json!({"file_path": "dir/a"})).await, "[dir/a is empty]\n");
}
