use plica_ports::{ToolError, ToolOutput};
use plica_tools::Bash;
use serde_json::json;

use crate::harness::{Scene, context};

async fn run(scene: &Scene, command: &str) -> Result<ToolOutput, ToolError> {
    scene.call(&Bash::default(), json!({"command": command, "description": "a test"})).await
}

#[tokio::test]
async fn both_outputs_come_in_order_and_the_folder_is_the_workspace() {
    let scene = Scene::new();
    let output = run(&scene, "echo one; echo two >&2; echo three; pwd -P").await.unwrap();
    let folder = std::fs::canonicalize(&scene.context.workspace).unwrap();
    assert_eq!(output.text, format!("one\ntwo\nthree\n{}\n", folder.display()));
    assert_eq!(output.whole, None);
}

#[tokio::test]
async fn a_command_is_of_bash_whole_and_reads_nothing() {
    let scene = Scene::new();
    for (command, expected) in [
        ("[[ a == a ]] && echo $((1 << 3))", "8\n"),
        ("cat", "[no output]\n"),
        ("printf 'no end'", "no end"),
        ("echo \"$0 $#\"", "bash 0\n"),
        ("cat <<'END'\n$HOME \"'\\\nEND", "$HOME \"'\\\n"),
        ("exec 2>&-; ls /dev/fd 2>/dev/null | wc -l >/dev/null; { true <&3; } 2>/dev/null || echo closed", "closed\n"),
        ("jobs; wait; echo waited", "waited\n"),
    ] {
        assert_eq!(run(&scene, command).await.unwrap().text, expected, "{command}");
    }
}

#[tokio::test]
async fn to_3_a_non_zero_exit_is_a_failure_that_tells_its_output() {
    let scene = Scene::new();
    for (command, expected) in [
        ("echo out; exit 3", "out\nexit status 3"),
        ("printf out; false", "out\nexit status 1"),
        ("kill -TERM $$", "exit status 143"),
        ("kill -KILL $$", "exit status 137"),
        ("kill -USR1 $$", "exit status 138"),
    ] {
        let Err(ToolError::Failed(output)) = run(&scene, command).await else { panic!("{command} fails") };
        assert_eq!(output.text, expected, "{command}");
    }
    let Err(ToolError::Failed(output)) = run(&scene, "kill -KILL 0").await else { panic!("it fails") };
    assert!(output.text.contains("ended by a signal"), "{}", output.text);
}

#[tokio::test]
async fn to_5_long_output_is_kept_whole_on_failure_too() {
    let scene = Scene::new();
    for (end, fails) in [("true", false), ("exit 9", true)] {
        let output = match run(&scene, &format!("seq 20000; {end}")).await {
            Err(ToolError::Failed(output)) if fails => output,
            Ok(output) if !fails => output,
            other => panic!("{other:?}"),
        };
        assert!(output.text.starts_with("1\n2\n3\n"));
        assert!(output.text.contains("bytes are left out here]"));
        assert_eq!(output.text.ends_with("exit status 9"), fails);
        let whole = String::from_utf8(output.whole.unwrap().bytes).unwrap();
        assert_eq!(whole.lines().count(), 20_000);
    }
}

#[tokio::test]
async fn to_5_output_beyond_what_is_kept_does_not_fill_memory() {
    let scene = Scene::new();
    let output = run(&scene, "yes | head -c 70000000; echo end").await.unwrap();
    assert!(output.text.contains("\nend\n[of 70000004 bytes of output the first 67108864 are kept"));
    assert_eq!(output.whole.unwrap().bytes.len(), 67_108_864);
}

#[tokio::test]
async fn what_cannot_be_run_fails_with_the_reason() {
    let scene = Scene::new();
    for (command, reason) in [("a\0b".to_string(), "NUL"), ("#".repeat(131_072), "at most 131071")] {
        let text = scene.failure(&Bash::default(), json!({"command": command})).await;
        assert!(text.contains(reason), "{text}");
    }
    assert_eq!(run(&scene, &"#".repeat(131_071)).await.unwrap().text, "[no output]\n");
}

const ROLE: &str = "PLICA_TOOLS_TEST_ENVIRONMENT";

/// The worker's environment cannot be changed in this process, so the test runs itself in one.
#[test]
fn to_2_a_command_sees_the_listed_variables_and_no_others() {
    if std::env::var_os(ROLE).is_some() {
        return environment_as_worker();
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bash::to_2_a_command_sees_the_listed_variables_and_no_others"])
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs([
            (ROLE, "1"),
            ("HOME", "/h"),
            ("USER", "u"),
            ("LANG", "C"),
            ("LC_ALL", "C"),
            ("LC_X", "x"),
            ("TZ", "UTC"),
        ])
        .envs([("TERM", "dumb"), ("TMPDIR", "/tmp"), ("NAMED", "n"), ("SECRET", "s"), ("PLICA_TASK", "forged")])
        .envs([("PLICA_STORE", "s"), ("BASH_ENV", "/nowhere"), ("LD_LIBRARY_PATH_2", "x"), ("SHELLOPTS", "x")])
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::main(flavor = "current_thread")]
async fn environment_as_worker() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path());
    context.env = vec!["NAMED".into(), "PLICA_TASK".into(), "NOT_THERE".into()];
    let args = json!({"command": "env"}).to_string();
    let output = plica_ports::Tool::call(&Bash::default(), &args, &context).await.unwrap();
    // What the shells themselves set.
    let shells = ["PWD", "OLDPWD", "SHLVL", "_"];
    let mut seen: Vec<&str> = output
        .text
        .lines()
        .filter(|line| !shells.iter().any(|name| line.split('=').next() == Some(name)))
        .filter(|line| !line.starts_with("PATH="))
        .collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            "HOME=/h",
            "LANG=C",
            "LC_ALL=C",
            "LC_X=x",
            "NAMED=n",
            "PLICA_CALL=7.0",
            "PLICA_IDEMPOTENCY_KEY=task-1:7.0",
            "PLICA_TASK=task-1",
            "TERM=dumb",
            "TMPDIR=/tmp",
            "TZ=UTC",
            "USER=u",
        ]
    );
}
