use std::fs;

use plica_kernel::body::MEDIA_JSON;
use tempfile::TempDir;

use super::*;

const KNOWN: &[&str] = &["Read", "Write", "Edit", "Glob", "Grep", "Bash", "Task"];
const SCRIPT: &str = r#"{"replies":[{"text":"hi"}]}"#;

/// A folder with a script `s.json`, a folder `work`, and these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("work")).unwrap();
    fs::write(folder.path().join("s.json"), SCRIPT).unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn read(folder: &TempDir, file: &str) -> Result<Agent, AgentFileError> {
    AgentReader::new(KNOWN, &folder.path().join("work")).read(&folder.path().join(file))
}

/// The error of an agent file that begins with a name and a model and goes on with `text`.
fn error(text: &str) -> String {
    let text = format!("name = \"a\"\nmodel = \"script:s.json\"\n{text}");
    read(&folder(&[("a.toml", &text)]), "a.toml").unwrap_err().to_string()
}

/// The whole text of an agent file with nothing before it.
fn bare_error(text: &str) -> String {
    read(&folder(&[("a.toml", text)]), "a.toml").unwrap_err().to_string()
}

#[test]
fn en_8_a_file_becomes_a_definition_and_the_content_it_cites() {
    let text = r#"
name = "coder"
model = "script:s.json"
instructions = "Do the work."
tools = ["Read", "Bash", "Read"]
permission_mode = "accept-edits"
allow = ["Bash(git status:*)"]
ask = ["Bash"]
deny = ["WebFetch", "mcp__x__y"]
workspace = "work"
queue = "slow"
env = ["CARGO_HOME"]
on_crash = "park"
interactive = true
[budget]
steps = 10
tokens = 20
nano_usd = 30
wall_s = 40
"#;
    let folder = folder(&[("a.toml", text)]);
    let script = Blob::new(MEDIA_JSON, SCRIPT.into());
    let definition = Definition {
        allow: vec!["Bash(git status:*)".into()],
        ask: vec!["Bash".into()],
        budget: Budget { nano_usd: Some(30), steps: Some(10), tokens: Some(20), wall_ms: Some(40_000) },
        deny: vec!["WebFetch".into(), "mcp__x__y".into()],
        env: vec!["CARGO_HOME".into()],
        instructions: "Do the work.".into(),
        interactive: true,
        model: plica_ports::ModelChoice {
            provider: "script".into(),
            name: "s.json".into(),
            script: Some(script.reference.clone()),
            options: BTreeMap::new(),
        },
        name: "coder".into(),
        on_crash: OnCrash::Park,
        permission_mode: PermissionMode::AcceptEdits,
        queue: Some(Queue::new("slow").unwrap()),
        subagents: BTreeMap::new(),
        tools: vec!["Read".into(), "Bash".into()],
        workspace: folder.path().join("work").canonicalize().unwrap().to_str().unwrap().into(),
    };
    assert_eq!(read(&folder, "a.toml").unwrap(), Agent { definition, blobs: vec![script] });
}

#[test]
fn en_8_what_is_not_said_has_a_default() {
    let folder = folder(&[("sub/a.toml", "\u{feff}name = \"a\"\nmodel = \"script:../s.json\"")]);
    let Agent { definition, .. } = read(&folder, "sub/a.toml").unwrap();
    let current = folder.path().join("work").canonicalize().unwrap();
    assert_eq!(definition.workspace, current.to_str().unwrap());
    assert_eq!(definition.permission_mode, PermissionMode::Default);
    assert_eq!((definition.tools.len(), definition.interactive, definition.queue), (0, false, None));
    assert!(definition.budget.is_unlimited());
    assert_eq!(definition.model.name, "s.json");
}

#[test]
fn en_8_a_file_is_found_from_the_current_folder_and_its_paths_from_its_own() {
    let folder = folder(&[("work/b/a.toml", "name = \"a\"\nmodel = \"script:t.json\""), ("work/b/t.json", SCRIPT)]);
    let agent = AgentReader::new(KNOWN, &folder.path().join("work")).read(Path::new("b/a.toml")).unwrap();
    assert_eq!(agent.definition.model.name, "t.json");
}

