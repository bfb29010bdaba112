//! `cargo xtask soak`: what is too long for a test run, by name. `docs/soak.md` has the last figures.

use clap::Args;

use crate::{failure::Failure, program::Program, repo::Repo};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Which one; the list of them if absent.
    name: Option<String>,
    /// How long, where that can be chosen.
    #[arg(long)]
    minutes: Option<u32>,
    /// How many: readers, runs, whatever it is about.
    #[arg(long)]
    count: Option<u64>,
}

/// A program that runs for minutes. It takes `--minutes` and `--count`.
struct Soak {
    name: &'static str,
    about: &'static str,
    package: &'static str,
    /// The benchmark target that it is.
    target: &'static str,
    arguments: &'static [&'static str],
}

const SOAKS: &[Soak] = &[
    Soak {
        name: "tails",
        about: "10,000 silent readers: memory and processor time of each, and one event for all",
        package: "portolan-cli",
        target: "tails",
        arguments: &[],
    },
    Soak {
        name: "storm",
        about: "10,000 readers that come back within 30 seconds after the server was killed",
        package: "portolan-cli",
        target: "tails",
        arguments: &["--storm"],
    },
];

/// Runs one of them, or lists them.
pub(crate) fn run(repo: &Repo, arguments: &Arguments) -> Result<(), Failure> {
    let Some(name) = &arguments.name else {
        for soak in SOAKS {
            println!("{:10} {}", soak.name, soak.about);
        }
        return Ok(());
    };
    let soak = chosen(name)?;
    println!("== {}: {}", soak.name, soak.about);
    let mut program =
        Program::cargo(repo).args(["bench", "--package", soak.package, "--bench", soak.target, "--"]);
    program = program.args(soak.arguments);
    if let Some(minutes) = arguments.minutes {
        program = program.args(["--minutes", &minutes.to_string()]);
    }
    if let Some(count) = arguments.count {
        program = program.args(["--count", &count.to_string()]);
    }
    program.run()
}

fn chosen(name: &str) -> Result<&'static Soak, Failure> {
    SOAKS
        .iter()
        .find(|soak| soak.name == name)
        .ok_or_else(|| Failure::Unknown {
            kind: "soak",
            name: name.to_owned(),
            names: SOAKS.iter().map(|soak| soak.name).collect(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_a_place_on_the_page() {
        let page = Repo::find().read("docs/soak.md").expect("a page");
        for soak in SOAKS {
            assert_eq!(chosen(soak.name).expect("it is there").about, soak.about);
            assert!(page.contains(&format!("| `{}` |", soak.name)), "{}", soak.name);
        }
        assert!(matches!(chosen("nothing"), Err(Failure::Unknown { .. })));
    }
}
