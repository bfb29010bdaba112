//! A validating scanner: one pass over a body that refuses what a tolerant parser would let through or choke on.
//!
//! It keeps its own stack, so nesting costs no recursion, and it stops at the first fault. What passes is JSON by RFC 8259
//! with unique member names, whole surrogate pairs, numbers that a double can hold and a bounded depth.

use std::borrow::Cow;

/// The deepest nesting of arrays and objects that is accepted, the outermost one counted.
pub(crate) const MAX_DEPTH: usize = 64;

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScanError {
    /// Not JSON.
    #[error("the body is not valid JSON at byte {0}")]
    Syntax(usize),
    /// Not UTF-8.
    #[error("the body is not valid UTF-8 at byte {0}")]
    Utf8(usize),
    /// A member name occurs twice in an object.
    #[error("an object that ends at byte {0} names a member twice")]
    DuplicateKey(usize),
    /// Nested too deeply.
    #[error("arrays and objects are nested deeper than 64 levels at byte {0}")]
    TooDeep(usize),
    /// An escaped surrogate without its other half.
    #[error("a string holds half of a surrogate pair at byte {0}")]
    LoneSurrogate(usize),
    /// A number that no double can hold.
    #[error("a number at byte {0} is too large")]
    NumberOutOfRange(usize),
}

/// What the outermost value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Top {
    /// An object.
    Object,
    /// Anything else.
    Other,
}

/// Checks a body and says what it is.
pub(crate) fn scan(body: &[u8]) -> Result<Top, ScanError> {
    let text = std::str::from_utf8(body).map_err(|error| ScanError::Utf8(error.valid_up_to()))?;
    let mut scanner = Scanner {
        bytes: text.as_bytes(),
        text,
        at: 0,
        open: Vec::new(),
        names: Vec::new(),
    };
    scanner.skip_space();
    let top = if scanner.peek() == Some(b'{') {
        Top::Object
    } else {
        Top::Other
    };
    scanner.document()?;
    Ok(top)
}

/// An array or object that has begun.
#[derive(Clone, Copy)]
enum Open {
    Array,
    /// With the place in `names` where its own begin.
    Object(usize),
}

struct Scanner<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    open: Vec<Open>,
    /// The member names of all open objects, decoded.
    names: Vec<Cow<'a, str>>,
}

impl<'a> Scanner<'a> {
    fn document(&mut self) -> Result<(), ScanError> {
        loop {
            // A value is due here.
            self.skip_space();
            let begun = self.value()?;
            if begun {
                continue;
            }
            // A value has ended here: close what it ends, up to the next value that is due.
            loop {
                self.skip_space();
                let Some(open) = self.open.last().copied() else {
                    return if self.at == self.bytes.len() {
                        Ok(())
                    } else {
                        Err(self.syntax())
                    };
                };
                match (self.next(), open) {
                    (Some(b','), Open::Array) => break,
                    (Some(b','), Open::Object(_)) => {
                        self.skip_space();
                        self.name()?;
                        break;
                    }
                    (Some(b']'), Open::Array) => drop(self.open.pop()),
                    (Some(b'}'), Open::Object(start)) => self.end_object(start)?,
                    _ => return Err(self.syntax_before()),
                }
            }
        }
    }

    /// Reads a scalar or an empty container, or begins a container: true if a value is due inside.
    fn value(&mut self) -> Result<bool, ScanError> {
        match self.peek() {
            Some(b'{') => {
                self.enter(Open::Object(self.names.len()))?;
                self.skip_space();
                if self.peek() == Some(b'}') {
                    self.at += 1;
                    self.open.pop();
                    return Ok(false);
                }
                self.name()?;
                Ok(true)
            }
            Some(b'[') => {
                self.enter(Open::Array)?;
                self.skip_space();
                if self.peek() == Some(b']') {
                    self.at += 1;
                    self.open.pop();
                    return Ok(false);
                }
                Ok(true)
            }
            Some(b'"') => self.string().map(|_| false),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| false),
            Some(b't') => self.word("true").map(|()| false),
            Some(b'f') => self.word("false").map(|()| false),
            Some(b'n') => self.word("null").map(|()| false),
            _ => Err(self.syntax()),
        }
    }

    fn enter(&mut self, open: Open) -> Result<(), ScanError> {
        if self.open.len() == MAX_DEPTH {
            return Err(ScanError::TooDeep(self.at));
        }
        self.open.push(open);
        self.at += 1;
        Ok(())
    }

    fn end_object(&mut self, start: usize) -> Result<(), ScanError> {
        let names = &mut self.names[start..];
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(ScanError::DuplicateKey(self.at));
        }
        self.names.truncate(start);
        self.open.pop();
        Ok(())
    }

    /// Reads a member name and its colon.
    fn name(&mut self) -> Result<(), ScanError> {
        if self.peek() != Some(b'"') {
            return Err(self.syntax());
        }
        let start = self.at;
        let escaped = self.string()?;
        let quoted = &self.text[start..self.at];
        let name = if escaped {
            let decoded: String = serde_json::from_str(quoted).map_err(|_| ScanError::Syntax(start))?;
            Cow::Owned(decoded)
        } else {
            Cow::Borrowed(&quoted[1..quoted.len() - 1])
        };
        self.names.push(name);
        self.skip_space();
        match self.next() {
            Some(b':') => Ok(()),
            _ => Err(self.syntax_before()),
        }
    }

    /// Reads a string and says whether it holds an escape.
    fn string(&mut self) -> Result<bool, ScanError> {
        self.at += 1;
        let mut escaped = false;
        loop {
            let rest = &self.bytes[self.at..];
            let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f));
            let Some(plain) = plain else {
                self.at = self.bytes.len();
                return Err(self.syntax());
            };
            self.at += plain;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.at += 1;
                    self.escape()?;
                }
                _control => return Err(self.syntax()),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self) -> Result<(), ScanError> {
        match self.next() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
            Some(b'u') => {
                let start = self.at;
                match self.hex()? {
                    0xdc00..=0xdfff => Err(ScanError::LoneSurrogate(start)),
                    0xd800..=0xdbff => {
                        if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
                            return Err(ScanError::LoneSurrogate(start));
                        }
                        self.at += 2;
                        match self.hex()? {
                            0xdc00..=0xdfff => Ok(()),
                            _ => Err(ScanError::LoneSurrogate(start)),
                        }
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(self.syntax_before()),
        }
    }

    fn hex(&mut self) -> Result<u32, ScanError> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let digit = digit.ok_or_else(|| self.syntax())?;
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next() {
            Some(b'0') => {}
            Some(b'1'..=b'9') => self.skip_digits(),
            _ => return Err(self.syntax_before()),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let mut exponent = false;
        if let Some(b'e' | b'E') = self.peek() {
            exponent = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        // Without an exponent it takes 309 digits to leave the range of a double.
        if exponent || self.at - start > 300 {
            let number: f64 = self.text[start..self.at]
                .parse()
                .map_err(|_| ScanError::Syntax(start))?;
            if number.is_infinite() {
                return Err(ScanError::NumberOutOfRange(start));
            }
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return Err(self.syntax());
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> Result<(), ScanError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.syntax())
        }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    const fn syntax(&self) -> ScanError {
        ScanError::Syntax(self.at)
    }

    /// For a byte that was taken already.
    const fn syntax_before(&self) -> ScanError {
        ScanError::Syntax(self.at - 1)
    }
}

#[cfg(test)]
mod tests;
