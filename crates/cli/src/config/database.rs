//! The address of a database. It may hold a password, so it is shown without.

use std::{fmt, str::FromStr};

/// A database that is no file in the data directory.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

/// Text that is no such address. It is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected postgres://user@host/database")]
pub struct DatabaseUrlError;

impl DatabaseUrl {
    /// The whole of it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(text: &str) -> Result<Self, DatabaseUrlError> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self(text.to_owned())),
            _ => Err(DatabaseUrlError),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    /// Without whatever may be secret: what stands before the host, and the parameters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("postgres", ""));
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        write!(f, "{scheme}://{place}")
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_without_its_secrets() {
        for (text, shown) in [
            ("postgres://u:geheim@h:1/db", "postgres://h:1/db"),
            ("postgresql://h/db?password=geheim", "postgresql://h/db"),
            ("postgres://u:ge@heim@h/db", "postgres://h/db"),
        ] {
            let url: DatabaseUrl = text.parse().expect("is one");
            assert_eq!((url.to_string().as_str(), url.reveal()), (shown, text));
            assert_eq!(format!("{url:?}"), shown);
        }
        assert_eq!("mysql://h/db".parse::<DatabaseUrl>(), Err(DatabaseUrlError));
        assert_eq!("db".parse::<DatabaseUrl>(), Err(DatabaseUrlError));
    }
}
