//! Watches heads for what the parser behind it repairs silently: a request with both Content-Length and Transfer-Encoding.
//!
//! Whoever stands in front of this server may have chosen the other one of the two, so the request is refused.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// A head that is longer is refused for its length.
const LONGEST: usize = 192 * 1024;

/// What is known about the head that a connection is reading.
#[derive(Debug, Default)]
pub(super) struct HeadWatch {
    /// A request is being answered: what arrives is its body.
    busy: AtomicBool,
    head: Mutex<Head>,
}

#[derive(Debug, Default)]
struct Head {
    bytes: Vec<u8>,
    /// The head is complete, what follows is body.
    is_complete: bool,
    is_ambiguous: bool,
}

impl Head {
    /// Keeps no room: what follows may be a stream that is silent for hours.
    fn forget_bytes(&mut self) {
        self.bytes = Vec::new();
    }
}

impl HeadWatch {
    /// Takes bytes as they arrive.
    pub(super) fn arrived(&self, bytes: &[u8]) {
        if self.busy.load(Ordering::Acquire) {
            return;
        }
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if head.is_complete || head.bytes.len() > LONGEST {
            return;
        }
        let seen = head.bytes.len().saturating_sub(3);
        head.bytes.extend_from_slice(bytes);
        if let Some(end) = end_of_head(&head.bytes[seen..]) {
            let end = seen + end;
            head.is_ambiguous = is_ambiguous(&head.bytes[..end]);
            head.is_complete = true;
            head.forget_bytes();
        }
    }

    /// A request begins to be answered: true if its head was ambiguous.
    pub(super) fn begin_request(&self) -> bool {
        self.busy.store(true, Ordering::Release);
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        head.forget_bytes();
        head.is_complete = false;
        std::mem::take(&mut head.is_ambiguous)
    }

    /// The answer is ready: the next bytes begin a head.
    pub(super) fn end_request(&self) {
        self.busy.store(false, Ordering::Release);
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n")
}

fn is_ambiguous(head: &[u8]) -> bool {
    let has = |name: &[u8]| {
        head.split(|byte| *byte == b'\n').skip(1).any(|line| {
            line.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
        })
    };
    has(b"transfer-encoding:") && has(b"content-length:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(parts: &[&str]) -> bool {
        let watch = HeadWatch::default();
        for part in parts {
            watch.arrived(part.as_bytes());
        }
        watch.begin_request()
    }

    #[test]
    fn both_headers_in_one_head_are_seen_in_any_order_and_cut() {
        let both = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTRANSFER-ENCODING: chunked\r\n\r\nabc";
        assert!(watch(&[both]));
        for cut in 1..both.len() {
            assert!(watch(&[&both[..cut], &both[cut..]]), "cut at {cut}");
        }
        assert!(watch(&[
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
        ]));
    }

    #[test]
    fn a_body_is_no_head() {
        assert!(!watch(&[
            "POST / HTTP/1.1\r\nContent-Length: 60\r\n\r\n\r\nTransfer-Encoding: chunked\r\n\r\n"
        ]));
        let watch = HeadWatch::default();
        watch.arrived(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(!watch.begin_request());
        watch.arrived(b"1e\r\n\nContent-Length: 3\nTransfer-Encoding: x\r\n\r\n");
        watch.end_request();
        watch.arrived(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(!watch.begin_request());
    }
}
