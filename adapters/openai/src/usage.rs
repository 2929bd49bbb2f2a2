//! Tokens and price, from the many members that servers report them in.

use plica_kernel::canonical::INTEGER_MAX;
use plica_kernel::event::Usage;
use serde_json::value::RawValue;

use crate::text::Members;

/// The largest count that a record can hold (EV-1).
const COUNT_MAX: u64 = INTEGER_MAX.unsigned_abs();

/// Digits after the point of a price in nano-USD.
const NANO_DIGITS: i64 = 9;

/// Tokens by kind; zero where the server says nothing, or nothing that is a count.
///
/// Servers count what they read from or wrote to a cache as part of the prompt, and thinking
/// as part of the completion; a few leave thinking out there, which shows in their total.
pub(crate) fn usage(raw: &RawValue) -> Usage {
    let Some(mut members) = Members::of(raw.get()) else { return Usage::default() };
    let mut prompt_details = members.take_object("prompt_tokens_details").unwrap_or_default();
    let mut completion_details = members.take_object("completion_tokens_details").unwrap_or_default();
    let mut count = |name: &str| members.take(name).map(count).unwrap_or_default();
    let (prompt, completion, total) = (count("prompt_tokens"), count("completion_tokens"), count("total_tokens"));
    let cache_hit = count("prompt_cache_hit_tokens");
    let mut prompt_detail = |name: &str| prompt_details.take(name).map(self::count).unwrap_or_default();
    let cache_read = prompt_detail("cached_tokens").max(cache_hit).min(prompt);
    let cache_write = prompt_detail("cache_write_tokens").min(prompt - cache_read);
    let reasoning = completion_details.take("reasoning_tokens").map(self::count).unwrap_or_default();
    let is_apart = reasoning > 0 && total == prompt.saturating_add(completion).saturating_add(reasoning);
    let output = if is_apart { completion.saturating_add(reasoning).min(COUNT_MAX) } else { completion };
    Usage {
        cache_read,
        cache_write,
        output,
        reasoning: reasoning.min(output),
        uncached: prompt - cache_read - cache_write,
    }
}

/// A count, however it is written; zero when it is none.
fn count(raw: &RawValue) -> u64 {
    let text = raw.get().trim_matches('"');
    let whole = text.strip_suffix(".0").unwrap_or(text);
    whole.parse::<u64>().unwrap_or_default().min(COUNT_MAX)
}

/// The price that `usage.cost` gives in US dollars, in nano-USD, rounded to the nearest.
pub(crate) fn cost(raw: &RawValue) -> Option<u64> {
    let cost = Members::of(raw.get())?.take("cost")?;
    nano_usd(cost.get())
}

/// A JSON number of dollars. Taken digit by digit: money is never a float.
fn nano_usd(number: &str) -> Option<u64> {
    let (number, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // The number of digits that stand before the point of the price in nano-USD.
    let kept = i64::try_from(whole.len()).ok()?.checked_add(exponent)?.checked_add(NANO_DIGITS)?;
    let digit = |at: i64| usize::try_from(at).ok().and_then(|at| digits.as_bytes().get(at)).map_or(0, |d| d - b'0');
    let mut nano: u64 = 0;
    let first = digits.bytes().position(|byte| byte != b'0').and_then(|at| i64::try_from(at).ok());
    for at in first.unwrap_or(kept)..kept {
        nano = nano.checked_mul(10)?.checked_add(digit(at).into())?;
    }
    let rounded = nano.checked_add(u64::from(digit(kept) >= 5))?;
    (rounded <= COUNT_MAX).then_some(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Usage {
        usage(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn mo_1_tokens_are_split_into_kinds_that_exclude_each_other() {
        for (json, uncached, cache_read, cache_write, output, reasoning) in [
            (r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}"#, 10, 0, 0, 5, 0),
            (
                r#"{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":8,"cache_write_tokens":1},
                    "completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":3},"total_tokens":15}"#,
                1,
                8,
                1,
                5,
                3,
            ),
            (r#"{"prompt_tokens":10,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}"#, 6, 4, 0, 0, 0),
            // Thinking is not in the completion's count, as the total shows.
            (
                r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,
                    "completion_tokens_details":{"reasoning_tokens":7}}"#,
                10,
                0,
                0,
                12,
                7,
            ),
            (r#"{"prompt_tokens":"10","completion_tokens":5.0,"prompt_tokens_details":null}"#, 10, 0, 0, 5, 0),
            // Counts that contradict each other never go below zero.
            (
                r#"{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":5,"cache_write_tokens":5},
                    "completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":9}}"#,
                0,
                1,
                0,
                1,
                1,
            ),
            (r#"{"prompt_tokens":-1,"completion_tokens":"many"}"#, 0, 0, 0, 0, 0),
            ("[]", 0, 0, 0, 0, 0),
        ] {
            assert_eq!(read(json), Usage { cache_read, cache_write, output, reasoning, uncached }, "{json}");
        }
        let most = read(r#"{"prompt_tokens":18446744073709551615,"completion_tokens":99999999999999999999}"#);
        assert_eq!((most.uncached, most.output), (COUNT_MAX, 0));
    }

    #[test]
    fn en_4_a_price_is_read_to_the_nano_without_floats() {
        for (number, nano) in [
            ("0", Some(0)),
            ("1", Some(1_000_000_000)),
            ("0.000123456789", Some(123_457)),
            ("1.4e-05", Some(14_000)),
            ("2E3", Some(2_000_000_000_000)),
            ("0.0000000004", Some(0)),
            ("0.0000000005", Some(1)),
            ("5e-10", Some(1)),
            ("5e-11", Some(0)),
            ("12.50", Some(12_500_000_000)),
            ("-1", None),
            ("1e300", None),
            ("1e99999999999999999999", None),
            ("0e300", Some(0)),
            ("9007199.254740992", None),
            ("\"1\"", None),
        ] {
            assert_eq!(nano_usd(number), nano, "{number}");
        }
    }
}
