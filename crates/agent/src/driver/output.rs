//! A bound on what one tool can put into a model's context.

use serde_json::{Value, json};
use std::io;

/// The most bytes of one encoded output.
pub const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Cuts an output that is too large, on a character boundary, and marks it as cut.
pub fn bound_output(output: Value) -> Value {
    let mut size = Size(0);
    let measured = serde_json::to_writer(&mut size, &output);
    if measured.is_ok() && size.0 <= MAX_OUTPUT_BYTES {
        return output;
    }
    let text = match output {
        Value::String(text) => text,
        other => other.to_string(),
    };
    json!({ "truncated": true, "bytes": text.len(), "text": start_of(&text, MAX_OUTPUT_BYTES / 2) })
}

/// As much of a text as encodes to so many bytes.
fn start_of(text: &str, most: usize) -> &str {
    let mut encoded = 0_usize;
    for (place, c) in text.char_indices() {
        encoded += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            other => other.len_utf8(),
        };
        if encoded > most {
            return &text[..place];
        }
    }
    text
}

/// Counts what is written, and stops once it is known to be too much.
struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > MAX_OUTPUT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_fits_is_left_alone() {
        let fits = json!("x".repeat(MAX_OUTPUT_BYTES - 2));
        assert_eq!(bound_output(fits.clone()), fits);
        assert_eq!(bound_output(Value::Null), Value::Null);
    }

    #[test]
    fn a_larger_one_is_cut_on_a_character_boundary_and_marked() {
        for text in [
            "é".repeat(MAX_OUTPUT_BYTES),
            "\u{1}".repeat(MAX_OUTPUT_BYTES),
            "\"".repeat(MAX_OUTPUT_BYTES),
        ] {
            let cut = bound_output(json!(text));
            assert_eq!(cut["truncated"], true);
            assert_eq!(cut["bytes"], text.len());
            let kept = cut["text"].as_str().unwrap();
            assert!(!kept.is_empty() && text.starts_with(kept));
            assert!(cut.to_string().len() <= MAX_OUTPUT_BYTES);
        }
        let cut = bound_output(json!(vec![1_000_000; MAX_OUTPUT_BYTES / 4]));
        assert!(cut["text"].as_str().unwrap().starts_with("[1000000,"));
    }
}
