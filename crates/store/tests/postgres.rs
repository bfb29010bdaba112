//! What the battery cannot see: several stores on one Postgres, and a Postgres that fails.

use super::work::{NOW, admission, append, ending, run};
use portolan_core::{
    ids::{Epoch, OwnerId, Seq, TenantId},
    key::{ApiKey, KeyStore as _, Scope},
    money::NanoUsd,
};
use portolan_journal::{
    Admission, Admitted, Append, Appended, Claim, ClaimRequest, Claimed, Command, DeadOwners, JournalError,
    JournalStore, RunRef, ScopeKey, TopUp,
    blob::{BlobError, BlobStore as _},
};
use portolan_store::{
    PostgresBlobs, PostgresStore,
    postgres::{Migrator, PostgresMigrationError, PostgresOpenError, PostgresOptions},
};
use portolan_testkit::postgres::Cluster;
use std::{collections::BTreeSet, sync::Arc};
use tokio::task::JoinSet;

async fn open(address: &str) -> Arc<PostgresStore> {
    let store = PostgresStore::open(address, PostgresOptions::default()).await;
    Arc::new(store.expect("the database opens"))
}

/// Two replicas on a database of their own.
async fn two(cluster: &Cluster) -> (String, [Arc<PostgresStore>; 2]) {
    let address = cluster.database();
    let stores = [open(&address).await, open(&address).await];
    (address, stores)
}

fn unowned(run: RunRef) -> Admission {
    Admission {
        claim: None,
        ..admission(run)
    }
}

