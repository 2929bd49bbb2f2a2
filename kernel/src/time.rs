//! Recorded time: microseconds since the Unix epoch, with one spelling as text.

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment in UTC, in microseconds since 1970-01-01T00:00:00Z, between the years 0 and
/// 9999; as text RFC 3339 with six decimals, `2026-11-30T09:41:22.123456Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

const MICROS_PER_DAY: i64 = 86_400_000_000;
const MIN: i64 = -62_167_219_200_000_000;
const MAX: i64 = 253_402_300_799_999_999;

impl Timestamp {
    /// The moment `micros` after the Unix epoch, held within the years 0 to 9999.
    pub const fn from_micros(micros: i64) -> Self {
        Self(match micros {
            ..=MIN => MIN,
            MAX.. => MAX,
            _ => micros,
        })
    }

    /// Microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// This moment plus `millis` milliseconds.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self::from_micros(self.0.saturating_add_unsigned(millis.saturating_mul(1000)))
    }

    /// Milliseconds from `earlier` to this moment; 0 when it is not earlier.
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from((self.0 - earlier.0) / 1000).unwrap_or(0)
    }

    /// Reads the one spelling there is; anything else is `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: &[u8; 27] = text.as_bytes().try_into().ok()?;
        for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (26, b'Z')] {
            if bytes[at] != mark {
                return None;
            }
        }
        let number = |from: usize, to: usize| {
            bytes[from..to]
                .iter()
                .try_fold(0i64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
        };
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second, micro) = (number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 26)?);
        if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_from_civil(year, month, day);
        if day < 1 || civil_from_days(days) != (year, month, day) {
            return None;
        }
        Some(Self(days * MICROS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micro))
    }
}

