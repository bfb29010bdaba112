//! The scenarios with a recorded weak spot in which this project deliberately does the better thing, each with the exact
//! expectation that takes the place of the recorded one.

use super::scenario::Expectation;

macro_rules! deviations {
    ($($name:literal => $file:literal,)*) => {
        const DEVIATIONS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("expectations/", $file, ".json"))),)*
        ];
    };
}

deviations! {
    "deny_globs/double-star-leading-root" => "deny_globs__double-star-leading-root",
    "deny_globs/double-star-trailing-nested" => "deny_globs__double-star-trailing-nested",
    "deny_globs/empty-pattern" => "deny_globs__empty-pattern",
    "deny_globs/list-root-shows-denied-names" => "deny_globs__list-root-shows-denied-names",
    "deny_globs/symlink-to-denied" => "deny_globs__symlink-to-denied",
    "editor/memory-write-root" => "editor__memory-write-root",
    "evidence/artifact-failure-on-provider-error" => "evidence__artifact-failure-on-provider-error",
    "evidence/artifact-failure-on-success" => "evidence__artifact-failure-on-success",
    "instructions/crlf-file" => "instructions__crlf-file",
    "resources/list-shows-denied-names" => "resources__list-shows-denied-names",
}

/// The expectation of this project for a scenario, if it differs from the recorded one.
pub(super) fn deviation(name: &str) -> Result<Option<Expectation>, serde_json::Error> {
    let own = DEVIATIONS.iter().find(|(deviating, _)| *deviating == name);
    own.map(|(_, json)| serde_json::from_str(json)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deviation_can_be_read() {
        for (name, _) in DEVIATIONS {
            assert!(deviation(name).is_ok_and(|own| own.is_some()), "{name}");
        }
    }
}
