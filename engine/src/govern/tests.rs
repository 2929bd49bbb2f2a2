use plica_kernel::event::Budget;
use plica_ports::{ModelChoice, OnCrash};

use super::*;

const WORKSPACE: &str = "/home/ada/project";

fn definition(allow: &[&str], ask: &[&str], deny: &[&str], permission_mode: PermissionMode) -> Definition {
    let owned = |rules: &[&str]| rules.iter().map(ToString::to_string).collect();
    Definition {
        allow: owned(allow),
        ask: owned(ask),
        budget: Budget::default(),
        deny: owned(deny),
        env: vec![],
        instructions: String::new(),
        interactive: false,
        model: ModelChoice { provider: "script".into(), name: "s".into(), script: None, options: Default::default() },
        name: "a".into(),
        on_crash: OnCrash::default(),
        permission_mode,
        queue: None,
        subagents: Default::default(),
        tools: vec![],
        workspace: WORKSPACE.into(),
    }
}

fn rules(allow: &[&str], ask: &[&str], deny: &[&str], mode: PermissionMode) -> Rules {
    Rules::of(&definition(allow, ask, deny, mode)).unwrap()
}

fn args(name: &str, value: &str) -> String {
    serde_json::json!({ name: value }).to_string()
}

/// `allow`, `ask` or `deny`, with the rule if one is named.
fn word(ruling: Ruling) -> String {
    match ruling {
        Ruling::Allow { rule } => format!("allow {}", rule.unwrap_or_default()),
        Ruling::Ask { rule, .. } => format!("ask {}", rule.unwrap_or_default()),
        Ruling::Deny { reason } => format!("deny {reason}"),
    }
}

/// Whether one rule, as the only one, lets the call run and whether it stops it.
fn matched(rule: &str, tool: &str, args: &str) -> (bool, bool) {
    let allow = rules(&[rule], &[], &[], PermissionMode::Default).ruling(tool, Some(Effect::Mutation), args, false);
    let deny = rules(&[], &[], &[rule], PermissionMode::Bypass).ruling(tool, Some(Effect::Mutation), args, false);
    let ask = rules(&[], &[rule], &[], PermissionMode::Bypass).ruling(tool, Some(Effect::Mutation), args, false);
    let stops = matches!(deny, Ruling::Deny { .. });
    assert_eq!(stops, matches!(ask, Ruling::Ask { .. }), "{rule} {tool} {args}");
    (matches!(allow, Ruling::Allow { .. }), stops)
}

const BOTH: (bool, bool) = (true, true);
const NEITHER: (bool, bool) = (false, false);
/// Stops the call if it is a `deny` or `ask` rule, and does not let it run if it is `allow`.
const STOPS: (bool, bool) = (false, true);

#[test]
fn en_3_what_no_rule_names_follows_the_mode() {
    use PermissionMode::{AcceptEdits, Bypass, Default, Plan};
    let (read, idempotent, mutation) = (Some(Effect::Read), Some(Effect::Idempotent), Some(Effect::Mutation));
    for (mode, tool, effect, steers, expected) in [
        (Default, "Read", read, false, "allow mode:default"),
        (Default, "Write", mutation, false, "ask mode:default"),
        (Default, "Put", idempotent, false, "ask mode:default"),
        (Default, "Task", mutation, true, "allow mode:default"),
        (Default, "Nothing", None, false, "ask mode:default"),
        (AcceptEdits, "Write", mutation, false, "allow mode:accept-edits"),
        (AcceptEdits, "Edit", mutation, false, "allow mode:accept-edits"),
        (AcceptEdits, "Bash", mutation, false, "ask mode:accept-edits"),
        (AcceptEdits, "Grep", read, false, "allow mode:accept-edits"),
        (Bypass, "Bash", mutation, false, "allow mode:bypass"),
        (Plan, "Bash", mutation, false, "deny permission mode `plan` allows no changes, and Bash may make one"),
        (Plan, "Put", idempotent, false, "deny permission mode `plan` allows no changes, and Put may make one"),
        (Plan, "Read", read, false, "allow mode:plan"),
        (Plan, "Wait", mutation, true, "allow mode:plan"),
    ] {
        assert_eq!(word(rules(&[], &[], &[], mode).ruling(tool, effect, "{}", steers)), expected);
    }
}

