//! `cargo xtask chaos` starts this.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program that reads its command line and reports"
)]

use portolan_testkit::chaos::{ChaosError, Options, run};
use std::{env, process::ExitCode, time::Duration};

#[tokio::main]
async fn main() -> ExitCode {
    match told().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn told() -> Result<(), ChaosError> {
    let mut options = Options {
        portolan: "target/debug/portolan".into(),
        time: Duration::from_secs(120),
        seed: 1,
        replicas: Some(3),
        fills_disk: false,
        is_talkative: true,
    };
    let mut is_json = false;
    let mut arguments = env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--portolan" => options.portolan = value()?.into(),
            "--seconds" => options.time = Duration::from_secs(value()?.parse()?),
            "--seed" => options.seed = value()?.parse()?,
            "--replicas" => options.replicas = Some(value()?.parse()?),
            "--sqlite" => options.replicas = None,
            "--fill-disk" => options.fills_disk = true,
            "--quiet" => options.is_talkative = false,
            "--json" => is_json = true,
            other => return Err(format!("{other} is not known").into()),
        }
    }
    options.portolan = std::path::absolute(&options.portolan)?;
    let report = run(&options).await?;
    if is_json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    Ok(())
}
