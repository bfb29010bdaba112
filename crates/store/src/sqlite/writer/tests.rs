//! Commits that fail, and writes that fail beside others.

use super::{
    super::{
        batch::{Answer, Pending, Write},
        checkpoint,
        fault::Fault,
        open, read,
        write::{admit::Admit, append::AppendEvents},
    },
    *,
};
use portolan_core::{
    ids::{Epoch, RunId, Seq, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use portolan_journal::{
    Admission, Admitted, Append, Appended, Claim, JournalError, NewEvent, Progress, RunRef, RunStatus,
};
use rusqlite::ffi;
use std::cell::Cell;
use tokio::sync::oneshot;

thread_local! {
    /// Commits that fail from now on, on this thread.
    static FAILURES: Cell<u32> = const { Cell::new(0) };
}

fn failure(code: i32) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

/// Whether this commit is one that fails.
fn fails_now() -> bool {
    FAILURES.with(|left| {
        let fails = left.get() > 0;
        left.set(left.get().saturating_sub(1));
        fails
    })
}

fn lost(connection: &Connection) -> rusqlite::Result<()> {
    if fails_now() {
        return Err(failure(ffi::SQLITE_IOERR_FSYNC));
    }
    run(connection, "COMMIT")
}

fn landed(connection: &Connection) -> rusqlite::Result<()> {
    run(connection, "COMMIT")?;
    if fails_now() {
        return Err(failure(ffi::SQLITE_IOERR_FSYNC));
    }
    Ok(())
}

fn busy(connection: &Connection) -> rusqlite::Result<()> {
    if fails_now() {
        return Err(failure(ffi::SQLITE_BUSY));
    }
    run(connection, "COMMIT")
}

struct World {
    writer: Writer,
    reader: Connection,
    _directory: tempfile::TempDir,
}

impl World {
    fn new(commit: fn(&Connection) -> rusqlite::Result<()>, failures: u32) -> Self {
        FAILURES.with(|left| left.set(failures));
        let directory = tempfile::tempdir().expect("made");
        let path = directory.path().join("a.db");
        let connection = open::writer(&path).expect("opens");
        let checkpointer = open::checkpointer(&path).expect("opens");
        let (checkpoints, _) = checkpoint::start(checkpointer).expect("starts");
        let mut writer =
            Writer::new(connection, Hub::default(), Arc::default(), checkpoints).expect("starts");
        writer.commit = commit;
        Self {
            writer,
            reader: open::reader(&path).expect("opens"),
            _directory: directory,
        }
    }

    /// Whether a run is there.
    fn has(&self, number: u8) -> bool {
        read::run(&self.reader, at(number)).expect("is read").is_some()
    }
}

fn at(number: u8) -> RunRef {
    RunRef {
        tenant: TenantId::from_bytes([1; 16]),
        run: RunId::from_bytes([number; 16]),
    }
}

fn event(payload: Vec<u8>) -> NewEvent {
    NewEvent {
        kind: "step_completed".into(),
        step: None,
        attempt: None,
        payload: payload.into(),
    }
}

fn admit(number: u8) -> Admit {
    Admit::new(Admission {
        run: at(number),
        agent: "a".parse().expect("is a name"),
        agent_version: 1,
        tags: Vec::new(),
        queued: event(Vec::new()),
        reserve: NanoUsd::ZERO,
        idempotency: None,
        claim: Some(Claim {
            owner: portolan_core::ids::OwnerId::from_bytes([1; 16]),
            lease_until: Timestamp(1),
        }),
        at: Timestamp(0),
    })
    .expect("is written")
}

fn append(number: u8, payload: Vec<u8>) -> AppendEvents {
    AppendEvents::new(Append {
        run: at(number),
        epoch: Epoch(1),
        after: None,
        at: Timestamp(0),
        active_ms: 0,
        events: vec![event(payload)],
        progress: Progress {
            status: RunStatus::Running,
            ..Progress::default()
        },
        advances: false,
        settle: None,
        top_up: None,
        consumed: Vec::new(),
        release: None,
    })
    .expect("is written")
}

/// Queues a write into a group.
fn queue<W: Write>(group: &mut Vec<QueuedWrite>, write: W) -> Answer<W> {
    let (pending, answer) = Pending::queue(write);
    group.push(pending);
    answer
}

fn heard<T>(mut answer: oneshot::Receiver<Result<T, JournalError>>) -> Result<T, JournalError> {
    answer.try_recv().expect("is answered")
}

const CREATED: Result<Admitted, JournalError> = Ok(Admitted::Created {
    epoch: Some(Epoch(1)),
});

#[test]
fn an_unknown_commit_is_told_to_every_waiter_and_settled_before() {
    for (commit, landed) in [(lost as fn(&Connection) -> _, false), (landed, true)] {
        let mut world = World::new(commit, 1);
        let signals = world.writer.hub.follow(at(1));
        let mut group = Vec::new();
        let answers = [queue(&mut group, admit(1)), queue(&mut group, admit(2))];
        world.writer.write(group);
        for answer in answers {
            assert!(matches!(heard(answer), Err(JournalError::Unknown(_))));
        }
        assert_eq!(signals.borrow().last_seq, Seq::ZERO, "the hub was told");
        assert!(!world.writer.suspect.load(Ordering::Acquire), "it is not settled");
        assert_eq!((world.has(1), world.has(2)), (landed, landed));

        let mut group = Vec::new();
        let answer = queue(&mut group, admit(3));
        world.writer.write(group);
        assert_eq!(heard(answer), CREATED);
    }
}

#[test]
fn while_an_outcome_cannot_be_settled_nothing_is_written() {
    let mut world = World::new(lost, 3);
    let mut heard_of = Vec::new();
    for number in 1..=3 {
        let mut group = Vec::new();
        let answer = queue(&mut group, admit(number));
        world.writer.write(group);
        heard_of.push(heard(answer));
    }
    assert!(
        matches!(heard_of[0], Err(JournalError::Unknown(_))),
        "{heard_of:?}"
    );
    assert!(
        matches!(heard_of[1], Err(JournalError::NotCommitted(_))),
        "{heard_of:?}"
    );
    assert_eq!(heard_of[2], CREATED);
    assert_eq!([1, 2, 3].map(|number| world.has(number)), [false, false, true]);
}

#[test]
fn a_commit_that_certainly_failed_is_not_unknown() {
    let mut world = World::new(busy, 1);
    let mut group = Vec::new();
    let answer = queue(&mut group, admit(1));
    world.writer.write(group);
    assert!(matches!(heard(answer), Err(JournalError::NotCommitted(_))));
    assert!(!world.has(1));
}

/// Writes, and fails.
struct Halfway;

impl Write for Halfway {
    type Answer = ();

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.connection
            .execute("UPDATE barrier SET raised = 77 WHERE id = 1", [])?;
        Err(Fault::Refused("halfway".to_owned()))
    }
}

#[test]
fn a_write_that_fails_halfway_hurts_no_neighbour() {
    let mut world = World::new(landed, 0);
    let mut group = Vec::new();
    let before = queue(&mut group, admit(1));
    let failed = queue(&mut group, Halfway);
    let again = queue(&mut group, admit(1));
    let after = queue(&mut group, admit(2));
    world.writer.write(group);
    assert_eq!(heard(before), CREATED);
    assert_eq!(
        heard(failed),
        Err(JournalError::NotCommitted("halfway".to_owned()))
    );
    assert!(
        matches!(heard(again), Err(JournalError::NotCommitted(_))),
        "a run was made twice"
    );
    assert_eq!(heard(after), CREATED);
    let raised: i64 = world
        .reader
        .query_row("SELECT raised FROM barrier", [], |row| row.get(0))
        .expect("is read");
    assert_eq!(raised, 0, "what failed has left something");
}

#[test]
fn a_write_without_room_on_the_disk_hurts_no_neighbour() {
    let mut world = World::new(landed, 0);
    let mut group = Vec::new();
    let made = queue(&mut group, admit(1));
    world.writer.write(group);
    assert_eq!(heard(made), CREATED);

    let pages: i64 = world
        .writer
        .connection
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .expect("is read");
    let limit = |world: &World, pages: i64| {
        let set = world
            .writer
            .connection
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()));
        set.expect("is set");
    };
    limit(&world, pages + 20);
    let mut group = Vec::new();
    let before = queue(&mut group, append(1, vec![1]));
    let large = queue(&mut group, append(1, vec![0; 1 << 20]));
    let after = queue(&mut group, append(1, vec![2]));
    world.writer.write(group);
    let committed = |seq| {
        Ok(Appended::Committed {
            last_seq: Seq(seq),
            inbox: Vec::new(),
        })
    };
    assert_eq!(heard(before), committed(2));
    assert!(matches!(heard(large), Err(JournalError::NotCommitted(_))));
    assert_eq!(heard(after), committed(3));

    limit(&world, 1 << 30);
    let mut group = Vec::new();
    let large = queue(&mut group, append(1, vec![0; 1 << 20]));
    world.writer.write(group);
    assert_eq!(heard(large), committed(4));
}