/// Days since 1970-01-01 of a proleptic Gregorian date (Howard Hinnant, "chrono-compatible
/// low-level date algorithms", `days_from_civil`).
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date of a day number (the inverse, `civil_from_days`).
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Writes the last digits of `value`, leading zeros included, over all of `digits`.
fn write_digits(digits: &mut [u8], mut value: i64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

impl Timestamp {
    /// Hands the one spelling to `take`.
    fn with_text<T>(self, take: impl FnOnce(&str) -> T) -> T {
        let (year, month, day) = civil_from_days(self.0.div_euclid(MICROS_PER_DAY));
        let micros = self.0.rem_euclid(MICROS_PER_DAY);
        let seconds = micros / 1_000_000;
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        write_digits(&mut text[0..4], year);
        write_digits(&mut text[5..7], month);
        write_digits(&mut text[8..10], day);
        write_digits(&mut text[11..13], seconds / 3600);
        write_digits(&mut text[14..16], seconds / 60 % 60);
        write_digits(&mut text[17..19], seconds % 60);
        write_digits(&mut text[20..26], micros);
        take(core::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time like 2026-11-30T09:41:22.123456Z")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::parse(text)
                    .ok_or_else(|| E::custom(format_args!("{text:?} is not a time like 2026-11-30T09:41:22.123456Z")))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn ev_1_time_has_one_spelling() {
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::parse("2026-11-30T09:41:22.123456Z").unwrap().micros(), 1_796_031_682_123_456);
        for bad in [
            "2026-11-30T09:41:22Z",
            "2026-02-30T09:41:22.123456Z",
            "2026-13-01T00:00:00.000000Z",
            "2026-11-30 09:41:22.123456Z",
            "2026-11-30T24:00:00.000000Z",
            "2026-11-30T09:41:22.123456z",
            "+026-11-30T09:41:22.123456Z",
        ] {
            assert_eq!(Timestamp::parse(bad), None, "{bad}");
        }
    }

    /// Days around which a calendar goes wrong, and the first and the last moment there is.
    #[test]
    fn ev_1_moments_of_the_calendar() {
        for (text, micros) in [
            ("0000-01-01T00:00:00.000000Z", MIN),
            ("0000-02-29T00:00:00.000000Z", MIN + 59 * MICROS_PER_DAY),
            ("0000-03-01T00:00:00.000000Z", MIN + 60 * MICROS_PER_DAY),
            ("1582-10-15T12:30:45.000001Z", -12_219_247_754_999_999),
            ("1600-02-29T00:00:00.000000Z", -11_670_998_400_000_000),
            ("1900-02-28T23:59:59.999999Z", -2_203_891_200_000_001),
            ("1900-03-01T00:00:00.000000Z", -2_203_891_200_000_000),
            ("1969-12-31T23:59:59.999999Z", -1),
            ("1970-01-01T00:00:00.000000Z", 0),
            ("1999-12-31T23:59:59.999999Z", 946_684_799_999_999),
            ("2000-02-29T00:00:00.000000Z", 951_782_400_000_000),
            ("2000-12-31T00:00:00.000000Z", 978_220_800_000_000),
            ("2024-02-29T01:02:03.040506Z", 1_709_168_523_040_506),
            ("2100-02-28T00:00:00.000000Z", 4_107_456_000_000_000),
            ("2100-03-01T00:00:00.000000Z", 4_107_542_400_000_000),
            ("9999-12-31T23:59:59.999999Z", MAX),
        ] {
            assert_eq!(Timestamp::parse(text).map(Timestamp::micros), Some(micros), "{text}");
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn ev_1_what_is_no_moment_is_refused() {
        let good = "2023-10-30T19:48:57.123456Z";
        assert!(Timestamp::parse(good).is_some());
        // Any other byte in any place, but for a digit in place of a digit.
        for at in 0..good.len() {
            for byte in [b'/', b':', b'x', b' ', b'-', b'.', b'T', b'Z'] {
                let mut text = good.as_bytes().to_vec();
                text[at] = byte;
                let same = text == good.as_bytes();
                let text = alloc::string::String::from_utf8(text).unwrap();
                assert_eq!(Timestamp::parse(&text).is_some(), same, "{text}");
            }
        }
        for (part, bad) in [
            ("-10-30", "-00-30"),
            ("-10-30", "-13-30"),
            ("-10-30", "-10-00"),
            ("-10-30", "-10-32"),
            ("-10-30", "-09-31"),
            ("-10-30", "-02-29"),
            ("T19", "T24"),
            (":48:", ":60:"),
            (":57.", ":60."),
            ("Z", "ZZ"),
            ("56Z", "5Z"),
        ] {
            let text = good.replacen(part, bad, 1);
            assert_eq!(Timestamp::parse(&text), None, "{text}");
        }
        for (part, other) in
            [("-10-30", "-01-01"), ("-10-30", "-12-31"), ("T19", "T23"), (":48:", ":59:"), (":57.", ":59.")]
        {
            let text = good.replacen(part, other, 1);
            assert_eq!(Timestamp::parse(&text).unwrap().to_string(), text);
        }
    }

    /// The years of a whole cycle and every day of some of them follow each other without a gap.
    #[test]
    fn ev_1_each_day_follows_the_one_before() {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut day = MIN / MICROS_PER_DAY;
        for year in 0..=9999 {
            if year > 410 && !(1890..2110).contains(&year) && year < 9990 {
                assert_eq!(days_from_civil(year, 1, 1), day, "{year}");
                day += if leap(year) { 366 } else { 365 };
                continue;
            }
            let february = if leap(year) { 29 } else { 28 };
            for (month, days) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
                for date in 1..=days {
                    assert_eq!((days_from_civil(year, month, date), civil_from_days(day)), (day, (year, month, date)));
                    day += 1;
                }
            }
        }
        assert_eq!(day * MICROS_PER_DAY - 1, MAX);
    }

    #[test]
    fn wa_6_times_are_added_and_compared_within_the_calendar() {
        let at = Timestamp::from_micros;
        assert_eq!((at(MIN - 1).micros(), at(MAX + 1).micros()), (MIN, MAX));
        assert_eq!((at(i64::MIN), at(i64::MAX), at(5).micros()), (at(MIN), at(MAX), 5));
        assert_eq!((at(5).plus_millis(0), at(-5).plus_millis(7)), (at(5), at(6_995)));
        assert_eq!((at(5).plus_millis(u64::MAX), at(MAX - 999).plus_millis(1)), (at(MAX), at(MAX)));
        let most = (MAX / 1000) as u64;
        assert_eq!(at(0).plus_millis(most), at(MAX - 999));
        assert_eq!((at(0).plus_millis(most + 1), at(-1_000).plus_millis(most + 1)), (at(MAX), at(MAX - 999)));
        assert_eq!(at(7_999).millis_since(at(1_000)), 6);
        assert_eq!(at(8_000).millis_since(at(1_000)), 7);
        assert_eq!((at(1_000).millis_since(at(1_000)), at(999).millis_since(at(8_000))), (0, 0));
        assert_eq!(at(2_000).millis_since(at(-3_000)), 5);
    }

    proptest! {
        #[test]
        fn ev_1_time_reads_back_as_written(micros in MIN..=MAX) {
            let time = Timestamp::from_micros(micros);
            prop_assert_eq!(Timestamp::parse(&time.to_string()), Some(time));
        }
    }
}