#[test]
fn en_3_deny_then_ask_then_allow_in_every_mode() {
    use PermissionMode::{AcceptEdits, Bypass, Default, Plan};
    for mode in [Default, AcceptEdits, Bypass, Plan] {
        let rules = rules(&["Bash", "Read"], &["Bash(git:*)", "Read(.env)"], &["Bash(git push:*)", "Task"], mode);
        for (tool, args, steers, expected) in [
            ("Bash", args("command", "git push"), false, "deny denied by the rule `Bash(git push:*)`"),
            ("Bash", args("command", "git status"), false, "ask Bash(git:*)"),
            ("Bash", args("command", "ls"), false, "allow Bash"),
            ("Read", args("file_path", "a/.env"), false, "ask Read(.env)"),
            ("Task", "{}".to_owned(), true, "deny denied by the rule `Task`"),
        ] {
            assert_eq!(word(rules.ruling(tool, Some(Effect::Mutation), &args, steers)), expected, "{mode:?}");
        }
    }
}

#[test]
fn en_3_rules_match_tools_by_name() {
    for (rule, tool, expected) in [
        ("Bash", "Bash", BOTH),
        ("Bash", "BashX", NEITHER),
        ("Bash", "bash", NEITHER),
        ("*", "anything", BOTH),
        ("mcp__git__*", "mcp__git__log", BOTH),
        ("mcp__git__*", "mcp__github__log", NEITHER),
        ("mcp__git__log", "mcp__git__log", BOTH),
        ("Bash(*)", "Bash", BOTH),
    ] {
        assert_eq!(matched(rule, tool, "{}"), expected, "{rule} {tool}");
    }
}

#[test]
fn en_3_a_command_rule_matches_whole_words_of_simple_commands() {
    for (rule, command, expected) in [
        ("Bash(git status:*)", "git status", BOTH),
        ("Bash(git status:*)", "  git   status --short\n", BOTH),
        ("Bash(git status:*)", "git \"status\" 'a; b && c'", BOTH),
        ("Bash(git status *)", "git status -s", BOTH),
        ("Bash(git status:*)", "git statusx", NEITHER),
        ("Bash(git status:*)", "git stash", NEITHER),
        ("Bash(git status:*)", "git", NEITHER),
        ("Bash(git status:*)", "'git status'", NEITHER),
        ("Bash(git status:*)", "echo git status", NEITHER),
        ("Bash(git status)", "git status", BOTH),
        ("Bash(git status)", "git status -s", NEITHER),
        ("Bash(cargo test:*)", "cargo test 2>&1", BOTH),
        ("Bash(cargo test:*)", "cargo test >/dev/null 2>&1", BOTH),
        ("Bash(cargo test)", "cargo test 2>/dev/null", BOTH),
        ("Bash(echo:*)", "echo $HOME \"$USER\" \\; \\$(x", STOPS),
        ("Bash(echo:*)", "echo $HOME \"$USER\" \\;", BOTH),
        ("Bash(git commit:*)", "git commit -m \"fix; rm the rest\"", BOTH),
        ("Bash(rm:*)", "git commit -m \"fix; rm the rest\"", NEITHER),
        ("Bash(make && make test)", "make && make test", BOTH),
        ("Bash(make && make test)", "make", NEITHER),
        ("Bash(make && make test)", "", NEITHER),
    ] {
        assert_eq!(matched(rule, "Bash", &args("command", command)), expected, "{rule} {command}");
    }
}

