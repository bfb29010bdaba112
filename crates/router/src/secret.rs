//! Secrets: text that is sent to a provider and shown to nobody.

use std::fmt;
use zeroize::Zeroizing;

/// A provider key or another confidential header value. It has no readable `Debug`, cannot be serialised, and is wiped
/// when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The last four characters, for people who must tell one key from another; nothing of a key that is too short to
    /// stay secret then.
    pub fn last_four(&self) -> Option<String> {
        let characters = self.0.chars().count();
        (characters >= 12).then(|| self.0.chars().skip(characters - 4).collect())
    }

    /// The text itself. Whoever calls this sends it to the provider or removes it from a message.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_four_characters_of_a_long_key_and_none_of_a_short_one() {
        let secret = Secret::new("sk-canary-0123456789");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(format!("{secret:#?}"), "Secret(…)");
        assert_eq!(secret.last_four().as_deref(), Some("6789"));
        assert_eq!(Secret::new("short").last_four(), None);
    }
}
