//! The secret of an API key: made once, shown once, kept only as a keyed digest.

use crate::api::HashKey;
use portolan_core::entropy::Entropy;
use std::fmt::Write as _;

/// The longest secret that is looked at.
const LONGEST: usize = 256;

/// The secret of an API key. It has no `Debug` of its content and is not serialisable.
pub struct Secret(String);

impl Secret {
    /// Draws a fresh one: `pk_` and 64 hexadecimal digits.
    pub fn draw(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0_u8; 32];
        entropy.fill(&mut bytes);
        let mut text = String::with_capacity(3 + 64);
        text.push_str("pk_");
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// Reads what a client sent. `None` if no key looks like that.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("pk_")?;
        let plain = rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (plain && !rest.is_empty() && text.len() <= LONGEST).then(|| Self(text.to_owned()))
    }

    /// What the key is stored and looked up under. A look-up by digest leaves no time difference to measure.
    pub fn hash(&self, key: &HashKey) -> [u8; 32] {
        key.hash(self.0.as_bytes())
    }

    /// The secret itself, for the one time that it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Counting;

    impl Entropy for Counting {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
        }
    }

    #[test]
    fn a_secret_is_parsed_strictly_and_never_printed() {
        let secret = Secret::draw(&Counting);
        assert_eq!(
            secret.reveal(),
            "pk_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        );
        assert!(Secret::parse(secret.reveal()).is_some());
        assert_eq!(format!("{secret:?}"), "Secret");
        let long = format!("pk_{}", "a".repeat(LONGEST));
        for bad in ["", "pk_", "sk_abc", "pk_a b", "pk_é", long.as_str()] {
            assert!(Secret::parse(bad).is_none(), "{bad}");
        }
        let (one, other) = (HashKey::new([1; 32]), HashKey::new([2; 32]));
        assert_ne!(
            secret.hash(&one),
            secret.hash(&other),
            "the digest depends on the server's key"
        );
    }
}
