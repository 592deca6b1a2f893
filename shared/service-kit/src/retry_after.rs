//! Reads the `Retry-After` header of a response.

use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, HeaderName, header};

/// Longest wait that we accept. A wrong header must not delay our work for a day.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Accepts both forms of RFC 9110: a number of seconds, or a date. A date that has passed means no wait.
/// Other text counts as absent.
pub fn parse(headers: &HeaderMap) -> Option<Duration> {
    parse_at(headers, SystemTime::now())
}

fn parse_at(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = text(headers, &header::RETRY_AFTER)?;
    let wait = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            // The server computed the date with its own clock, which may differ from ours.
            let sent = text(headers, &header::DATE).and_then(date).unwrap_or(now);
            date(value)?.duration_since(sent).unwrap_or_default()
        }
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

fn date(value: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(value).ok()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn wait(retry_after: &'static str, sent: Option<&'static str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(retry_after));
        if let Some(sent) = sent {
            headers.insert(header::DATE, HeaderValue::from_static(sent));
        }
        parse_at(&headers, date(NOW).unwrap()).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        for (value, seconds) in [
            ("0", 0),
            (" 7 ", 7),
            ("301", 300),
            ("Sun, 06 Nov 1994 08:49:47 GMT", 10),
            ("Sunday, 06-Nov-94 08:49:47 GMT", 10),
            ("Sun Nov  6 08:49:47 1994", 10),
            ("Sun, 06 Nov 1994 08:49:27 GMT", 0),
            ("Sat, 06 Nov 2094 08:49:37 GMT", 300),
        ] {
            assert_eq!(wait(value, None), Some(seconds), "{value}");
        }
    }

    #[test]
    fn date_counts_from_the_clock_of_the_server() {
        let date = "Sun, 06 Nov 1994 09:00:30 GMT";
        let sent = "Sun, 06 Nov 1994 09:00:00 GMT";
        assert_eq!(wait(date, Some(sent)), Some(30));
        assert_eq!(wait(date, Some("nonsense")), Some(300));
    }

    #[test]
    fn other_text_counts_as_absent() {
        for value in ["", "-1", "1.5", "soon", "1994-11-06T08:49:37Z"] {
            assert_eq!(wait(value, None), None, "{value}");
        }
    }
}
