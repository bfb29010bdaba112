//! The machine: its clock, its limits, its shell.

use super::Finding;
use crate::config::Config;
use portolan_core::time::{Clock as _, Timestamp};
use portolan_engine::ambient::SystemClock;
use rustix::process::{Resource, getrlimit};

/// A connection, a run and a blob may need a descriptor each.
const LEAST_FILES: u64 = 4_096;
/// No build is older than this.
const EARLIEST: Timestamp = Timestamp(1_767_225_600_000_000);

/// Ids sort by time, and keys expire by it.
pub(super) fn clock() -> Finding {
    let now = SystemClock::new().now();
    if now < EARLIEST {
        return Finding::fail(
            "clock",
            format!("it says {now}, which is in the past"),
            "set the clock, or run an NTP client",
        );
    }
    Finding::ok("clock", now.to_string())
}

/// The limit of open files.
pub(super) fn open_files() -> Finding {
    // `serve` takes what it may have.
    let limit = getrlimit(Resource::Nofile).maximum;
    match limit {
        Some(limit) if limit < LEAST_FILES => Finding::warn(
            "open files",
            format!("at most {limit}; a busy server needs more"),
            format!("ulimit -Hn {LEAST_FILES}, or LimitNOFILE in its unit"),
        ),
        Some(limit) => Finding::ok("open files", format!("at most {limit}")),
        None => Finding::ok("open files", "no limit"),
    }
}

/// What the shell tool may do.
pub(super) fn shell(config: &Config) -> Finding {
    if config.allow_host_shell.value {
        return Finding::warn(
            "host shell",
            format!(
                "agents may run their commands on this host, unisolated ({})",
                config.allow_host_shell.source
            ),
            "do this only for agents that you trust, as a user who may do little",
        );
    }
    Finding::ok("host shell", "refused")
}
