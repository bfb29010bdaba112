//! Commands that end: a bounded time, bounded output, and nothing left running.
//!
//! [`run`] starts a program in its own process group, in a directory given by handle, with an environment given in full.
//! While it runs, its output is read to the end but kept only up to a bound. When it exits, when its time is up, or when
//! it is cancelled, the whole tree of processes it started is ended before the call returns.
//!
//! A process is found by its group, by its parents, or by a marker in its environment that each call makes up anew. One
//! that leaves the group, outlives its parents and clears its environment, all at once, is beyond what can be found
//! without the kernel's help; such programs belong into a virtual machine.

mod capture;
mod lookup;
mod spec;
mod tree;

pub use capture::BoundedText;
pub use spec::{CommandSpec, DEFAULT_PATH, InvalidCommand, MAX_COMMAND_BYTES};

use capture::Capture;
use portolan_core::cancel::CancelToken;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{AsFd, OwnedFd},
    io::Errno,
    process::{Pid, PidfdFlags, Resource, Rlimit, pidfd_open, prlimit},
};
use std::{
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tree::{Marker, Tree};

/// How long a wait may last before the cancel switch is looked at again.
const CANCEL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the output of a command that has ended is read, should a process that could not be ended still write it.
const COLLECT_TIME: Duration = Duration::from_millis(500);

/// How a command ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with a code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl Exit {
    /// The code, or the negative number of the signal.
    pub const fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => -signal,
        }
    }
}

/// What a command wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// Its standard output.
    pub stdout: BoundedText,
    /// Its standard error.
    pub stderr: BoundedText,
}

/// A command that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// How it ended.
    pub exit: Exit,
    /// What it and its background processes wrote until then.
    pub captured: Captured,
}

