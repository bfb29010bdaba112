//! `cargo xtask bench`: the benchmark programs, by name.

use clap::Args;

use crate::{failure::Failure, program::Program, repo::Repo};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Which one; all of them if absent.
    name: Option<String>,
}

struct Benchmark {
    name: &'static str,
    about: &'static str,
    package: &'static str,
    target: &'static str,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "loop",
        about: "one turn of the bounded loop",
        package: "portolan-agent",
        target: "loop",
    },
    Benchmark {
        name: "workspace",
        about: "scanning a workspace and comparing two scans",
        package: "portolan-confine",
        target: "scan",
    },
    Benchmark {
        name: "append",
        about: "durable steps a second through the SQLite writer",
        package: "portolan-store",
        target: "append",
    },
    Benchmark {
        name: "durable",
        about: "durable runs through HTTP, beside one-by-one durable commits",
        package: "portolan-cli",
        target: "durable",
    },
    Benchmark {
        name: "recovery",
        about: "SIGKILL with 200 runs in flight: ready, ended, executed twice",
        package: "portolan-cli",
        target: "recovery",
    },
    Benchmark {
        name: "queued",
        about: "100,000 runs that wait: accepted, restarted, worked off",
        package: "portolan-cli",
        target: "queued",
    },
    Benchmark {
        name: "fanout",
        about: "from a commit to the sockets of ten thousand readers",
        package: "portolan-cli",
        target: "fanout",
    },
];

/// Runs the chosen benchmarks one after the other.
pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<(), Failure> {
    for benchmark in chosen(arguments.name.as_deref())? {
        println!("== {}: {}", benchmark.name, benchmark.about);
        Program::cargo(repo)
            .args([
                "bench",
                "--profile",
                "dist",
                "--package",
                benchmark.package,
                "--bench",
                benchmark.target,
            ])
            .run()?;
    }
    Ok(())
}

fn chosen(name: Option<&str>) -> Result<&'static [Benchmark], Failure> {
    let Some(name) = name else { return Ok(BENCHMARKS) };
    let at = BENCHMARKS.iter().position(|benchmark| benchmark.name == name);
    at.map(|at| &BENCHMARKS[at..=at]).ok_or_else(|| Failure::Unknown {
        kind: "benchmark",
        name: name.to_owned(),
        names: BENCHMARKS.iter().map(|benchmark| benchmark.name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_one_and_no_name_all() {
        assert_eq!(chosen(None).expect("all").len(), BENCHMARKS.len());
        assert_eq!(chosen(Some("workspace")).expect("one")[0].target, "scan");
        assert!(
            matches!(chosen(Some("nothing")), Err(Failure::Unknown { names, .. }) if names.len() == BENCHMARKS.len() && names.contains(&"durable"))
        );
    }
}
