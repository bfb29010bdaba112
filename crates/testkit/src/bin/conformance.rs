//! Runs recorded scenarios of the bounded loop:
//! `conformance PATH [--mode blocking|async|both | --durable [--kill-everywhere]]`.

#![expect(
    clippy::disallowed_methods,
    reason = "this is a program: it reads its arguments and starts itself again with its canary"
)]

use portolan_testkit::conformance::{Backend, Durable, Embedded, Mode, expect_panics, load, run_with};
use std::{
    env,
    error::Error,
    io::{self, Write},
    path::PathBuf,
    process::{Command, ExitCode},
};

/// A variable of the runner's own environment that no command of a scenario may see.
const CANARY: (&str, &str) = ("CONFORMANCE_PARENT", "leaked");

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(deeper) = source {
                text.push_str(&format!(": {deeper}"));
                source = deeper.source();
            }
            // Nobody is left to tell if the error output is closed.
            let _ = writeln!(io::stderr(), "{text}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    if env::var_os(CANARY.0).is_none_or(|value| value != CANARY.1) {
        return again_with_canary();
    }
    let arguments = Arguments::parse(env::args().skip(1))?;
    let scenarios = load(&arguments.path)?;
    expect_panics();
    let report = run_with(&scenarios, &arguments.backends);
    writeln!(io::stdout(), "{report}")?;
    Ok(if report.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Starts this program again with the variable: an environment cannot be changed safely while a process runs.
fn again_with_canary() -> Result<ExitCode, Box<dyn Error>> {
    let status = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(CANARY.0, CANARY.1)
        .status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

struct Arguments {
    path: PathBuf,
    backends: Vec<Box<dyn Backend>>,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        const USAGE: &str =
            "usage: conformance PATH [--mode blocking|async|both | --durable [--kill-everywhere]]";
        let mut path = None;
        let mut mode = "both".to_owned();
        let (mut durable, mut kill_everywhere) = (false, false);
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--durable" => durable = true,
                "--kill-everywhere" => kill_everywhere = true,
                "--mode" => mode = arguments.next().ok_or(USAGE)?,
                other if path.is_none() && !other.starts_with('-') => path = Some(PathBuf::from(other)),
                other => return Err(format!("{other:?} is not understood; {USAGE}")),
            }
        }
        if kill_everywhere && !durable {
            return Err(format!(
                "--kill-everywhere needs --durable: nothing else survives; {USAGE}"
            ));
        }
        if durable {
            let path = path.ok_or(USAGE)?;
            return Ok(Self {
                path,
                backends: vec![Box::new(Durable { kill_everywhere })],
            });
        }
        let modes: &[Mode] = match mode.as_str() {
            "blocking" => &[Mode::Blocking],
            "async" => &[Mode::Async],
            "both" => &[Mode::Blocking, Mode::Async],
            other => return Err(format!("there is no mode {other:?}; {USAGE}")),
        };
        Ok(Self {
            path: path.ok_or(USAGE)?,
            backends: modes
                .iter()
                .map(|mode| Box::new(Embedded(*mode)) as Box<dyn Backend>)
                .collect(),
        })
    }
}