#[test]
fn the_log_starts_over_when_it_is_long() {
    let mut world = World::new(landed, 0);
    let mut group = Vec::new();
    queue(&mut group, admit(1));
    world.writer.write(group);
    let mut most = 0;
    for _ in 0..130 {
        let mut group = Vec::new();
        queue(&mut group, append(1, vec![0; 1 << 20]));
        world.writer.write(group);
        world.writer.checkpoints.after_commit(&world.writer.connection);
        let log = world._directory.path().join("a.db-wal");
        most = most.max(std::fs::metadata(log).expect("is there").len());
    }
    assert!(most < 40 << 20, "the log grew to {most} bytes of 130 MiB");
}

#[test]
fn a_long_reader_does_not_hold_up_every_commit() {
    let mut world = World::new(landed, 0);
    world
        .reader
        .execute_batch("BEGIN; SELECT count(*) FROM runs")
        .expect("reads an old state");
    let mut group = Vec::new();
    queue(&mut group, admit(1));
    world.writer.write(group);
    let first = world.writer.checkpoints.start_over_at;
    let mut put_off = Vec::new();
    for _ in 0..50 {
        let mut group = Vec::new();
        queue(&mut group, append(1, vec![0; 1 << 20]));
        world.writer.write(group);
        world.writer.checkpoints.after_commit(&world.writer.connection);
        put_off.push(world.writer.checkpoints.start_over_at);
    }
    put_off.dedup();
    assert_eq!(put_off.len(), 2, "attempts in 50 MiB of log: {put_off:?}");
    assert!(put_off[1] >= first * 2, "{put_off:?}");
}
