//! Values of arguments: texts, durations, times.

use std::convert::Infallible;
use std::io::{self, Read};
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, Zoned};
use plica_kernel::envelope::Origin;
use plica_kernel::id::Seq;
use plica_kernel::time::Timestamp;

/// The shortest lease: renewing every third of a shorter one would be a load of its own.
const LEASE_MIN: Duration = Duration::from_millis(100);
/// The longest lease: a worker that is gone would keep its tasks from others for so long.
const LEASE_MAX: Duration = Duration::from_secs(86_400);
/// The longest delay: a hundred years, well within the times that a record can hold.
const DELAY_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A text given as an argument, or `-` for standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The argument itself.
    Given(String),
    /// All of standard input, nothing trimmed.
    StandardInput,
}

/// A text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadText {
    /// The text.
    pub text: String,
    /// Whether bytes that are no UTF-8 were replaced with U+FFFD in it (EV-6).
    pub replaced: bool,
}

impl Text {
    /// The text; `input` is read to its end if it is meant.
    ///
    /// # Errors
    /// When `input` cannot be read.
    pub fn read(self, mut input: impl Read) -> io::Result<ReadText> {
        match self {
            Self::Given(text) => Ok(ReadText { text, replaced: false }),
            Self::StandardInput => {
                let mut bytes = Vec::new();
                input.read_to_end(&mut bytes)?;
                Ok(match String::from_utf8(bytes) {
                    Ok(text) => ReadText { text, replaced: false },
                    Err(error) => {
                        ReadText { text: String::from_utf8_lossy(error.as_bytes()).into_owned(), replaced: true }
                    }
                })
            }
        }
    }
}

impl FromStr for Text {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" { Self::StandardInput } else { Self::Given(text.to_owned()) })
    }
}

/// A label, `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Its name; never empty.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl FromStr for Label {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self { name: name.to_owned(), value: value.to_owned() }),
            _ => Err("expected NAME=VALUE".to_owned()),
        }
    }
}

/// Reads a number of kills: a demo is a matter of seconds.
pub(super) fn kills(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|kills| *kills <= 200).ok_or_else(|| "expected 0 to 200".to_owned())
}

/// Reads a duration: whole numbers with units, `90s`, `15m`, `2h`, `3d`, `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected whole numbers with units, like 90s, 15m, 2h, 3d or 1h30m".to_owned();
    if text.is_empty() {
        return Err(expected());
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit());
        let (unit, after) = split_while(after, |c| c.is_ascii_alphabetic());
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            _ => return Err(expected()),
        };
        if number.is_empty() {
            return Err(expected());
        }
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(millis)).map(Duration::from_millis);
        sum = part
            .and_then(|part| sum.checked_add(part))
            .filter(|sum| *sum <= DELAY_MAX)
            .ok_or_else(|| "it is longer than a hundred years".to_owned())?;
        rest = after;
    }
    Ok(sum)
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Reads a time; one without an offset is local.
pub(super) fn local_time(text: &str) -> Result<Timestamp, String> {
    time_in(text, TimeZone::system)
}

/// Reads a time: RFC 3339 (RFC 9557 too, with a zone in brackets), or a civil time of `zone`.
/// A civil time that a change of clocks skips is taken as that much later, one that comes
/// twice as the first.
fn time_in(text: &str, zone: impl FnOnce() -> TimeZone) -> Result<Timestamp, String> {
    let instant = if text.contains('[') {
        text.parse::<Zoned>().map(|time| time.timestamp())
    } else {
        text.parse::<Instant>().or_else(|_| text.parse::<DateTime>().and_then(|time| zone().to_timestamp(time)))
    };
    let micros = instant
        .map_err(|_| "expected a time like 2026-12-01T09:00:00Z, or local time like \"2026-12-01 09:00\"".to_owned())?
        .as_microsecond();
    match Timestamp::from_micros(micros) {
        time if time.micros() == micros => Ok(time),
        _ => Err("expected a year from 0 to 9999".to_owned()),
    }
}

