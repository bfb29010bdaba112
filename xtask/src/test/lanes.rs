//! The lanes of a test run, in order. `docs/testing.md` has the same list with minutes.

use crate::{
    chaos,
    conformance::{self, Drive},
    failure::Failure,
    matrix,
    program::Program,
    repo::Repo,
    sim, tools,
};

/// The one set of features that lints and tests are built with, so that nothing is built twice.
pub(crate) const FEATURES: &str = "portolan-router/fake-llm-server";

/// Tells the router's test where the fake model server's packages are.
const FAKE_LLM: &str = "PORTOLAN_FAKE_LLM";

/// One part of a test run.
pub(super) struct Lane {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether the lanes after it mean nothing without it.
    pub(super) others_need_it: bool,
    pub(super) run: fn(&Repo) -> Result<(), Failure>,
}

pub(super) const LANES: &[Lane] = &[
    Lane {
        name: "set-up",
        about: "the test runner, Postgres and the fake model server",
        others_need_it: true,
        run: set_up,
    },
    Lane {
        name: "build",
        about: "every crate with its tests",
        others_need_it: true,
        run: build,
    },
    Lane {
        name: "tests",
        about: "unit and system tests of every crate",
        others_need_it: false,
        run: tests,
    },
    Lane {
        name: "fake-llm",
        about: "the router against a fake model server",
        others_need_it: false,
        run: fake_llm,
    },
    Lane {
        name: "doc-tests",
        about: "the examples in the documentation",
        others_need_it: false,
        run: doc_tests,
    },
    Lane {
        name: "conformance",
        about: "recorded scenarios through the embedded drivers",
        others_need_it: false,
        run: embedded,
    },
    Lane {
        name: "conformance-durable",
        about: "the same through the engine, killed at every commit and call",
        others_need_it: false,
        run: durable,
    },
    Lane {
        name: "matrix",
        about: "a server killed at each fault point, on both stores",
        others_need_it: false,
        run: matrix::lane,
    },
    Lane {
        name: "sim",
        about: "a thousand seeds on simulated time, and those that failed once",
        others_need_it: false,
        run: simulations,
    },
    Lane {
        name: "plants",
        about: "known bugs that the simulator has to find, each within 500 seeds",
        others_need_it: false,
        run: plants,
    },
    Lane {
        name: "chaos",
        about: "two minutes of trouble for three servers on one Postgres",
        others_need_it: false,
        run: chaos_for_two_minutes,
    },
];

fn set_up(repo: &Repo) -> Result<(), Failure> {
    tools::nextest(repo)?;
    tools::postgres(repo)?;
    tools::fake_llm(repo).map(drop)
}

fn build(repo: &Repo) -> Result<(), Failure> {
    nextest(repo).args(["--no-run"]).run()
}

fn tests(repo: &Repo) -> Result<(), Failure> {
    nextest(repo)
        .args([
            "--filterset",
            "not binary(aimock) and not test(/^matrix::matrix_on/)",
        ])
        .run()
}

fn fake_llm(repo: &Repo) -> Result<(), Failure> {
    let modules = tools::fake_llm(repo)?;
    nextest(repo)
        .args(["--filterset", "package(portolan-router) and binary(aimock)"])
        .env(FAKE_LLM, modules)
        .run()
}

fn doc_tests(repo: &Repo) -> Result<(), Failure> {
    Program::cargo(repo)
        .args(["test", "--workspace", "--doc", "--features", FEATURES])
        .run()
}

fn embedded(repo: &Repo) -> Result<(), Failure> {
    conformance::drive(repo, &repo.root().join(conformance::SCENARIOS), Drive::Embedded)
}

fn durable(repo: &Repo) -> Result<(), Failure> {
    conformance::drive(
        repo,
        &repo.root().join(conformance::SCENARIOS),
        Drive::KillEverywhere,
    )
}

fn chaos_for_two_minutes(repo: &Repo) -> Result<(), Failure> {
    chaos::drive(repo, &["--seconds", "120", "--seed", "1"])
}

fn simulations(repo: &Repo) -> Result<(), Failure> {
    sim::drive(repo, "dev", &["--seeds".to_owned(), "1000".to_owned()])
}

fn plants(repo: &Repo) -> Result<(), Failure> {
    sim::drive(repo, "dev", &["--plants", "--seeds", "500"].map(str::to_owned))
}

fn nextest(repo: &Repo) -> Program {
    Program::cargo(repo).args(["nextest", "run", "--workspace", "--features", FEATURES])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_testing_has_every_lane_in_order() {
        let page = Repo::find().read("docs/testing.md").expect("a page");
        let listed: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .filter(|name| LANES.iter().any(|lane| lane.name == *name))
            .collect();
        assert_eq!(listed, LANES.iter().map(|lane| lane.name).collect::<Vec<_>>());
    }
}
