//! Ending every process that a command started.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal},
};
use std::{
    collections::HashSet,
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io::Read,
    time::{Duration, Instant},
};

/// The variable that marks the processes of one call.
pub(super) const MARKER_NAME: &str = "PORTOLAN_CALL";
/// How long the ending of a tree may take before what is left counts as survivors.
const END_TIME: Duration = Duration::from_secs(2);
/// How long killed processes are waited for before the next look.
const DIE_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// How much of an environment is searched. A program may have put something before the marker.
const MAX_ENVIRONMENT: u64 = 4 * 1024 * 1024;

/// A value that no other call has.
#[derive(Debug)]
pub(super) struct Marker(String);

/// The processes of one call.
pub(super) struct Tree<'a> {
    /// The process that was started. It is not waited for yet, so its number is still its own.
    leader: Pid,
    marker: &'a Marker,
}

/// What `/proc` tells of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    pid: i32,
    parent: i32,
    group: i32,
    /// In clock ticks since the boot. Together with the number it names one process for ever.
    started: u64,
    alive: bool,
}

impl Marker {
    /// Makes up a value from the randomness that seeds the standard hash maps.
    pub(super) fn new() -> Self {
        let number = || RandomState::new().build_hasher().finish();
        Self(format!("{:016x}{:016x}", number(), number()))
    }

    pub(super) fn value(&self) -> &str {
        &self.0
    }

    fn is_in(&self, environment: &[u8]) -> bool {
        environment.split(|byte| *byte == 0).any(|variable| {
            variable
                .strip_prefix(MARKER_NAME.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="))
                .is_some_and(|value| value == self.0.as_bytes())
        })
    }
}

impl<'a> Tree<'a> {
    pub(super) const fn new(leader: Pid, marker: &'a Marker) -> Self {
        Self { leader, marker }
    }

    /// Kills until nothing is found any more, and tells how many were left when the time was up.
    ///
    /// The children of a process that exits get another parent, so the tree is looked up before anything is killed.
    pub(super) fn end(&self) -> usize {
        let deadline = Instant::now() + END_TIME;
        let mut targets = self.find();
        // The group goes at once, as no member can fork in between. It may be gone already.
        let _ = kill_process_group(self.leader, Signal::KILL);
        while !targets.is_empty() {
            if Instant::now() >= deadline {
                return targets.len();
            }
            kill_and_wait(&targets);
            targets = self.find();
        }
        0
    }

    /// The processes that are in the group, or have the mark, or descend from one that is or has.
    fn find(&self) -> Vec<Seen> {
        let all: Vec<Seen> = pids().into_iter().filter_map(Seen::read).collect();
        let leader = self.leader.as_raw_nonzero().get();
        let started = all
            .iter()
            .find(|seen| seen.pid == leader)
            .map_or(0, |seen| seen.started);
        // Whatever is older than the leader was not started by it. That leaves few environments to read.
        let young: Vec<Seen> = all.into_iter().filter(|seen| seen.started >= started).collect();
        let mut environment = Vec::new();
        let own = young.iter().filter(|seen| {
            seen.pid == leader
                || seen.group == leader
                || (seen.alive && self.is_marked(seen.pid, &mut environment))
        });
        let mut found: HashSet<i32> = own.map(|seen| seen.pid).collect();
        // A pass finds the children of what is found, and no tree has more levels than processes.
        for _ in 0..young.len() {
            let children = young
                .iter()
                .filter(|seen| found.contains(&seen.parent))
                .map(|seen| seen.pid);
            let children: Vec<i32> = children.filter(|pid| !found.contains(pid)).collect();
            if children.is_empty() {
                break;
            }
            found.extend(children);
        }
        young
            .into_iter()
            .filter(|seen| seen.alive && found.contains(&seen.pid))
            .collect()
    }

    fn is_marked(&self, pid: i32, environment: &mut Vec<u8>) -> bool {
        environment.clear();
        // What may not be read belongs to somebody else; what has exited has no environment.
        File::open(format!("/proc/{pid}/environ"))
            .and_then(|file| file.take(MAX_ENVIRONMENT).read_to_end(environment))
            .is_ok()
            && self.marker.is_in(environment)
    }
}

impl Seen {
    fn read(pid: i32) -> Option<Self> {
        let mut stat = Vec::new();
        File::open(format!("/proc/{pid}/stat"))
            .and_then(|mut file| file.read_to_end(&mut stat))
            .ok()?;
        Self::parse(pid, &stat)
    }

    /// The name of the program stands in parentheses and may itself hold anything, also parentheses.
    fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self {
            pid,
            parent,
            group,
            started,
            alive: !matches!(state, "Z" | "X" | "x"),
        })
    }

    /// A handle of this very process, not of a later one with its number.
    fn handle(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        let now = Self::read(self.pid)?;
        (now.started == self.started).then_some(handle)
    }
}

fn pids() -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .collect()
}

fn kill_and_wait(targets: &[Seen]) {
    let handles: Vec<OwnedFd> = targets.iter().filter_map(Seen::handle).collect();
    for handle in &handles {
        // It may have exited, or belong to another user; the next look tells.
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
    for handle in &handles {
        let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&DIE_TIME));
    }
}

#[cfg(test)]
mod tests {
    use super::{Marker, Seen};

    #[test]
    fn a_marker_is_a_whole_variable() {
        let marker = Marker::new();
        let value = marker.value();
        assert!(marker.is_in(format!("A=1\0PORTOLAN_CALL={value}\0B=2\0").as_bytes()));
        assert!(!marker.is_in(format!("A=PORTOLAN_CALL={value}\0").as_bytes()));
        assert!(!marker.is_in(format!("PORTOLAN_CALL={value}0\0").as_bytes()));
        assert_ne!(Marker::new().value(), value);
    }

    #[test]
    fn a_program_name_may_hold_anything() {
        let stat = b"7 (a) Z 9 (b)) S 5 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(
            Seen::parse(7, stat),
            Some(Seen {
                pid: 7,
                parent: 5,
                group: 7,
                started: 4242,
                alive: true
            })
        );
        assert_eq!(Seen::parse(7, b"7 (x"), None);
        assert!(
            !Seen::parse(7, b"7 (x) Z 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0")
                .unwrap()
                .alive
        );
    }

    #[test]
    fn this_process_can_be_seen() {
        let own = i32::try_from(std::process::id()).unwrap();
        let seen = Seen::read(own).unwrap();
        assert!(seen.alive && seen.handle().is_some());
        assert!(
            Seen {
                started: seen.started + 1,
                ..seen
            }
            .handle()
            .is_none()
        );
    }
}
