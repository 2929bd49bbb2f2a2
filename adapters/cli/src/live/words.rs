//! Short words for what is shown live: arguments, times, money.

use std::time::Duration;

use serde_json::Value;

use crate::render::{clean, cut};

/// The arguments that say most of a call, first.
const FIRST: &[&str] = &["command", "file_path", "pattern", "path", "question", "agent"];

/// Characters of a todo.
const TODO_CHARS: usize = 80;

/// A call's arguments on one line of at most `chars` characters: a single one by its value,
/// several by name.
pub fn arguments(args: &str, chars: usize) -> String {
    let Ok(Value::Object(mut members)) = serde_json::from_str::<Value>(args) else { return cut(args, chars) };
    let first = FIRST.iter().filter_map(|name| members.remove_entry(*name)).collect::<Vec<_>>();
    let all: Vec<(String, Value)> = first.into_iter().chain(members).collect();
    let line = match all.as_slice() {
        [] => String::new(),
        [(_, only)] => value(only),
        several => {
            let named = |(name, one): &(String, Value)| format!("{name}={}", value(one));
            several.iter().map(named).collect::<Vec<_>>().join(" ")
        }
    };
    cut(&line, chars)
}

/// A string as it is, anything else as JSON.
fn value(value: &Value) -> String {
    match value {
        Value::String(text) => clean(text.trim_end()),
        other => other.to_string(),
    }
}

/// How far a list of todos is, and what is next on it.
pub fn todos(list: &str) -> String {
    let list: Vec<Value> = serde_json::from_str(list).unwrap_or_default();
    let is = |todo: &Value, status: &str| todo["status"] == status;
    let done = list.iter().filter(|todo| is(todo, "completed")).count();
    let next = list.iter().find(|todo| is(todo, "in_progress"));
    let next = next.or_else(|| list.iter().find(|todo| !is(todo, "completed")));
    let next = next.and_then(|todo| todo["content"].as_str()).map(|text| format!(": {}", cut(text, TODO_CHARS)));
    format!("{done} of {} todos done{}", list.len(), next.unwrap_or_default())
}

/// A span of time, as short as it can be told: `12 ms`, `3.4 s`, `2 min 5 s`.
pub fn span(time: Duration) -> String {
    let millis = time.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Nano-USD as dollars, without the zeros at the end but for two of them.
pub fn dollars(nano: u64) -> String {
    let fraction = format!("{:09}", nano % 1_000_000_000);
    let digits = fraction.trim_end_matches('0').len().max(2);
    format!("${}.{}", nano / 1_000_000_000, &fraction[..digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_one_line_with_what_says_most_first() {
        let check = |args: &str, line: &str| assert_eq!(arguments(args, 40), line, "{args}");
        check(r#"{"command":"ls\n -l"}"#, "ls -l");
        check(r#"{"content":"a\nb\n","file_path":"x.txt"}"#, "file_path=x.txt content=a b");
        check(r#"{"n":3,"deep":{"a":[1]}}"#, r#"deep={"a":[1]} n=3"#);
        check("{}", "");
        check("not \u{1b}[2J JSON", "not \u{fffd}[2J JSON");
        assert_eq!(arguments(&format!(r#"{{"command":"{}"}}"#, "x".repeat(100)), 10), "xxxxxxxxx…");
    }

    #[test]
    fn todos_are_told_by_how_far_they_are() {
        let list = r#"[{"content":"a","status":"completed"},{"content":"b","status":"pending"},
            {"content":"c","status":"in_progress"}]"#;
        assert_eq!(todos(list), "1 of 3 todos done: c");
        assert_eq!(todos(r#"[{"content":"a","status":"completed"}]"#), "1 of 1 todos done");
    }

    #[test]
    fn times_and_money_are_short() {
        let spans = [12, 999, 3_456, 61_000].map(|millis| span(Duration::from_millis(millis)));
        assert_eq!(spans, ["12 ms", "999 ms", "3.4 s", "1 min 1 s"]);
        assert_eq!([0, 123_000, 1_500_000_000].map(dollars), ["$0.00", "$0.000123", "$1.50"]);
    }
}
