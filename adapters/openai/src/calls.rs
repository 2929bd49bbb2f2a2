//! Calls that come in pieces.

use plica_kernel::message::Block;
use serde_json::value::RawValue;

use crate::text::{Members, Text, string};

/// The calls of a reply, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    args: String,
}

impl Calls {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next piece of a call; says whether text of it had to be replaced.
    ///
    /// A piece belongs to the call of its index. Some servers leave the index out or give
    /// all calls the same one; with them a new id, or a new name once arguments have come,
    /// begins a new call, and a piece that has neither goes on with the last.
    pub(crate) fn take(&mut self, piece: &mut Members<'_>) -> bool {
        let index = piece.take("index").and_then(|raw| raw.get().parse().ok());
        let id = piece.take_text("id").unwrap_or_default();
        piece.take("type");
        let mut function = piece.take_object("function").unwrap_or_default();
        let name = function.take_text("name").unwrap_or_default();
        let args = function.take("arguments").map(arguments).unwrap_or_default();
        let at = self.of(index, &id.text, &name.text);
        let call = &mut self.0[at];
        if call.id.is_empty() {
            call.id = id.text;
        }
        if call.name != name.text {
            call.name.push_str(&name.text);
        }
        call.args.push_str(&args.text);
        id.replaced || name.replaced || args.replaced
    }

    /// The place of the call that a piece belongs to.
    fn of(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let known = match index {
            Some(_) => self.0.iter().rposition(|call| call.index == index),
            None => self.0.len().checked_sub(1),
        };
        let goes_on = known.filter(|at| {
            let call = &self.0[*at];
            let other_id = !id.is_empty() && !call.id.is_empty() && id != call.id;
            let same_id = !id.is_empty() && id == call.id;
            let begun = !call.args.is_empty();
            let other_name = !name.is_empty() && !call.name.is_empty() && name != call.name;
            // Whoever repeats the name with every piece repeats the index or the id as well.
            let again = index.is_none() && !same_id && (other_name || begun && !name.is_empty());
            !(other_id || again || other_name && begun)
        });
        goes_on.unwrap_or_else(|| {
            self.0.push(Call { index, ..Call::default() });
            self.0.len() - 1
        })
    }

    /// The calls as blocks. No arguments at all means that there are none to give.
    pub(crate) fn into_blocks(self) -> impl Iterator<Item = Block> {
        self.0.into_iter().map(|call| Block::ToolUse {
            args: if call.args.trim().is_empty() { "{}".to_owned() } else { call.args },
            id: (!call.id.is_empty()).then_some(call.id),
            tool: call.name,
        })
    }
}

/// A piece of arguments: the text in the string, or the very text of what is no string.
fn arguments(raw: &RawValue) -> Text {
    string(raw).unwrap_or_else(|| Text { text: raw.get().to_owned(), replaced: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(id, tool, args)` of each call that the pieces make.
    fn calls(pieces: &[&str]) -> Vec<(Option<String>, String, String)> {
        let mut calls = Calls::default();
        for piece in pieces {
            assert!(!calls.take(&mut Members::of(piece).unwrap()));
        }
        let parts = |block| match block {
            Block::ToolUse { args, id, tool } => (id, tool, args),
            other => panic!("{other:?}"),
        };
        calls.into_blocks().map(parts).collect()
    }

    fn call(id: &str, tool: &str, args: &str) -> (Option<String>, String, String) {
        ((!id.is_empty()).then(|| id.into()), tool.into(), args.into())
    }

    #[test]
    fn mo_1_pieces_with_indexes_come_interleaved() {
        let pieces = [
            r#"{"index":0,"id":"a","type":"function","function":{"name":"Read","arguments":""}}"#,
            r#"{"index":1,"id":"b","type":"function","function":{"name":"Grep","arguments":"{\"x\""}}"#,
            r#"{"index":0,"function":{"arguments":"{\"n\":1.0"}}"#,
            r#"{"index":1,"function":{"arguments":":2}"}}"#,
            r#"{"index":0,"function":{"arguments":"}"}}"#,
        ];
        assert_eq!(calls(&pieces), [call("a", "Read", r#"{"n":1.0}"#), call("b", "Grep", r#"{"x":2}"#)]);
    }

    #[test]
    fn mo_1_calls_are_told_apart_where_indexes_are_missing_or_all_the_same() {
        for index in ["", r#""index":0,"#] {
            let piece = |rest: &str| format!("{{{index}{rest}}}");
            let pieces = [
                piece(r#""id":"a","function":{"name":"Read","arguments":"{\"a\""}"#),
                piece(r#""id":"a","function":{"name":"Read","arguments":":1}"}"#),
                piece(r#""id":"b","function":{"name":"Read","arguments":"{}"}"#),
                piece(r#""function":{"arguments":" "}"#),
                piece(r#""id":"c","function":{"name":"Grep","arguments":null}"#),
            ];
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let expected = [call("a", "Read", r#"{"a":1}"#), call("b", "Read", "{} "), call("c", "Grep", "{}")];
            assert_eq!(calls(&pieces), expected);
        }
        // A name may come in pieces, as long as no arguments have come.
        let pieces = [
            r#"{"index":0,"id":"a","function":{"name":"Re","arguments":""}}"#,
            r#"{"index":0,"function":{"name":"ad","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{}"}}"#,
            r#"{"index":0,"function":{"name":"Grep","arguments":"{}"}}"#,
        ];
        assert_eq!(calls(&pieces), [call("a", "Read", "{}"), call("", "Grep", "{}")]);
        // Without ids either, a name that comes after arguments begins a call.
        let pieces = [
            r#"{"function":{"name":"Read","arguments":"{}"}}"#,
            r#"{"function":{"name":"Read","arguments":"{\"b\":2"}}"#,
            r#"{"function":{"arguments":"}"}}"#,
            r#"{"id":"","function":{"name":"Grep","arguments":""}}"#,
        ];
        assert_eq!(calls(&pieces), [call("", "Read", "{}"), call("", "Read", r#"{"b":2}"#), call("", "Grep", "{}")]);
    }

    #[test]
    fn ev_5_arguments_are_the_text_that_came() {
        let pieces = [r#"{"index":0,"function":{"name":"X","arguments":"{\"n\": 1.50,, \"n\":\u0022"}}"#];
        assert_eq!(calls(&pieces), [call("", "X", r#"{"n": 1.50,, "n":""#)]);
        let pieces = [r#"{"index":0,"function":{"name":"X","arguments":{"z": 1.50, "a":[ ]}}}"#];
        assert_eq!(calls(&pieces), [call("", "X", r#"{"z": 1.50, "a":[ ]}"#)]);
        assert_eq!(calls(&[r#"{"index":0}"#]), [call("", "", "{}")]);
    }
}