/// Reads a lease: seconds, fractions down to milliseconds allowed.
pub(super) fn lease(text: &str) -> Result<Duration, String> {
    let expected =
        || format!("expected seconds from {} to {}, like 30 or 2.5", LEASE_MIN.as_secs_f32(), LEASE_MAX.as_secs());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(expected());
    }
    let seconds = whole.parse().map_err(|_| expected())?;
    // A digit after the third would say less than a millisecond.
    let millis = format!("{fraction:0<3}")[..3].parse().map_err(|_| expected())?;
    Some(Duration::from_secs(seconds))
        .and_then(|lease| lease.checked_add(Duration::from_millis(millis)))
        .filter(|lease| (LEASE_MIN..=LEASE_MAX).contains(lease))
        .ok_or_else(expected)
}

/// Reads the seq of an event.
pub(super) fn seq(text: &str) -> Result<Seq, String> {
    text.parse().map(Seq).map_err(|_| "expected the number of an event, like 12".to_owned())
}

/// The word of an origin, as events have it.
pub(crate) const fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Engine => "engine",
        Origin::Llm => "llm",
        Origin::Observer => "observer",
        Origin::Tool => "tool",
        Origin::System => "system",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cl_4_durations_are_whole_numbers_with_units() {
        for (text, millis) in [
            ("90s", Some(90_000)),
            ("15m", Some(900_000)),
            ("15min", Some(900_000)),
            ("2h", Some(7_200_000)),
            ("3d", Some(259_200_000)),
            ("1w", Some(604_800_000)),
            ("250ms", Some(250)),
            ("1h30m", Some(5_400_000)),
            ("0s", Some(0)),
            ("", None),
            ("90", None),
            ("s", None),
            ("-1s", None),
            ("1.5h", None),
            ("1 h", None),
            ("1h ", None),
            ("1H", None),
            ("1y", None),
            ("36600d", Some(3_162_240_000_000)),
            ("36601d", None),
            ("99999999999999999999d", None),
            ("18446744073709551615ms18446744073709551615ms", None),
        ] {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn cl_4_times_have_an_offset_or_are_local() {
        let berlin = || TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (text, expected) in [
            ("2026-12-01T09:00:00Z", Some("2026-12-01T09:00:00.000000Z")),
            ("2026-12-01T09:00:00.123456789+02:00", Some("2026-12-01T07:00:00.123456Z")),
            ("2026-12-01t09:00:00z", Some("2026-12-01T09:00:00.000000Z")),
            ("2026-12-01 09:00", Some("2026-12-01T08:00:00.000000Z")),
            ("2026-07-01 09:00:30", Some("2026-07-01T07:00:30.000000Z")),
            ("2026-07-01T09:00", Some("2026-07-01T07:00:00.000000Z")),
            ("2026-07-01", Some("2026-06-30T22:00:00.000000Z")),
            ("2026-12-01T09:00:00+00:00[UTC]", Some("2026-12-01T09:00:00.000000Z")),
            ("2026-03-29 02:30", Some("2026-03-29T01:30:00.000000Z")),
            ("2026-10-25 02:30", Some("2026-10-25T00:30:00.000000Z")),
            ("-000001-12-01T00:00:00Z", None),
            ("2026-02-30 09:00", None),
            ("tomorrow", None),
            ("09:00", None),
            ("", None),
        ] {
            assert_eq!(time_in(text, berlin).ok().map(|time| time.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn cl_4_a_lease_is_in_seconds_with_fractions() {
        for (text, millis) in [
            ("30", Some(30_000)),
            ("2.5", Some(2_500)),
            ("0.1", Some(100)),
            ("0.25", Some(250)),
            ("1.0009", Some(1_000)),
            ("86400", Some(86_400_000)),
            ("86400.001", None),
            ("0.099", None),
            ("0", None),
            ("-1", None),
            ("1.", None),
            (".5", None),
            ("1e3", None),
            ("30s", None),
            ("", None),
            ("18446744073709551615.9", None),
        ] {
            assert_eq!(lease(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
        assert!(lease("x").unwrap_err().contains("from 0.1 to 86400"));
    }

    #[test]
    fn cl_4_a_goal_of_a_dash_is_standard_input_untrimmed() {
        let read = |argument: &str, input: &[u8]| argument.parse::<Text>().unwrap().read(input).unwrap();
        assert_eq!(read("-", b" a\n\0"), ReadText { text: " a\n\0".into(), replaced: false });
        assert_eq!(read("--", b"x").text, "--");
        assert_eq!(read("do it", b"x").text, "do it");
        assert_eq!(read("-", b"a\xffb"), ReadText { text: "a\u{fffd}b".into(), replaced: true });
    }
}
