//! Forward-only migrations: what both stores share of the rule. Step n brings version n - 1 to version n, in one transaction
//! with the number that it raises, so whoever dies between two steps leaves a whole version.

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The version that it makes.
    pub version: u32,
    /// The name of its file.
    pub name: &'static str,
    pub(crate) sql: &'static str,
}

/// A schema that a later build wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaterBuild {
    pub(crate) found: u32,
    pub(crate) known: u32,
}

/// The newest version of a list of steps.
pub(crate) fn newest(steps: &[Step]) -> u32 {
    steps.last().map_or(0, |step| step.version)
}

/// The steps that a database of that version lacks.
pub(crate) fn pending(steps: &'static [Step], found: u32) -> Result<&'static [Step], LaterBuild> {
    let known = newest(steps);
    if found > known {
        return Err(LaterBuild { found, known });
    }
    let done = usize::try_from(found).unwrap_or(usize::MAX);
    Ok(steps.get(done..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[Step] = &[
        Step {
            version: 1,
            name: "a",
            sql: "",
        },
        Step {
            version: 2,
            name: "b",
            sql: "",
        },
    ];

    #[test]
    fn what_is_pending_follows_what_is_there() {
        let names =
            |found| pending(STEPS, found).map(|steps| steps.iter().map(|step| step.name).collect::<Vec<_>>());
        assert_eq!(names(0), Ok(vec!["a", "b"]));
        assert_eq!(names(1), Ok(vec!["b"]));
        assert_eq!(names(2), Ok(vec![]));
        assert_eq!(names(3), Err(LaterBuild { found: 3, known: 2 }));
    }
}
