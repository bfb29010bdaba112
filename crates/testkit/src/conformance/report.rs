//! Loads scenarios, runs them, and says how that went.

use super::{Backend, Scenario, Stage, compare::compare, deviations::deviation};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// Scenarios that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder or a file cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is no scenario.
    #[error("{path} is no scenario")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// There is nothing to run.
    #[error("{path} holds no scenario")]
    Empty {
        /// Which.
        path: PathBuf,
    },
}

/// Loads a folder of scenario files, or one file.
pub fn load(path: &Path) -> Result<Vec<Scenario>, LoadError> {
    let unreadable = |source| LoadError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    if fs::metadata(path).map_err(unreadable)?.is_dir() {
        for entry in fs::read_dir(path).map_err(unreadable)? {
            paths.push(entry.map_err(unreadable)?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
    } else {
        paths.push(path.to_owned());
    }
    if paths.is_empty() {
        return Err(LoadError::Empty {
            path: path.to_owned(),
        });
    }
    paths.into_iter().map(load_one).collect()
}

fn load_one(path: PathBuf) -> Result<Scenario, LoadError> {
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) => return Err(LoadError::Unreadable { path, source }),
    };
    serde_json::from_slice(&bytes).map_err(|source| LoadError::Malformed { path, source })
}

/// What became of one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It came out as recorded.
    Passed,
    /// It came out as this project's own expectation says.
    Deviated,
    /// It came out differently.
    Failed(Vec<String>),
    /// It needs something that is not here.
    Skipped(String),
}

impl Verdict {
    /// The verdict of two runs of one scenario: a failure before a skip before a pass.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed(mut all), Self::Failed(more)) => {
                all.extend(more);
                Self::Failed(all)
            }
            (Self::Failed(differences), _) | (_, Self::Failed(differences)) => Self::Failed(differences),
            (Self::Skipped(reason), _) | (_, Self::Skipped(reason)) => Self::Skipped(reason),
            (Self::Deviated, _) | (_, Self::Deviated) => Self::Deviated,
            (Self::Passed, Self::Passed) => Self::Passed,
        }
    }
}

/// What became of all scenarios, with one backend or with several.
#[derive(Debug, Clone)]
pub struct Report {
    /// Each scenario by its name.
    pub verdicts: Vec<(String, Verdict)>,
}

impl Report {
    fn count(&self, which: impl Fn(&Verdict) -> bool) -> usize {
        self.verdicts.iter().filter(|(_, verdict)| which(verdict)).count()
    }

    /// How many came out as they should.
    pub fn passed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Passed | Verdict::Deviated))
    }

    /// How many did not.
    pub fn failed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    /// How many did not run.
    pub fn skipped(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Skipped(_)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut deviated = Vec::new();
        for (name, verdict) in &self.verdicts {
            match verdict {
                Verdict::Passed => {}
                Verdict::Deviated => deviated.push(name.as_str()),
                Verdict::Failed(differences) => writeln!(f, "FAILED {name}: {}", differences.join("; "))?,
                Verdict::Skipped(reason) => writeln!(f, "skipped {name}: {reason}")?,
            }
        }
        if !deviated.is_empty() {
            let names = deviated.join(", ");
            writeln!(
                f,
                "weak spots of the recording that are done better here: {names}"
            )?;
        }
        let (passed, failed, skipped) = (self.passed(), self.failed(), self.skipped());
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Runs every scenario with every backend. A scenario passes if it passes with all of them.
pub fn run_with(scenarios: &[Scenario], backends: &[Box<dyn Backend>]) -> Report {
    let verdicts = scenarios.iter().map(|scenario| {
        let verdicts = backends.iter().map(|backend| run_one(scenario, &**backend));
        let worst = verdicts.reduce(Verdict::and);
        let verdict = worst.unwrap_or_else(|| Verdict::Skipped("there is no backend".to_owned()));
        (scenario.name.clone(), verdict)
    });
    Report {
        verdicts: verdicts.collect(),
    }
}

/// What a runner can provide; the suite names these needs.
const PROVIDED: [&str; 7] = [
    "boundary_hooks",
    "after_loop_boundary",
    "posix_shell",
    "symlinks",
    "workspace_fault",
    "custom_instructions",
    "provider_panic",
];

fn run_one(scenario: &Scenario, backend: &dyn Backend) -> Verdict {
    if let Some(need) = scenario
        .requires
        .iter()
        .find(|need| !PROVIDED.contains(&need.as_str()))
    {
        return Verdict::Skipped(format!("it requires {need}"));
    }
    let own = match deviation(&scenario.name) {
        Ok(own) => own.filter(|_| scenario.weak_spot.is_some()),
        Err(error) => return Verdict::Failed(vec![format!("its own expectation cannot be read: {error}")]),
    };
    let stage = match Stage::new(scenario.clone()) {
        Ok(stage) => stage,
        Err(error) => return Verdict::Failed(vec![format!("its files cannot be laid out: {error}")]),
    };
    let expect = own.as_ref().unwrap_or(&scenario.expect);
    let mut differences = Vec::new();
    for observed in backend.runs(&stage) {
        let variant = observed
            .variant
            .as_deref()
            .map(|variant| format!("{variant}: "))
            .unwrap_or_default();
        let found = compare(scenario, expect, &observed);
        differences.extend(
            found
                .into_iter()
                .map(|difference| format!("{variant}{difference}")),
        );
    }
    match (differences.is_empty(), own.is_some()) {
        (true, true) => Verdict::Deviated,
        (true, false) => Verdict::Passed,
        (false, _) => {
            let name = backend.name();
            let named = differences
                .into_iter()
                .map(|difference| format!("[{name}] {difference}"));
            Verdict::Failed(named.collect())
        }
    }
}