#[test]
fn en_8_subagents_become_content_with_all_that_they_cite() {
    let folder = folder(&[
        (
            "a.toml",
            "name = \"a\"\nmodel = \"script:s.json\"\ntools = [\"Task\"]\nworkspace = \"work\"\nsubagents = [\"sub/b.toml\", \"c.toml\"]",
        ),
        ("sub/b.toml", "name = \"b\"\nmodel = \"script:b.json\"\nsubagents = [\"../c.toml\"]"),
        ("sub/b.json", r#"{"replies":[]}"#),
        ("c.toml", "name = \"c\"\nmodel = \"script:s.json\""),
    ]);
    let agent = read(&folder, "a.toml").unwrap();
    assert_eq!(agent.definition.subagents.keys().collect::<Vec<_>>(), ["b", "c"]);
    // Two scripts and two definitions, although both scripts and `c` are cited twice.
    assert_eq!(agent.blobs.len(), 4);
    let stored = |reference: &ContentRef| {
        let blob = agent.blobs.iter().find(|blob| blob.reference == *reference).unwrap();
        Definition::from_bytes(&blob.bytes).unwrap()
    };
    let b = stored(&agent.definition.subagents["b"]);
    assert_eq!(b.subagents["c"], agent.definition.subagents["c"]);
    assert_eq!(b.workspace, agent.definition.workspace);
    assert_eq!(stored(&b.subagents["c"]).name, "c");
    assert!(agent.blobs.iter().any(|blob| Some(&blob.reference) == b.model.script.as_ref()));
}

#[test]
fn en_8_subagents_in_a_circle_or_too_deep_or_of_one_name_are_refused() {
    let agent = |name: &str, subagents: &str| {
        format!("name = \"{name}\"\nmodel = \"script:s.json\"\nsubagents = [{subagents}]")
    };
    let circle = folder(&[
        ("a.toml", &agent("a", "\"b.toml\"")),
        ("b.toml", &agent("b", "\"work/../a.toml\"")),
        ("self.toml", &agent("s", "\"self.toml\"")),
        ("same.toml", &agent("x", "\"c.toml\", \"d.toml\"")),
        ("c.toml", &agent("c", "")),
        ("d.toml", &agent("c", "")),
        ("none.toml", &agent("n", "\"nobody.toml\"")),
    ]);
    for (file, says) in [
        ("a.toml", vec!["in a circle: ", "/a.toml -> ", "/b.toml -> ", "/a.toml; remove"]),
        ("self.toml", vec!["in a circle: ", "/self.toml -> "]),
        ("same.toml", vec!["same.toml: two of its subagents are named `c`"]),
        ("none.toml", vec!["none.toml: the subagent ", "nobody.toml is not there"]),
    ] {
        let error = read(&circle, file).unwrap_err().to_string();
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
    }
    let deep: Vec<(String, String)> =
        (0..=9).map(|n| (format!("{n}.toml"), agent(&n.to_string(), &format!("\"{}.toml\"", n + 1)))).collect();
    let mut files: Vec<(&str, &str)> = deep.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let last = agent("10", "");
    files.push(("10.toml", &last));
    let deep = folder(&files);
    assert!(read(&deep, "0.toml").unwrap_err().to_string().contains("more than 8 levels deep"));
    assert_eq!(read(&deep, "2.toml").unwrap().blobs.len(), 9);
}

#[test]
fn cl_2_an_unknown_key_is_an_error_with_the_nearest_name() {
    for (text, says) in [
        ("modle = \"x\"", "unknown key `modle`; did you mean `model`?"),
        ("instruction = \"x\"", "unknown key `instruction`; did you mean `instructions`?"),
        ("Tools = []", "unknown key `Tools`; did you mean `tools`?"),
        ("permissions = \"plan\"", "unknown key `permissions`; did you mean `permission_mode`?"),
        ("[budgets]", "unknown key `budgets`; did you mean `budget`?"),
        ("[budget]\nstep = 1", "unknown key `budget.step`; did you mean `budget.steps`?"),
        ("[budget]\nwall_ms = 1", "unknown key `budget.wall_ms`; did you mean `budget.wall_s`?"),
    ] {
        let error = error(text);
        assert!(error.contains("a.toml: ") && error.contains(says), "{error}");
    }
    let error = bare_error("name = \"x\"\nmodle = \"script:x.json\"\n");
    assert!(error.contains("unknown key `modle`; did you mean `model`?"), "{error}");
    let error = bare_error("name = \"x\"\nmodel = {provider = \"anthropic\", name = \"m\", api_key = \"k\"}");
    assert!(error.contains("unknown key `model.api_key`; did you mean `model.api_key_env`?"), "{error}");
}

#[test]
fn cl_2_a_wrong_value_is_an_error_that_says_what_is_expected() {
    for (text, says) in [
        ("interactive = 1", "`interactive` is wrong: it is a TOML integer; expected true or false"),
        ("instructions = [\"x\"]", "`instructions` is wrong: it is a TOML array; expected a string"),
        ("tools = \"Read\"", "`tools` is wrong: it is a TOML string; expected a list of strings"),
        ("env = [1]", "`env` is wrong: it is a TOML integer; expected a list of strings"),
        ("env = [\"A\", \"KEY=secret\"]", "`env` is wrong: entry 2 is not a variable's name"),
        ("queue = \"a b\"", "`queue` is wrong: queue \"a b\": holds white space"),
        ("permission_mode = \"byapss\"", "is none of default, accept-edits, bypass, plan; did you mean `bypass`?"),
        ("on_crash = \"re-drive\"", "is none of resolve, redrive, park; did you mean `redrive`?"),
        ("budget = 1", "`budget` is wrong: it is a TOML integer; expected a table"),
        ("[budget]\nsteps = 0", "`budget.steps` is wrong: it is 0; expected 1 to 9007199254740991"),
        ("[budget]\ntokens = -1", "`budget.tokens` is wrong: it is -1"),
        ("[budget]\nnano_usd = 9007199254740992", "`budget.nano_usd` is wrong: it is 9007199254740992"),
        ("[budget]\nwall_s = 1.5", "`budget.wall_s` is wrong: it is a TOML float; expected a whole number"),
        ("[budget]\nwall_s = 9007199254740991", "`budget.wall_s` is wrong: it is longer than"),
        ("[[mcp]]\nname = \"x\"", "`mcp` is not supported by this version"),
        ("workspace = \"nowhere\"", "nowhere cannot be used: "),
        ("workspace = \"s.json\"", "s.json cannot be used: it is not a folder"),
        ("workspace = \"\"", "`workspace` is wrong"),
        ("allow = [\"Bash(ls\"]", "allow rule `Bash(ls` cannot be read: "),
        ("name = \"b\"", "is not valid TOML: "),
        ("x", "is not valid TOML: "),
    ] {
        let error = error(text);
        assert!(error.contains("a.toml") && error.contains(says), "{text}: {error}");
        assert!(!error.contains("secret"));
    }
}

#[test]
fn cl_2_tools_have_to_exist_and_to_be_available() {
    for (text, says) in [
        ("tools = [\"Raed\"]", "unknown tool `Raed` in `tools`; did you mean `Read`?"),
        ("tools = [\"bash\"]", "unknown tool `bash` in `tools`; did you mean `Bash`?"),
        ("tools = [\"WebFetch\"]", "the tool `WebFetch` is not available in this version"),
        ("tools = [\"mcp__git__log\"]", "the tool `mcp__git__log` is not available in this version"),
        ("deny = [\"Bsah\"]", "unknown tool `Bsah` in the rule `Bsah`; did you mean `Bash`?"),
    ] {
        let error = error(text);
        assert!(error.contains(says), "{error}");
    }
    let text = "name = \"a\"\nmodel = \"script:s.json\"\ntools = [\"mcp__git__log\", \"Fetch\"]";
    let folder = folder(&[("a.toml", text)]);
    let agent = AgentReader::new(&["mcp__*", "Fetch"], folder.path()).read(&folder.path().join("a.toml")).unwrap();
    assert_eq!(agent.definition.tools, ["mcp__git__log", "Fetch"]);
}

#[test]
fn cl_2_the_model_has_to_be_named_and_a_script_to_be_sound() {
    for (text, says) in [
        ("", "the key `model` is missing; add a line like model = \"script:replies.json\""),
        ("model = \"script:s.json\"", "the key `name` is missing"),
        ("name = \"\"\nmodel = \"script:s.json\"", "`name` is wrong"),
        ("name = \"a\"\nmodel = 1", "`model` is wrong: it is a TOML integer"),
        ("name = \"a\"\nmodel = \"gpt\"", "`gpt` names no provider; write `PROVIDER:NAME`"),
        ("name = \"a\"\nmodel = \"antropic:x\"", "unknown provider `antropic`; did you mean `anthropic`?"),
        ("name = \"a\"\nmodel = \"anthropic: \"", "provider `anthropic` needs a model's name"),
        ("name = \"a\"\nmodel = \"script:none.json\"", "none.json is not there"),
        ("name = \"a\"\nmodel = \"script:work\"", "work cannot be read: "),
        (
            "name = \"a\"\nmodel = \"script:bad.json\"",
            "is broken: script cannot be read: reply 1 (line 1): unknown field `txt`",
        ),
        ("name = \"a\"\nmodel = {name = \"m\"}", "the key `model.provider` is missing"),
        ("name = \"a\"\nmodel = {provider = \"anthropic\"}", "the key `model.name` is missing"),
        (
            "name = \"a\"\nmodel = {provider = \"openai-compatible\", name = \"m\", api_key_env = \"sk-secret\"}",
            "`model.api_key_env` is wrong: expected the name of the variable",
        ),
        (
            "name = \"a\"\nmodel = {provider = \"openai-compatible\", name = \"m\", base_url = \"http://u:secret@h\"}",
            "`model.base_url` is wrong",
        ),
        (
            "name = \"a\"\nmodel = \"openai-compatible:m\"",
            "`model` is wrong: a server without a preset needs an address",
        ),
        ("name = \"a\"\nmodel = \"olama:m\"", "unknown provider `olama`; did you mean `ollama`?"),
        (
            "name = \"a\"\nmodel = {provider = \"ollama\", name = \"m\", temperature = 0.7}",
            "`model.temperature` is wrong: write it as a string, \"0.7\"",
        ),
        (
            "name = \"a\"\nmodel = {provider = \"ollama\", name = \"m\", preset = \"vllm\"}",
            "`model.preset` is wrong: it goes with provider `openai-compatible` alone",
        ),
        (
            "name = \"a\"\nmodel = {provider = \"openai-compatible\", name = \"m\", preset = \"vlm\"}",
            "`model.preset` is wrong: expected one of openai, ollama, llama.cpp, vllm, openrouter",
        ),
        (
            "name = \"a\"\nmodel = {provider = \"openai\", name = \"m\", headers = {X-Api-Key = \"sk-secret\"}}",
            "`model.headers.X-Api-Key` is wrong: it looks like a key or password; write \"env:VARIABLE\"",
        ),
        (
            "name = \"a\"\nmodel = {provider = \"openai\", name = \"m\", headers = {X = 1}}",
            "`model.headers` is wrong: it is a TOML integer; expected a table of strings",
        ),
        (
            "name = \"a\"\nmodel = {provider = \"anthropic\", name = \"m\", thinking = \"none\"}",
            "`model.thinking` is wrong: provider `anthropic` has no such option",
        ),
        (
            "name = \"a\"\nmodel = {provider = \"openai\", name = \"m\", max_token = 1}",
            "unknown key `model.max_token`; did you mean `model.max_tokens`?",
        ),
        (
            "name = \"a\"\nmodel = {provider = \"script\", name = \"s.json\", base_url = \"http://h\"}",
            "a scripted model has no `base_url`",
        ),
    ] {
        let folder = folder(&[("a.toml", text), ("bad.json", r#"{"replies":[{"txt":""}]}"#)]);
        let error = read(&folder, "a.toml").unwrap_err().to_string();
        assert!(error.contains("a.toml: ") && error.contains(says), "{text}: {error}");
        assert!(!error.contains("secret"));
    }
    let error = read(&folder(&[]), "none.toml").unwrap_err().to_string();
    assert!(error.contains("none.toml cannot be read: "), "{error}");
    let broken = folder(&[]);
    fs::write(broken.path().join("a.toml"), b"name = \"\xff\"").unwrap();
    assert!(read(&broken, "a.toml").unwrap_err().to_string().contains("byte 8 is not UTF-8"));
}

#[test]
fn ho_3_a_model_is_a_name_or_a_table() {
    for (model, provider, name, options) in [
        ("\"anthropic:claude\"", "anthropic", "claude", vec![]),
        ("\"openai:a:b\"", "openai", "a:b", vec![]),
        (
            "{provider = \"openai-compatible\", name = \"m\", base_url = \"http://localhost:1/v1\", api_key_env = \"KEY\"}",
            "openai-compatible",
            "m",
            vec![("api_key_env", "KEY"), ("base_url", "http://localhost:1/v1")],
        ),
        ("{provider = \"script\", name = \"s.json\"}", "script", "s.json", vec![]),
        ("\"ollama:qwen3:8b\"", "ollama", "qwen3:8b", vec![]),
        (
            "{provider = \"openai-compatible\", name = \"m\", preset = \"vllm\", max_tokens = 9, timeout_s = 60, \
             temperature = \"0.70\", thinking = \"none\", headers = {X-Title = \"t\", X-Token = \"env:T\"}}",
            "openai-compatible",
            "m",
            vec![
                ("headers.X-Title", "t"),
                ("headers.X-Token", "env:T"),
                ("max_tokens", "9"),
                ("preset", "vllm"),
                ("temperature", "0.70"),
                ("thinking", "none"),
                ("timeout_s", "60"),
            ],
        ),
    ] {
        let folder = folder(&[("a.toml", &format!("name = \"a\"\nmodel = {model}"))]);
        let choice = read(&folder, "a.toml").unwrap().definition.model;
        assert_eq!((choice.provider.as_str(), choice.name.as_str()), (provider, name));
        assert_eq!(choice.options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), options);
    }
}

#[test]
fn ho_3_the_example_with_a_local_model_is_sound() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ollama.toml");
    let agent = AgentReader::new(KNOWN, Path::new(env!("CARGO_MANIFEST_DIR"))).read(&file).unwrap();
    assert_eq!((agent.definition.model.provider.as_str(), agent.definition.tools.len()), ("ollama", 3));
}
