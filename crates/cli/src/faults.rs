//! Failpoints of this process, armed by its environment. Builds that can be released have none, and this does nothing there.

use crate::{Failure, failure::OrFail as _};
use portolan_core::{
    Fut,
    faults::{self, Hook},
};
use rustix::process::{Signal, getpid, kill_process};
use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    sync::Arc,
    time::Duration,
};

/// Does what the environment says, if it says anything.
pub(crate) fn arm() -> Result<(), Failure> {
    if !faults::ENABLED {
        return Ok(());
    }
    let said = |name: &str| std::env::var(name).unwrap_or_default();
    let (rules, bugs) = (said("PORTOLAN_FAULTS"), said("PORTOLAN_PLANTS"));
    if rules.is_empty() && bugs.is_empty() {
        return Ok(());
    }
    let report = match std::env::var_os("PORTOLAN_FAULTS_REPORT") {
        None => None,
        Some(path) => Some(
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .or_unavailable(|| "the report of faults cannot be written".to_owned())?,
        ),
    };
    faults::arm_process_by(&rules, &bugs, Arc::new(World { report })).map_err(Failure::usage)
}

/// What faults do to the world.
#[derive(Debug)]
struct World {
    report: Option<File>,
}

impl Hook for World {
    fn sleep_ms(&self, ms: u64) -> Fut<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn sleep_ms_blocking(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn fired(&self, point: &'static str) {
        if let Some(mut report) = self.report.as_ref() {
            // One write, so that a death cannot part it. A report that cannot be written is missed by its reader.
            let _ = report.write_all(format!("{point}\n").as_bytes());
        }
    }

    fn die(&self) {
        // As from outside: nothing is flushed, nothing is dropped.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
