//! `cargo xtask sim` starts this.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program that reads its command line and a file, and reports"
)]

use portolan_core::faults::Plant;
use portolan_testkit::sim::{Campaign, NOT_SIMULATED, Swarm, Tally, campaign, hunt, run};
use serde_json::json;
use std::{
    env, fs,
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Seeds between two lines of progress.
const EVERY: u64 = 1_000;

/// What was asked for.
struct Options {
    seeds: u64,
    from: u64,
    threads: usize,
    /// Seeds that failed once: they run first, and new ones join them.
    saved: Option<PathBuf>,
    is_json: bool,
    /// Prints the history of the one seed.
    is_traced: bool,
    /// The planted bugs to hunt, in place of the campaign.
    plants: Vec<Plant>,
}

fn main() -> ExitCode {
    match told() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error}");
            ExitCode::from(2)
        }
    }
}

fn told() -> Result<bool, Failed> {
    let options = Options::read()?;
    if options.is_traced {
        return Ok(trace(options.from));
    }
    if !options.plants.is_empty() {
        return Ok(hunt_all(&options));
    }
    let saved = options.saved_seeds()?;
    let mut seeds = saved.clone();
    seeds.extend(
        (options.from..options.from.saturating_add(options.seeds)).filter(|seed| !saved.contains(seed)),
    );
    let shown = AtomicU64::new(0);
    let progress = |tally: &Tally| {
        if !options.is_json && tally.seeds / EVERY > shown.load(Ordering::Relaxed) {
            shown.store(tally.seeds / EVERY, Ordering::Relaxed);
            eprintln!(
                "{} seeds, {} failures, {:.0} s",
                tally.seeds,
                tally.failures.len(),
                tally.elapsed.as_secs_f64()
            );
        }
    };
    let plan = Campaign {
        seeds,
        threads: options.threads,
    };
    let tally = campaign(&plan, &progress);
    options.keep(&tally, &saved)?;
    report(&tally, options.is_json, saved.len())?;
    Ok(tally.failures.is_empty())
}

impl Options {
    fn read() -> Result<Self, Failed> {
        let mut options = Self {
            seeds: 1_000,
            from: 1,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            saved: None,
            is_json: false,
            is_traced: false,
            plants: Vec::new(),
        };
        let mut arguments = env::args().skip(1);
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--seeds" => options.seeds = value()?.parse()?,
                "--from" => options.from = value()?.parse()?,
                "--threads" => options.threads = value()?.parse()?,
                "--saved" => options.saved = Some(value()?.into()),
                "--json" => options.is_json = true,
                "--plants" => options.plants.extend(
                    Plant::ALL
                        .iter()
                        .filter(|plant| !NOT_SIMULATED.iter().any(|(elsewhere, _)| elsewhere == *plant)),
                ),
                "--plant" => {
                    let name = value()?;
                    let plant =
                        Plant::named(&name).ok_or_else(|| format!("no planted bug is called {name}"))?;
                    options.plants.push(plant);
                }
                "--trace" => options.is_traced = true,
                other => return Err(format!("{other} is not known").into()),
            }
        }
        Ok(options)
    }

    /// One seed a line; what follows a `#` is for people.
    fn saved_seeds(&self) -> Result<Vec<u64>, Failed> {
        let Some(path) = &self.saved else {
            return Ok(Vec::new());
        };
        let text = fs::read_to_string(path)?;
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim());
        Ok(lines
            .filter(|line| !line.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?)
    }

    fn keep(&self, tally: &Tally, saved: &[u64]) -> Result<(), Failed> {
        let Some(path) = &self.saved else { return Ok(()) };
        let mut file = fs::OpenOptions::new().append(true).open(path)?;
        for failure in &tally.failures {
            if !saved.contains(&failure.seed) {
                let promise = failure
                    .violations
                    .first()
                    .map_or("", |violation| violation.promise);
                writeln!(file, "{} # broke {promise}", failure.seed)?;
            }
        }
        Ok(())
    }
}

/// Hunts each bug on the seeds that were asked for. True if none survived.
fn hunt_all(options: &Options) -> bool {
    // A rule that notices by an assertion says so in the table.
    std::panic::set_hook(Box::new(|_| {}));
    let mut is_clean = true;
    println!(
        "{:<28} {:>7} {:>5}  noticed by",
        "planted bug", "promise", "seeds"
    );
    for plant in &options.plants {
        let hunted = hunt(*plant, options.from, options.seeds);
        let (name, promise) = (plant.name(), format!("P{}", plant.promise()));
        match hunted.found {
            Some((seeds, violation)) => {
                println!("{name:<28} {promise:>7} {seeds:>5}  {}", violation.promise);
            }
            None => {
                is_clean = false;
                println!("{name:<28} {promise:>7} {:>5}  SURVIVED", options.seeds);
            }
        }
    }
    is_clean
}

fn trace(seed: u64) -> bool {
    let outcome = run(seed, &Swarm::of(seed), true);
    for line in &outcome.text {
        println!("{line}");
    }
    for violation in &outcome.violations {
        println!("{violation}");
    }
    outcome.violations.is_empty()
}

fn report(tally: &Tally, is_json: bool, saved: usize) -> Result<(), Failed> {
    let counts = &tally.counts;
    if is_json {
        let failures: Vec<_> = tally
            .failures
            .iter()
            .map(|failure| {
                let violations: Vec<String> = failure.violations.iter().map(ToString::to_string).collect();
                json!({"seed": failure.seed, "violations": violations, "smallest": failure.smallest})
            })
            .collect();
        let report = json!({
            "seeds": tally.seeds, "repeated": tally.repeated, "counts": counts, "faults": counts.faults(),
            "seconds": tally.elapsed.as_secs_f64(), "failures": failures,
        });
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    for failure in &tally.failures {
        let first = failure
            .violations
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        println!(
            "FAILED: cargo xtask sim --seeds 1 --from {}  ({first})",
            failure.seed
        );
        for violation in failure.violations.iter().skip(1).take(10) {
            println!("  {violation}");
        }
        println!("  smallest: {}", serde_json::to_string(&failure.smallest)?);
    }
    let each = |count: u64| count / tally.seeds.max(1);
    println!(
        "{} seeds ({saved} of them saved ones, {} twice and equal) in {:.1} s: {:.1} a second, {} failed",
        tally.seeds,
        tally.repeated,
        tally.elapsed.as_secs_f64(),
        f64::from(u32::try_from(tally.seeds).unwrap_or(u32::MAX)) / tally.elapsed.as_secs_f64(),
        tally.failures.len()
    );
    println!(
        "{} runs, {} of them succeeded, {} quarantined; {} answered steps, {} commits, {} hours of simulated time",
        counts.runs,
        counts.succeeded,
        counts.quarantined,
        counts.steps,
        counts.commits,
        counts.simulated_ms / 3_600_000
    );
    println!(
        "{} faults, {} a seed: {} deaths, {} pauses and drains, {} crashes and refusals of the database, {} lost, late or refused \
         requests to it, {} failures of providers",
        counts.faults(),
        each(counts.faults()),
        counts.kills,
        counts.pauses,
        counts.crashes,
        counts.store_faults,
        counts.provider_faults
    );
    Ok(())
}
