//! Media types: what a body is, and what a client wants to get.

/// Whether a content type is JSON in UTF-8.
pub(crate) fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case("application/json")
        && parts.filter(|part| !part.is_empty()).all(|parameter| {
            parameter.split_once('=').is_some_and(|(name, value)| {
                let value = value.trim().trim_matches('"');
                name.trim().eq_ignore_ascii_case("charset") && value.eq_ignore_ascii_case("utf-8")
            })
        })
}

/// The two forms of an event list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventForm {
    /// A stream of server-sent events.
    Stream,
    /// A JSON list.
    List,
}

/// Chooses the form that a client wants most; the stream where it does not care. `None` if it wants neither.
pub(crate) fn event_form<'a>(accept: impl Iterator<Item = &'a str>) -> Option<EventForm> {
    let mut asked = false;
    let (mut stream, mut list) = (Wish::default(), Wish::default());
    for range in accept.flat_map(|value| value.split(',')).map(str::trim) {
        if range.is_empty() {
            continue;
        }
        asked = true;
        let mut parts = range.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let quality = parts.find_map(quality).unwrap_or(1_000);
        stream.hear(essence, "text/event-stream", "text/*", quality);
        list.hear(essence, "application/json", "application/*", quality);
    }
    if !asked {
        return Some(EventForm::Stream);
    }
    match (stream.quality, list.quality) {
        (0, 0) => None,
        // An exact name says more than a range of equal quality.
        (s, l) if s == l && list.precision > stream.precision => Some(EventForm::List),
        (s, l) if s >= l => Some(EventForm::Stream),
        _ => Some(EventForm::List),
    }
}

/// How much a client wants a form: the most precise range counts.
#[derive(Default)]
struct Wish {
    precision: u8,
    quality: u16,
}

impl Wish {
    fn hear(&mut self, essence: &str, exact: &str, range: &str, quality: u16) {
        let precision = if essence.eq_ignore_ascii_case(exact) {
            3
        } else if essence.eq_ignore_ascii_case(range) {
            2
        } else if essence == "*/*" {
            1
        } else {
            return;
        };
        if precision > self.precision {
            *self = Self { precision, quality };
        }
    }
}

/// A quality parameter in thousandths.
fn quality(parameter: &str) -> Option<u16> {
    let value = parameter
        .strip_prefix("q=")
        .or_else(|| parameter.strip_prefix("Q="))?;
    let (whole, decimals) = value.split_once('.').unwrap_or((value, ""));
    let whole: u16 = whole.parse().ok().filter(|whole| *whole <= 1)?;
    let decimals: u16 = format!("{decimals:0<3}").get(..3)?.parse().ok()?;
    Some((whole * 1_000 + decimals).min(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf8_is_json() {
        for good in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json;",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "application/json; charset=latin1",
            "application/jsonp",
            "application/problem+json",
            "multipart/form-data; boundary=x",
            "application/json; charset",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[test]
    fn the_form_of_events_follows_accept() {
        use EventForm::{List, Stream};
        for (accept, form) in [
            ("", Some(Stream)),
            ("*/*", Some(Stream)),
            ("text/event-stream", Some(Stream)),
            ("text/*", Some(Stream)),
            ("application/json", Some(List)),
            ("application/json, */*", Some(List)),
            ("application/json, text/event-stream", Some(Stream)),
            ("application/json, text/event-stream;q=0.5", Some(List)),
            ("application/json, text/plain, */*;q=0.1", Some(List)),
            ("text/html", None),
            ("text/html, application/xhtml+xml", None),
            ("text/event-stream;q=0", None),
            ("text/event-stream;q=0, */*", Some(List)),
        ] {
            assert_eq!(event_form([accept].into_iter()), form, "{accept}");
        }
    }
}
