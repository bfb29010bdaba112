//! `Retry-After`: how long a provider asks to be left alone (RFC 9110, section 10.2.3).

use ::http::{HeaderMap, header};
use portolan_core::time::Timestamp;
use std::time::UNIX_EPOCH;

/// The delay in milliseconds, from either form of the header. A date counts from the provider's own `Date`, so a clock
/// that differs from ours does no harm; `now` stands in when the answer has none. A past date is no delay.
pub(crate) fn retry_after_ms(headers: &HeaderMap, now: impl FnOnce() -> Timestamp) -> Option<u64> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // Digits that do not fit are a very long time.
        return Some(value.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1_000));
    }
    let until = date(value)?;
    let from = headers
        .get(header::DATE)
        .and_then(|sent| date(sent.to_str().ok()?.trim()))
        .unwrap_or_else(now);
    Some(until.ms_since(from))
}

fn date(text: &str) -> Option<Timestamp> {
    let moment = httpdate::parse_http_date(text).ok()?;
    let since_epoch = moment.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_epoch.as_micros()).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::HeaderValue;

    fn check(pairs: &[(header::HeaderName, &'static str)], expected: Option<u64>) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(name.clone(), HeaderValue::from_static(value));
        }
        // Ten seconds before the dates below.
        let now = || "2026-10-21T07:27:50Z".parse().expect("a moment");
        assert_eq!(retry_after_ms(&headers, now), expected, "{pairs:?}");
    }

    #[test]
    fn seconds_are_taken_as_they_are() {
        check(&[(header::RETRY_AFTER, "120")], Some(120_000));
        check(&[(header::RETRY_AFTER, " 0 ")], Some(0));
        check(
            &[(header::RETRY_AFTER, "99999999999999999999999")],
            Some(u64::MAX),
        );
    }

    #[test]
    fn a_date_counts_from_the_providers_clock_and_else_from_ours() {
        const DATE: &str = "Wed, 21 Oct 2026 07:28:00 GMT";
        check(
            &[
                (header::RETRY_AFTER, DATE),
                (header::DATE, "Wed, 21 Oct 2026 07:27:30 GMT"),
            ],
            Some(30_000),
        );
        check(&[(header::RETRY_AFTER, DATE)], Some(10_000));
        check(
            &[(header::RETRY_AFTER, DATE), (header::DATE, "yesterday")],
            Some(10_000),
        );
        check(
            &[
                (header::RETRY_AFTER, DATE),
                (header::DATE, "Wed, 21 Oct 2026 08:00:00 GMT"),
            ],
            Some(0),
        );
        check(
            &[(header::RETRY_AFTER, "Wednesday, 21-Oct-26 07:28:00 GMT")],
            Some(10_000),
        );
    }

    #[test]
    fn anything_else_is_no_wish() {
        check(&[], None);
        for bad in ["", "soon", "-1", "1.5", "1e3"] {
            check(&[(header::RETRY_AFTER, bad)], None);
        }
    }
}
