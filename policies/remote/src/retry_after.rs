//! `Retry-After`: the delay that a server requests.
//!
//! Pure: the time of day is an argument.
//! Source: RFC 9110, section 10.2.3. Deviations: fractions of a second are accepted, as some servers send them; the two
//! obsolete date formats are ignored; a wait is at most [`LONGEST`].

use std::time::Duration;

use hyper::header::{HeaderMap, RETRY_AFTER};
use jiff::{Timestamp, fmt::rfc2822};

/// Maximum wait.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The wait that the headers of a response request; `None` without a readable one.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    // Anthropic, Azure and vLLM's routers have this finer one, too.
    let millis = headers.get("retry-after-ms").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    if let Some(wait) = millis.and_then(|millis: f64| seconds(millis / 1_000.0)) {
        return Some(wait);
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(number) = text.parse() {
        return seconds(number);
    }
    let until = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let wait = until.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or_default().min(LONGEST))
}

fn seconds(number: f64) -> Option<Duration> {
    let wait = Duration::try_from_secs_f64(number).ok();
    // A finite number too large for a duration becomes the maximum.
    let wait = wait.or_else(|| (number.is_finite() && number > 0.0).then_some(LONGEST))?;
    Some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn check(text: &str, expected: Option<f64>) {
        let now = "2026-03-01T10:00:00Z".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        let expected = expected.map(Duration::from_secs_f64);
        assert_eq!(retry_after(&headers, now), expected, "{text}");
    }

    #[test]
    fn seconds_and_dates() {
        check("7", Some(7.0));
        check(" 0.25 ", Some(0.25));
        check("0", Some(0.0));
        check("Sun, 01 Mar 2026 10:02:00 GMT", Some(120.0));
        check("Sun, 01 Mar 2026 09:00:00 GMT", Some(0.0));
        check("Sun, 01 Mar 2099 09:00:00 GMT", Some(3600.0));
        check("999999999999999999999999999", Some(3600.0));
    }

    #[test]
    fn nonsense_is_no_answer() {
        check("-3", None);
        check("soon", None);
        check("NaN", None);
        check("inf", None);
        check("Sunday, 06-Nov-94 08:49:37 GMT", None);
    }
}