#[test]
fn en_3_a_compound_command_is_never_allowed_by_one_of_its_parts() {
    for command in [
        "git status; rm -rf /",
        "git status && rm -rf /",
        "git status || rm -rf /",
        "git status | sh",
        "git status & rm -rf /",
        "git status\nrm -rf /",
        "git status $(rm -rf /)",
        "git status \"$(rm -rf /)\"",
        "git status `rm -rf /`",
        "git status \"`rm -rf /`\"",
        "git status ${x:-$(rm -rf /)}",
        "git status <(rm -rf /)",
        "git status > /etc/passwd",
        "git status >/dev/nullx",
        "git status >&1x",
        "git status &>/dev/null",
        "git status < /etc/passwd",
        "git status << E\nE\nrm -rf /",
        "git status $'\\'' ; rm -rf / #'",
        "git status $\"a\"",
        "git status # '\nrm -rf /\n#'",
        "git status \"",
        "git status '",
        "git status \\",
        "(git status)",
        "X=1 git status",
        "./git status",
        "git\\ status",
    ] {
        let (allows, _) = matched("Bash(git status:*)", "Bash", &args("command", command));
        assert!(!allows, "{command}");
    }
}

#[test]
fn en_3_deny_and_ask_match_any_part_of_a_compound_command() {
    for command in [
        "rm -rf /",
        "git status; rm -rf /",
        "git status&&rm -rf /",
        "git status || rm -rf /",
        "find . | xargs rm -rf /",
        "sleep 1 & rm -rf /",
        "true\nrm -rf /",
        "echo $(rm -rf /)",
        "echo \"$(rm -rf /)\"",
        "echo `rm -rf /`",
        "cat <(rm -rf /)",
        "(rm -rf /)",
        "{ rm -rf /; }",
        "{rm,-rf,/}",
        "if true; then rm -rf /; fi",
        "for x in a; do rm -rf /; done",
        "X=1 Y+=2 rm -rf /",
        "sudo -u root rm -rf /",
        "timeout 5 rm -rf /",
        "bash -c 'cd /; rm -rf /'",
        "/bin/sh -c \"rm -rf /\"",
        "env -i bash -c $'rm -rf /'",
        "/bin/rm -rf /",
        "\\rm -rf /",
        "r''m -rf /",
        "rm -rf / > log",
        ">log rm -rf /",
        "2>log rm -rf /",
        ">>log rm -rf /",
        ">| log rm -rf /",
        "<&3 rm -rf /",
        "cat >log; rm -rf /",
        "cat >log\nrm -rf /",
        "find . -exec rm -rf {} \\;",
        "cat << E\nE\nrm -rf /",
        "echo $'\\'' ; rm -rf / #'",
        "echo # '\nrm -rf /\n#'",
        "rm -rf / '",
    ] {
        let (_, stops) = matched("Bash(rm -rf:*)", "Bash", &args("command", command));
        assert!(stops, "{command}");
    }
    for command in ["echo rm -rf /", "git rm -rf x", "rm -r x", "cargo rm -rf", "echo '; rm -rf /'"] {
        assert_eq!(matched("Bash(rm -rf:*)", "Bash", &args("command", command)), NEITHER, "{command}");
    }
    assert_eq!(matched("Bash(rm -rf /)", "Bash", &args("command", "true; rm -rf /")), STOPS);
    assert_eq!(matched("Bash(rm -rf /)", "Bash", &args("command", "true; rm -rf /tmp")), NEITHER);
}

#[test]
fn en_3_a_file_rule_matches_paths_of_the_workspace() {
    for (pattern, path, expected) in [
        ("src/**", "src/a.rs", BOTH),
        ("src/**", "src/a/b.rs", BOTH),
        ("src/**", "./src//a.rs", BOTH),
        ("src/**", "x/../src/a.rs", BOTH),
        ("src/**", "/home/ada/project/src/a.rs", BOTH),
        ("src/**", "../project/src/a.rs", BOTH),
        ("/src/**", "src/a.rs", BOTH),
        ("/home/ada/project/src/**", "src/a.rs", BOTH),
        ("src/**", "src/../etc/passwd", NEITHER),
        ("src/**", "lib/src/a.rs", NEITHER),
        ("src/**", "/home/ada/other/src/a.rs", NEITHER),
        ("src/**", "/src/a.rs", STOPS),
        ("src/**", "srcs/a.rs", NEITHER),
        ("**/test/**", "a/b/test/c", BOTH),
        ("**/test/**", "test/c", BOTH),
        ("a/**/z", "a/z", BOTH),
        ("a/**/z", "a/b/c/z", BOTH),
        ("*.rs", "a/b/c.rs", BOTH),
        ("*.rs", "c.rsx", NEITHER),
        ("src/*.rs", "src/a/b.rs", NEITHER),
        ("src/?.rs", "src/a.rs", BOTH),
        ("src/?.rs", "src/ab.rs", NEITHER),
        (".env", "deep/.env", BOTH),
        (".env", ".env.local", NEITHER),
        ("secrets/", "a/secrets/key", BOTH),
        ("secrets", "secrets/key", STOPS),
        ("/secrets", "a/secrets", NEITHER),
        ("src/*", "src/a/b", STOPS),
        ("**", "../../x", STOPS),
        ("**", "", NEITHER),
        ("a*b*c", "aXbXbXc", BOTH),
        ("a*b*c", "aXcXb", NEITHER),
    ] {
        for tool in ["Read", "Write", "Edit"] {
            let rule = format!("{tool}({pattern})");
            assert_eq!(matched(&rule, tool, &args("file_path", path)), expected, "{rule} {path}");
        }
    }
    let long = "a/".repeat(4096);
    assert_eq!(matched("Write(a/**)", "Write", &args("file_path", &long)), STOPS);
}

