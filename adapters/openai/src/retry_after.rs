//! How long a server asks to wait.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// The same in milliseconds; some servers send it besides.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The wait that the headers ask for, in any of its forms: milliseconds, seconds (whole or
/// not), or a date (RFC 9110, 10.2.3). A date is measured from the server's own `Date`, so
/// that a clock that differs from ours makes no difference.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(wait) = text(&RETRY_AFTER_MS).and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(wait));
    }
    let asked = text(&RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let due = httpdate::parse_http_date(asked).ok()?;
    let now = text(&DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    Some(due.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mo_3_retry_after_is_read_in_all_its_forms() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let check = |headers: &[(&str, &str)], millis: Option<u64>| {
            let pairs = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let headers: HeaderMap = pairs.collect();
            assert_eq!(retry_after(&headers, now), millis.map(Duration::from_millis), "{headers:?}");
        };
        check(&[], None);
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", " 0.25 ")], Some(250));
        check(&[("retry-after-ms", "1500"), ("retry-after", "2")], Some(1_500));
        check(&[("retry-after-ms", "soon"), ("retry-after", "2")], Some(2_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(60_000));
        check(&[("retry-after", "Sunday, 06-Nov-94 08:49:38 GMT")], Some(1_000));
        check(&[("retry-after", "Sun Nov  6 08:49:39 1994")], Some(2_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(0));
        let skewed = ("date", "Sun, 06 Nov 1994 09:49:37 GMT");
        check(&[("retry-after", "Sun, 06 Nov 1994 09:49:40 GMT"), skewed], Some(3_000));
        check(&[("retry-after", "-1")], None);
        check(&[("retry-after", "NaN")], None);
        check(&[("retry-after", "1e300")], None);
        check(&[("retry-after", "later")], None);
    }
}
