//! Query parameters: known by name, each at most once.

use crate::problem::{Code, Problem};
use std::borrow::Cow;

/// The parameters of a query.
#[derive(Debug)]
pub(crate) struct Params<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Params<'a> {
    /// Reads a query of which all names must be among those given.
    pub(crate) fn read(query: Option<&'a str>, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let detail = format!("this path takes the query parameters {}", known.join(", "));
                return Err(Problem::new(Code::BadQuery, detail));
            }
            if pairs.iter().any(|(before, _)| *before == name) {
                return Err(Problem::new(Code::BadQuery, format!("{name} is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_ref())
    }

    /// The value of a parameter, read as a type.
    pub(crate) fn parse<T: std::str::FromStr>(
        &self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, Problem> {
        self.get(name)
            .map(|text| {
                text.parse()
                    .map_err(|_| Problem::new(Code::BadQuery, format!("{name} is {expected}")))
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_unique() {
        let params = Params::read(Some("tag=a%20b+c&limit=5"), &["tag", "limit"]).expect("known");
        assert_eq!(params.get("tag"), Some("a b c"));
        assert_eq!(
            params.parse::<u32>("limit", "a number").expect("a number"),
            Some(5)
        );
        assert!(params.parse::<u32>("tag", "a number").is_err());
        assert!(Params::read(Some("tga=a"), &["tag"]).is_err());
        assert!(Params::read(Some("tag=a&tag=b"), &["tag"]).is_err());
        assert!(Params::read(None, &[]).is_ok());
    }
}