#[test]
fn en_3_arguments_that_can_be_read_in_two_ways_are_not_allowed() {
    for (args, expected) in [
        (r#"{"file_path":"src/a"}"#, BOTH),
        (r#"{"content":"x","file_p\u0061th":"src/a"}"#, BOTH),
        (r#"{"file_path":"etc/a","file_path":"src/a"}"#, STOPS),
        (r#"{"file_path":"src/a","file_path":"etc/a"}"#, STOPS),
        (r#"{"file_path":"src/\ud800"}"#, STOPS),
        (r#"{"file_path":["src/a"]}"#, STOPS),
        (r#"["src/a"]"#, STOPS),
        ("{", STOPS),
        (r#"{"file_path":"src/a"} x"#, STOPS),
        (r#"{"path":"src/a"}"#, NEITHER),
    ] {
        assert_eq!(matched("Write(src/**)", "Write", args), expected, "{args}");
    }
}

#[test]
fn en_3_a_malformed_rule_is_refused_with_its_text() {
    for (rule, problem) in [
        ("", RuleProblem::Name),
        ("Ba sh", RuleProblem::Name),
        ("(x)", RuleProblem::Name),
        ("Ba*sh", RuleProblem::Name),
        ("Bash)", RuleProblem::Name),
        ("Bash(ls", RuleProblem::Parentheses),
        ("Bash(ls) x", RuleProblem::Parentheses),
        ("Bash()", RuleProblem::EmptyPattern),
        ("Bash( )", RuleProblem::EmptyPattern),
        ("Bash(:*)", RuleProblem::EmptyPattern),
        ("Grep(x)", RuleProblem::NoArguments),
        ("mcp__a__*(x)", RuleProblem::NoArguments),
        ("*(x)", RuleProblem::NoArguments),
        ("Bash(ls *.rs)", RuleProblem::CommandWildcard),
        ("Bash(git * log:*)", RuleProblem::CommandWildcard),
        ("Bash(cd x && make:*)", RuleProblem::CompoundPrefix),
        ("Bash(echo \"a\":*)", RuleProblem::CompoundPrefix),
        ("Read(a[bc])", RuleProblem::PathPattern),
        ("Read(!a)", RuleProblem::PathPattern),
        ("Read(../x)", RuleProblem::PathPattern),
        ("Read(.)", RuleProblem::PathPattern),
    ] {
        let error = Rules::of(&definition(&[], &[rule], &[], PermissionMode::Default)).unwrap_err();
        assert_eq!(error, RuleError { list: "ask", rule: rule.into(), problem });
        assert!(error.to_string().starts_with(&format!("ask rule `{rule}` cannot be read: ")));
    }
}

#[test]
fn en_3_rules_name_the_tools_they_are_about() {
    let rules = rules(&["Bash(ls:*)", "*"], &["mcp__a__*"], &["Write"], PermissionMode::Default);
    let named: Vec<_> = rules.named_tools().collect();
    assert_eq!(named, [("Write", "Write"), ("Bash(ls:*)", "Bash")]);
}