async fn claim(store: &PostgresStore, owner: u8, max: u32) -> Vec<Claimed> {
    let request = ClaimRequest {
        claim: Claim {
            owner: OwnerId::from_bytes([owner; 16]),
            lease_until: NOW.plus_ms(60_000),
        },
        now: NOW,
        max,
        dead: DeadOwners::LeaseExpired,
    };
    // A store under load may be too slow for its own bounds; then nothing was claimed, or nobody knows.
    store.claim(request).await.expect("claims")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_budget_is_never_overrun_by_two_replicas() {
    let cluster = Cluster::start();
    let (_, stores) = two(&cluster).await;
    let tenant = run(1).tenant;
    stores[0]
        .set_scope_limit(tenant, ScopeKey::Tenant, Some(NanoUsd(100)))
        .await
        .expect("is set");
    let mut admissions = JoinSet::new();
    for number in 0..64 {
        let store = Arc::clone(&stores[number % 2]);
        // Five each: twenty have room.
        admissions.spawn(async move { store.admit(admission(run(number as u64))).await.expect("answers") });
    }
    let answers = admissions.join_all().await;
    let created = answers
        .iter()
        .filter(|answer| matches!(answer, Admitted::Created { .. }))
        .count();
    let books = async || {
        let books = stores[1]
            .scope_books(tenant, ScopeKey::Tenant)
            .await
            .expect("reads");
        books.expect("has a limit")
    };
    assert_eq!((created, books().await.reserved), (20, NanoUsd(100)));

    // Runs that end give back what they held, and what tops up competes for it.
    let rows = stores[0]
        .list(tenant, portolan_journal::RunFilter::default(), 100)
        .await
        .expect("lists");
    assert_eq!(rows.len(), 20, "a refusal leaves no trace");
    let mut appends = JoinSet::new();
    for (number, row) in rows.into_iter().enumerate() {
        let store = Arc::clone(&stores[number % 2]);
        let piece = if number < 5 {
            ending(row.at)
        } else {
            let piece = append(row.at, 1);
            Append {
                top_up: Some(TopUp {
                    amount: NanoUsd(5),
                    events: Vec::new(),
                    progress: piece.progress.clone(),
                }),
                ..piece
            }
        };
        appends.spawn(async move { store.append(piece).await.expect("answers") });
    }
    let refused = appends
        .join_all()
        .await
        .into_iter()
        .filter(|answer| matches!(answer, Appended::TopUpRefused { .. }))
        .count();
    let held = books().await.reserved.0;
    assert!(held <= 100, "{held} are held");
    assert_eq!(held, 15 * 5 + (15 - refused as u64) * 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_that_spoils_its_group_fails_alone() {
    let cluster = Cluster::start();
    let store = open(&cluster.database()).await;
    let mut admissions = JoinSet::new();
    for number in 0..40_u64 {
        let store = Arc::clone(&store);
        // Forty in four queues share groups. A zero byte is no text to the database.
        let key = if number % 10 == 3 {
            "\0".to_owned()
        } else {
            format!("key {number}")
        };
        let idempotency = Some(portolan_journal::IdempotencyClaim {
            key,
            fingerprint: portolan_core::digest::Digest::of(b"body"),
            expires_at: NOW.plus_ms(1_000),
        });
        let admission = Admission {
            idempotency,
            ..admission(run(number))
        };
        admissions.spawn(async move { (number, store.admit(admission).await) });
    }
    for (number, answer) in admissions.join_all().await {
        match answer {
            Err(JournalError::NotCommitted(_)) => assert_eq!(number % 10, 3),
            Ok(Admitted::Created { .. }) => assert_ne!(number % 10, 3),
            other => panic!("{other:?}"),
        }
    }
    // The same key at once: one run, and everybody hears of it.
    let mut admissions = JoinSet::new();
    for number in 100..120_u64 {
        let store = Arc::clone(&store);
        let admission = Admission {
            idempotency: Some(portolan_journal::IdempotencyClaim {
                key: "shared".to_owned(),
                fingerprint: portolan_core::digest::Digest::of(b"body"),
                expires_at: NOW.plus_ms(1_000),
            }),
            ..admission(run(number))
        };
        admissions.spawn(async move { (run(number).run, store.admit(admission).await.expect("answers")) });
    }
    let answers = admissions.join_all().await;
    let made: Vec<_> = answers
        .iter()
        .filter(|(_, answer)| matches!(answer, Admitted::Created { .. }))
        .map(|(run, _)| *run)
        .collect();
    assert_eq!(made.len(), 1, "{answers:?}");
    let replayed = answers
        .iter()
        .filter(|(_, answer)| *answer == Admitted::Replayed(made[0]));
    assert_eq!(replayed.count(), 19, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn limits_that_open_among_writes_begin_with_the_right_sum() {
    let cluster = Cluster::start();
    let (_, stores) = two(&cluster).await;
    let tenant = run(1).tenant;
    let mut admissions = JoinSet::new();
    for number in 0..40 {
        let store = Arc::clone(&stores[number % 2]);
        admissions.spawn(async move {
            store.admit(admission(run(number as u64))).await.expect("answers");
        });
        if number == 20 {
            let store = Arc::clone(&stores[1]);
            admissions.spawn(async move {
                let limit = Some(NanoUsd(1_000));
                store
                    .set_scope_limit(tenant, ScopeKey::Tenant, limit)
                    .await
                    .expect("is set");
            });
        }
    }
    admissions.join_all().await;
    let books = stores[0]
        .scope_books(tenant, ScopeKey::Tenant)
        .await
        .expect("reads");
    assert_eq!(books.expect("has a limit").reserved, NanoUsd(200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_is_claimed_once_and_the_fenced_owner_writes_nothing() {
    let cluster = Cluster::start();
    let (_, stores) = two(&cluster).await;
    for number in 0..60 {
        stores[0].admit(unowned(run(number))).await.expect("is admitted");
    }
    let mut claims = JoinSet::new();
    for owner in 1..=8 {
        let store = Arc::clone(&stores[usize::from(owner) % 2]);
        claims.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let more = claim(&store, owner, 5).await;
                if more.is_empty() {
                    return mine;
                }
                mine.extend(more);
            }
        });
    }
    let claimed: Vec<Claimed> = claims.join_all().await.into_iter().flatten().collect();
    let runs: BTreeSet<RunRef> = claimed.iter().map(|claimed| claimed.run).collect();
    assert_eq!((claimed.len(), runs.len()), (60, 60));
    assert!(claimed.iter().all(|claimed| claimed.epoch == Epoch(1)));

    // The lease runs out; the other replica takes over; the first owner comes back.
    let later = ClaimRequest {
        claim: Claim {
            owner: OwnerId::from_bytes([9; 16]),
            lease_until: NOW.plus_ms(200_000),
        },
        now: NOW.plus_ms(60_000),
        max: 100,
        dead: DeadOwners::LeaseExpired,
    };
    let taken = stores[1].claim(later).await.expect("claims");
    assert_eq!(
        (taken.len(), taken[0].epoch, taken[0].redrives),
        (60, Epoch(2), 1)
    );
    let at = taken[0].run;
    assert_eq!(stores[0].append(append(at, 2)).await, Ok(Appended::Fenced));
    let piece = Append {
        epoch: Epoch(2),
        ..append(at, 2)
    };
    assert!(matches!(
        stores[1].append(piece).await,
        Ok(Appended::Committed { last_seq: Seq(3), .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_append_whose_backend_dies_is_unknown_and_what_is_read_back_stays() {
    let cluster = Cluster::start();
    let (address, [store, other]) = two(&cluster).await;
    store.admit(admission(run(1))).await.expect("is admitted");
    // Somebody holds the row, so that the append waits inside of its statement; then its backend is ended.
    let sql = "CREATE FUNCTION end_the_waiter() RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE waiter integer; BEGIN
            PERFORM 1 FROM runs FOR UPDATE;
            LOOP
                PERFORM pg_stat_clear_snapshot();
                SELECT pid INTO waiter FROM pg_stat_activity WHERE wait_event_type = 'Lock';
                EXIT WHEN waiter IS NOT NULL;
            END LOOP;
            PERFORM pg_terminate_backend(waiter);
            RETURN 1;
        END $$";
    cluster.sql(&address, sql);
    let cluster = Arc::new(cluster);
    let (holder, place) = (Arc::clone(&cluster), address.clone());
    let holding = tokio::task::spawn_blocking(move || holder.sql(&place, "SELECT end_the_waiter()"));
    let mut appended = 0;
    let outcome = loop {
        // The holder may not be there yet: then the append lands.
        match store.append(append(run(1), 1)).await {
            Ok(Appended::Committed { .. }) => appended += 1,
            other => break other,
        }
    };
    assert!(matches!(outcome, Err(JournalError::Unknown(_))), "{outcome:?}");
    holding.await.expect("no panic");
    let seen = other.read(run(1), Seq::ZERO, 10_000).await.expect("reads").len();
    assert_eq!(seen, 1 + appended, "the backend died before its commit");
    assert!(matches!(
        store.append(append(run(1), 1)).await,
        Ok(Appended::Committed { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_acknowledged_is_lost_when_the_server_stops_at_once() {
    let cluster = Arc::new(Cluster::start());
    let (_, [store, other]) = two(&cluster).await;
    let mut writers = JoinSet::new();
    for number in 0..8 {
        store.admit(admission(run(number))).await.expect("is admitted");
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut acknowledged = 1_u64;
            loop {
                match store.append(append(run(number), 1)).await {
                    Ok(Appended::Committed { last_seq, .. }) => acknowledged = last_seq.0,
                    Ok(answer) => panic!("{answer:?}"),
                    Err(error) => return (number, acknowledged, error),
                }
            }
        });
    }
    let stopper = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || stopper.stop_immediately())
        .await
        .expect("stops");
    let ends = writers.join_all().await;
    let refused = store.append(append(run(0), 1)).await;
    assert!(
        matches!(refused, Err(JournalError::NotCommitted(_))),
        "{refused:?}"
    );
    let refused = other.run(run(0)).await;
    assert!(
        matches!(refused, Err(JournalError::NotCommitted(_))),
        "{refused:?}"
    );

    let starter = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || starter.resume())
        .await
        .expect("starts");
    for (number, acknowledged, error) in ends {
        let seen = loop {
            // Whoever was away has a moment's rest before it is asked for again.
            match other.read(run(number), Seq::ZERO, 1_000_000).await {
                Ok(events) => break events.len() as u64,
                Err(JournalError::NotCommitted(_)) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        };
        let may_have_landed = u64::from(matches!(error, JournalError::Unknown(_)));
        assert!(
            (acknowledged..=acknowledged + may_have_landed).contains(&seen),
            "run {number}: {acknowledged} acknowledged, {seen} there, {error}"
        );
    }
    loop {
        match store.append(append(run(0), 1)).await {
            Ok(Appended::Committed { .. }) => break,
            Err(JournalError::NotCommitted(_)) => tokio::task::yield_now().await,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_goes_silent_is_given_up_and_what_it_was_sent_is_settled() {
    let cluster = Arc::new(Cluster::start());
    let (_, [store, other]) = two(&cluster).await;
    store.admit(admission(run(1))).await.expect("is admitted");
    other.run(run(1)).await.expect("reads");
    let freezer = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || freezer.freeze())
        .await
        .expect("freezes");
    let (sent, read) = tokio::join!(store.append(append(run(1), 1)), other.run(run(1)));
    assert!(matches!(sent, Err(JournalError::Unknown(_))), "{sent:?}");
    assert!(matches!(read, Err(JournalError::NotCommitted(_))), "{read:?}");
    let refused = store.append(append(run(1), 1)).await;
    assert!(
        matches!(refused, Err(JournalError::NotCommitted(_))),
        "{refused:?}"
    );
    let warmer = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || warmer.thaw())
        .await
        .expect("thaws");
    // The store that was in doubt reads only when the doubt is settled, so what it reads is what stays.
    let seen = loop {
        match store.read(run(1), Seq::ZERO, 10).await {
            Ok(events) => break events.len(),
            Err(JournalError::NotCommitted(_)) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    };
    assert!((1..=2).contains(&seen), "{seen} events");
    let at_end = Append {
        after: Some(Seq(seen as u64)),
        ..append(run(1), 1)
    };
    let appended = loop {
        // A writer leaves a server that did not answer alone for a moment.
        match store.append(at_end.clone()).await {
            Err(JournalError::NotCommitted(_)) => tokio::task::yield_now().await,
            answer => break answer,
        }
    };
    assert!(matches!(appended, Ok(Appended::Committed { .. })), "{appended:?}");
    assert_eq!(
        other.read(run(1), Seq::ZERO, 10).await.expect("reads").len(),
        seen + 1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_commits_wakes_the_readers_of_the_other() {
    let cluster = Cluster::start();
    let (_, [store, other]) = two(&cluster).await;
    store.admit(admission(run(1))).await.expect("is admitted");
    let mut signal = other.hub().follow(run(1));
    // The first hints may be too early for the listener; one of them is not.
    let mut commands = 0;
    while commands == 0 {
        store.append(append(run(1), 1)).await.expect("answers");
        store
            .command(run(1), Command::Cancel, NOW)
            .await
            .expect("answers");
        tokio::select! {
            changed = signal.changed() => changed.expect("the hub is there"),
            () = tokio::task::yield_now() => {}
        }
        commands = signal.borrow().commands;
    }
    assert!(signal.borrow().last_seq > Seq(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_replicas_that_start_together_one_makes_the_schema_and_one_the_first_tenant() {
    let cluster = Cluster::start();
    let address = cluster.database();
    let mut starts = JoinSet::new();
    for number in 1..=6_u8 {
        let address = address.clone();
        starts.spawn(async move {
            let store = open(&address).await;
            let secret = store.key_hash_secret([number; 32]).await.expect("answers");
            let key = ApiKey {
                id: portolan_core::ids::KeyId::from_bytes([number; 16]),
                tenant: TenantId::from_bytes([number; 16]),
                name: "admin".to_owned(),
                scopes: [Scope::Admin].into(),
                secret_hash: [number; 32],
                created_at: NOW,
                expires_at: None,
            };
            (store.bootstrap("default", key).await.expect("answers"), secret)
        });
    }
    let starts = starts.join_all().await;
    assert_eq!(starts.iter().filter(|(made, _)| *made).count(), 1);
    let secrets: BTreeSet<[u8; 32]> = starts.iter().map(|(_, secret)| *secret).collect();
    assert_eq!(secrets.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_was_cut_between_two_steps_is_completed() {
    let cluster = Cluster::start();
    let schema = |address: &str| {
        let columns = "SELECT table_name, column_name, ordinal_position, data_type, collation_name, is_nullable, column_default
            FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 3";
        let indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1";
        let checks = "SELECT conrelid::regclass, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2";
        [columns, indexes, checks].map(|sql| cluster.sql(address, sql))
    };
    let fresh = cluster.database();
    open(&fresh).await.close().await;
    let wanted = schema(&fresh);

    let mut steps = 0;
    loop {
        let address = cluster.database();
        let migrator = Migrator::connect(&address).await.expect("connects");
        for _ in 0..steps {
            migrator
                .apply_next()
                .await
                .expect("applies")
                .expect("there is one");
        }
        let is_last = migrator.pending().await.expect("reads").is_empty();
        drop(migrator);
        open(&address).await.close().await;
        assert_eq!(schema(&address), wanted, "cut after {steps} steps");
        if is_last {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 2, "there are {steps} steps");
}

#[tokio::test]
async fn a_database_that_is_not_ours_or_not_of_this_build_is_refused_by_name() {
    let cluster = Cluster::start();
    let refused = async |sql: &[&str]| {
        let address = cluster.database();
        for sql in sql {
            match *sql {
                "step" => {
                    let migrator = Migrator::connect(&address).await.expect("connects");
                    migrator.apply_next().await.expect("applies");
                }
                sql => drop(cluster.sql(&address, sql)),
            }
        }
        let opened = PostgresStore::open(&address, PostgresOptions::default()).await;
        opened.map(drop).expect_err("is refused")
    };
    let foreign = refused(&["CREATE TABLE t (a integer)"]).await;
    assert!(
        matches!(
            foreign,
            PostgresOpenError::Schema(PostgresMigrationError::Foreign)
        ),
        "{foreign:?}"
    );
    let used = "INSERT INTO tenants VALUES ('a', 'a', 0)";
    let behind = refused(&["step", used]).await;
    let PostgresOpenError::Schema(behind) = behind else {
        panic!("{behind:?}");
    };
    assert!(behind.to_string().contains("portolan migrate"), "{behind}");
    let later = "INSERT INTO portolan_schema VALUES (99, 'V99__later')";
    let newer = refused(&["step", "step", later]).await;
    assert!(
        matches!(
            newer,
            PostgresOpenError::Schema(PostgresMigrationError::Newer { found: 99, .. })
        ),
        "{newer:?}"
    );
}

#[tokio::test]
async fn a_server_that_may_lose_commits_is_taken_by_name_only() {
    let cluster = Cluster::start();
    let address = cluster.database();
    cluster.sql(&address, "ALTER DATABASE test0 SET synchronous_commit = off");
    let refused = PostgresStore::open(&address, PostgresOptions::default()).await;
    assert!(matches!(
        refused.map(drop),
        Err(PostgresOpenError::Setting {
            setting: "synchronous_commit"
        })
    ));
    let options = PostgresOptions {
        allow_unsafe: true,
        ..PostgresOptions::default()
    };
    PostgresStore::open(&address, options).await.expect("is allowed");
}

#[tokio::test]
async fn blobs_are_whole_or_not_there() {
    let cluster = Cluster::start();
    let address = cluster.database();
    let blobs = PostgresBlobs::new(open(&address).await);
    let contents: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0; 5 << 20],
        b"\0x".to_vec(),
        b"\0x".to_vec(),
        vec![1; 3],
    ];
    let digests = blobs.put(contents.clone()).await.expect("are kept");
    for (digest, content) in digests.iter().zip(&contents) {
        assert_eq!(blobs.get(*digest).await.as_ref(), Ok(content));
    }
    cluster.sql(
        &address,
        "UPDATE blobs SET content = 'other' WHERE length(content) = 3",
    );
    let damaged = digests[4];
    assert_eq!(blobs.get(damaged).await, Err(BlobError::Damaged(damaged)));
    blobs.put(vec![contents[4].clone()]).await.expect("is kept");
    assert_eq!(
        blobs.get(damaged).await.as_ref(),
        Ok(&contents[4]),
        "written anew"
    );
    cluster.sql(&address, "DELETE FROM blobs");
    assert_eq!(blobs.get(damaged).await, Err(BlobError::Missing(damaged)));
}
