use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{Errno, read},
};

const CHUNK: usize = 64 * 1024;

/// The head of a text of any length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BoundedText {
    /// The first characters. Bytes that are no UTF-8 became U+FFFD.
    pub text: String,
    /// Whether there was more.
    pub truncated: bool,
    /// How many bytes were read and not kept.
    pub dropped_bytes: u64,
}

/// Keeps the first characters of a stream of bytes.
#[derive(Debug)]
pub(super) struct Head {
    kept: BoundedText,
    /// How many more characters are kept.
    room: usize,
    /// The start of a character whose end has not been seen: at most three bytes.
    pending: Vec<u8>,
}

/// What one look at a pipe gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Some,
    NothingYet,
    End,
}

/// Reads one output of a command.
pub(super) struct Capture {
    pipe: Option<OwnedFd>,
    head: Head,
    buffer: Vec<u8>,
}

impl Capture {
    pub(super) fn new(pipe: Option<OwnedFd>, max_chars: usize) -> Self {
        Self {
            pipe,
            head: Head::new(max_chars),
            buffer: vec![0; CHUNK],
        }
    }

    /// Makes reads return at once. The command's end of the pipe is not affected.
    pub(super) fn prepare(&self) -> Result<(), Errno> {
        match &self.pipe {
            Some(pipe) => fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK),
            None => Ok(()),
        }
    }

    /// The pipe, until its end was seen.
    pub(super) fn handle(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Takes one chunk if there is one.
    pub(super) fn take_some(&mut self) -> Result<Taken, Errno> {
        let Some(pipe) = &self.pipe else {
            return Ok(Taken::End);
        };
        match read(pipe, &mut self.buffer[..]) {
            Ok(0) => {
                self.pipe = None;
                Ok(Taken::End)
            }
            Ok(count) => {
                self.head.push(self.buffer.get(..count).unwrap_or_default());
                Ok(Taken::Some)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Taken::NothingYet),
            Err(error) => Err(error),
        }
    }

    pub(super) fn finish(self) -> BoundedText {
        self.head.finish()
    }
}

impl Head {
    pub(super) const fn new(max_chars: usize) -> Self {
        let kept = BoundedText {
            text: String::new(),
            truncated: false,
            dropped_bytes: 0,
        };
        Self {
            kept,
            room: max_chars,
            pending: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.room == 0 && self.pending.is_empty() {
            self.drop_bytes(bytes.len());
            return;
        }
        if self.pending.is_empty() {
            self.decode(bytes);
        } else {
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(bytes);
            self.decode(&joined);
        }
    }

    pub(super) fn finish(mut self) -> BoundedText {
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            self.push_str("\u{fffd}", rest.len());
        }
        self.kept
    }

    fn decode(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let error = match std::str::from_utf8(rest) {
                Ok(valid) => {
                    self.push_str(valid, valid.len());
                    return;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            self.push_str(std::str::from_utf8(valid).unwrap_or_default(), valid.len());
            let Some(invalid) = error.error_len() else {
                self.pending = after.to_vec();
                return;
            };
            self.push_str("\u{fffd}", invalid);
            rest = after.get(invalid..).unwrap_or_default();
            if self.room == 0 {
                self.drop_bytes(rest.len());
                return;
            }
        }
    }

    /// Keeps what there is room for of a text that stands for so many bytes.
    fn push_str(&mut self, text: &str, bytes: usize) {
        if text.len() <= self.room {
            self.kept.text.push_str(text);
            self.room -= text.chars().count();
            return;
        }
        match text.char_indices().nth(self.room) {
            None => {
                self.kept.text.push_str(text);
                self.room -= text.chars().count();
            }
            Some((cut, _)) => {
                self.kept.text.push_str(text.get(..cut).unwrap_or_default());
                self.room = 0;
                self.drop_bytes(bytes - cut);
            }
        }
    }

    fn drop_bytes(&mut self, count: usize) {
        if count > 0 {
            self.kept.truncated = true;
            self.kept.dropped_bytes = self.kept.dropped_bytes.saturating_add(count as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BoundedText, Head};
    use proptest::prelude::*;

    fn head(chunks: &[&[u8]], max_chars: usize) -> BoundedText {
        let mut head = Head::new(max_chars);
        for chunk in chunks {
            head.push(chunk);
        }
        head.finish()
    }

    fn check(chunks: &[&[u8]], max_chars: usize, text: &str, dropped_bytes: u64) {
        let expected = BoundedText {
            text: text.to_owned(),
            truncated: dropped_bytes > 0,
            dropped_bytes,
        };
        assert_eq!(head(chunks, max_chars), expected, "{chunks:?} up to {max_chars}");
    }

    #[test]
    fn the_bound_counts_characters() {
        check(&[b"abc"], 3, "abc", 0);
        check(&[b"abcd"], 3, "abc", 1);
        check(&["\u{e4}\u{1f9ea}x".as_bytes()], 3, "\u{e4}\u{1f9ea}x", 0);
        check(&["\u{e4}\u{1f9ea}x".as_bytes()], 2, "\u{e4}\u{1f9ea}", 1);
        check(&[b"abc"], 0, "", 3);
        check(&[], 0, "", 0);
    }

    #[test]
    fn characters_may_be_split_between_reads() {
        check(&[b"\xf0", b"\x9f\xa7", b"\xaaz"], 5, "\u{1f9ea}z", 0);
        check(&[b"a\xf0\x9f"], 5, "a\u{fffd}", 0);
        check(&[b"a\xf0\x9f"], 1, "a", 2);
        check(&[b"\xff\xfea"], 9, "\u{fffd}\u{fffd}a", 0);
    }

    proptest! {
        #[test]
        fn it_is_the_head_of_the_whole(
            bytes in proptest::collection::vec(prop_oneof![Just(0xf0), Just(0x9f), Just(0xa7), any::<u8>()], 0..64),
            cuts in proptest::collection::vec(1_usize..9, 0..64),
            max_chars in 0_usize..70,
        ) {
            let mut rest = &bytes[..];
            let mut chunks = Vec::new();
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            let whole = String::from_utf8_lossy(&bytes);
            let text: String = whole.chars().take(max_chars).collect();
            let found = head(&chunks, max_chars);
            prop_assert_eq!(found.truncated, whole.chars().count() > max_chars);
            prop_assert_eq!(found.text, text);
        }
    }
}