/// Why a command gave no output. Unless it says otherwise, nothing that it started is running any more.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command is malformed; nothing was started.
    #[error("the command is invalid")]
    Invalid(#[source] InvalidCommand),
    /// There is no such program; nothing was started.
    #[error("the program `{program}` was not found")]
    ProgramNotFound {
        /// The name as it was given.
        program: String,
    },
    /// The program could not be started.
    #[error("the program could not be started")]
    Spawn(#[source] std::io::Error),
    /// It ran out of time and was ended.
    #[error("the command did not end within {timeout_ms} ms")]
    TimedOut {
        /// The time it had.
        timeout_ms: u64,
        /// What it wrote until then.
        captured: Box<Captured>,
    },
    /// It was cancelled and ended.
    #[error("the command was cancelled")]
    Cancelled {
        /// What it wrote until then.
        captured: Box<Captured>,
    },
    /// The host failed while the command ran; the command was ended.
    #[error("the command could not be watched")]
    Watch(#[source] std::io::Error),
    /// Processes of the command are still running although they were killed.
    #[error("{count} processes of the command could not be ended")]
    Survivors {
        /// How many.
        count: usize,
    },
}

/// Why watching a command stopped.
enum Stop {
    Exited,
    TimedOut,
    Cancelled,
    Failed(Errno),
}

/// Runs a command and blocks until it has ended with all that it started.
pub fn run(spec: &CommandSpec, cancel: &CancelToken) -> Result<CommandOutput, RunError> {
    let valid = spec.check().map_err(RunError::Invalid)?;
    let not_found = || RunError::ProgramNotFound {
        program: valid.program.to_owned(),
    };
    let program = lookup::find(valid.program, valid.path).ok_or_else(not_found)?;
    if cancel.is_cancelled() {
        return Err(RunError::Cancelled {
            captured: Box::default(),
        });
    }
    let marker = Marker::new();
    let deadline = Instant::now().checked_add(Duration::from_millis(spec.timeout_ms));
    let mut child = match start(spec, &program, &valid, &marker) {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(not_found()),
        Err(error) => return Err(RunError::Spawn(error)),
    };
    let mut running = Running {
        stdout: Capture::new(child.stdout.take().map(OwnedFd::from), spec.max_output_chars),
        stderr: Capture::new(child.stderr.take().map(OwnedFd::from), spec.max_output_chars),
    };
    let stop = watch(&child, &mut running, deadline, cancel).unwrap_or_else(Stop::Failed);
    let (status, survivors) = end(&mut child, &marker);
    running.collect(Instant::now() + COLLECT_TIME);
    if survivors > 0 {
        tracing::error!(survivors, "processes of a command could not be ended");
        return Err(RunError::Survivors { count: survivors });
    }
    let captured = Captured {
        stdout: running.stdout.finish(),
        stderr: running.stderr.finish(),
    };
    match stop {
        Stop::Exited => Ok(CommandOutput {
            exit: exit_of(status.map_err(RunError::Watch)?),
            captured,
        }),
        Stop::TimedOut => Err(RunError::TimedOut {
            timeout_ms: spec.timeout_ms,
            captured: Box::new(captured),
        }),
        Stop::Cancelled => Err(RunError::Cancelled {
            captured: Box::new(captured),
        }),
        Stop::Failed(error) => Err(RunError::Watch(error.into())),
    }
}

fn start(
    spec: &CommandSpec,
    program: &std::path::Path,
    valid: &spec::Valid<'_>,
    marker: &Marker,
) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command
        .arg0(valid.program)
        .args(valid.arguments)
        .env_clear()
        .env("PATH", valid.path)
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .env(tree::MARKER_NAME, marker.value())
        // The new process has the handle until it runs the program, so it goes where the handle is, not where a path
        // leads by then.
        .current_dir(spec.cwd.path_for_child())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let child = command.spawn()?;
    // A core dump would be a change of the workspace that no program intended. Too late for a program that fails at
    // once, which then leaves a small one.
    let _ = prlimit(
        Some(Pid::from_child(&child)),
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );
    Ok(child)
}

/// Reads the output until the command exits, its time is up, or it is cancelled.
fn watch(
    child: &Child,
    running: &mut Running,
    deadline: Option<Instant>,
    cancel: &CancelToken,
) -> Result<Stop, Errno> {
    let exited = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    running.prepare()?;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = left.map_or(CANCEL_INTERVAL, |left| left.min(CANCEL_INTERVAL));
        if running.wait(Some(&exited), wait)? {
            return Ok(Stop::Exited);
        }
        if cancel.is_cancelled() {
            return Ok(Stop::Cancelled);
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Stop::TimedOut);
        }
    }
}

/// Ends the tree, then lets go of the child. Until then its number cannot become that of another process.
fn end(child: &mut Child, marker: &Marker) -> (std::io::Result<ExitStatus>, usize) {
    let tree = Tree::new(Pid::from_child(child), marker);
    let survivors = tree.end();
    (child.wait(), survivors)
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

/// Both outputs of a command.
struct Running {
    stdout: Capture,
    stderr: Capture,
}

impl Running {
    fn prepare(&self) -> Result<(), Errno> {
        self.stdout.prepare()?;
        self.stderr.prepare()
    }

    /// Waits for output or the exit, takes what is there, and tells whether the command has exited.
    fn wait(&mut self, exited: Option<&OwnedFd>, time: Duration) -> Result<bool, Errno> {
        let handles = [
            self.stdout.handle(),
            self.stderr.handle(),
            exited.map(AsFd::as_fd),
        ];
        let mut polled: Vec<PollFd<'_>> = handles
            .iter()
            .flatten()
            .map(|handle| PollFd::from_borrowed_fd(*handle, PollFlags::IN))
            .collect();
        let time = Timespec::try_from(time).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        match poll(&mut polled, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let has_exited = exited.is_some() && polled.last().is_some_and(|last| !last.revents().is_empty());
        drop(polled);
        self.stdout.take_some()?;
        self.stderr.take_some()?;
        Ok(has_exited)
    }

    /// Takes what is left in the pipes.
    fn collect(&mut self, deadline: Instant) {
        for capture in [&mut self.stdout, &mut self.stderr] {
            while capture.take_some() == Ok(capture::Taken::Some) && Instant::now() < deadline {}
        }
    }
}
