//! Arguments as the model wrote them, read into the type of one tool.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Number;

use crate::fault::Fault;

/// The arguments of a call of `tool`.
///
/// The engine has validated them against the schema; a caller that has not gets a failed call
/// and no panic.
pub(crate) fn parse<T: DeserializeOwned>(tool: &str, args: &str) -> Result<T, Fault> {
    serde_json::from_str(args).map_err(|error| {
        Fault::failed(format!("the arguments do not fit {tool}: {error}; correct them and call again"))
    })
}

/// An optional whole number. JSON Schema takes `5.0` for an integer, so this does too.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if let Some(value) = number.as_u64() {
        return Ok(Some(value));
    }
    match number.as_f64() {
        // Up to 2^53 every whole double is the number that was written.
        Some(value) if value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value) => {
            Ok(Some(value as u64))
        }
        _ => Err(D::Error::custom(format_args!("{number} is not a whole number from 0"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    struct One {
        #[serde(default, deserialize_with = "whole")]
        n: Option<u64>,
    }

    #[test]
    fn to_1_whole_numbers_are_read_in_every_spelling_the_schema_allows() {
        for (text, n) in [
            ("{}", None),
            (r#"{"n":null}"#, None),
            (r#"{"n":5}"#, Some(5)),
            (r#"{"n":5.0}"#, Some(5)),
            (r#"{"n":2e3}"#, Some(2000)),
        ] {
            assert_eq!(parse::<One>("One", text), Ok(One { n }), "{text}");
        }
    }

    #[test]
    fn to_1_what_does_not_fit_is_a_failed_call() {
        for text in ["", "[]x", r#"{"n":-1}"#, r#"{"n":1.5}"#, r#"{"n":"5"}"#, r#"{"n":1e300}"#, "\"\\ud800\""] {
            assert!(matches!(parse::<One>("One", text), Err(Fault::Failed(_))), "{text}");
        }
    }
}
