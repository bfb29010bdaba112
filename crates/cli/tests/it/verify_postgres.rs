//! `portolan verify --database` on a Postgres that is whole, with a server on it or without, and on one with each kind of damage.

use crate::{
    support::{Daemon, Stage, portolan},
    verify::{assert_kinds, verify},
};
use portolan_journal::audit::FindingKind;
use portolan_testkit::postgres::Cluster;
use serde_json::Value;
use std::collections::BTreeSet;

/// A database with a run that has ended and one in the middle of a model call, whose server was killed.
struct Left {
    stage: Stage,
    cluster: Cluster,
    database: String,
    ended: String,
    open: String,
}

impl Left {
    async fn behind() -> Self {
        let cluster = Cluster::start();
        let database = cluster.database();
        let stage = Stage::set(&["--hold-call", "3"]);
        let server = stage.serve_with(&["--database", &database]);
        let agent = stage.write_walker("walker", "");
        stage.on(&server, &["agents", "apply", &agent]).expect(0);
        let open = server.start_run(&stage.admin_key()).await;
        stage.provider.get("/control/held").await;
        let ended = stage.on(&server, &["run", "walker", "--json"]).expect(0).json();
        let ended = ended["run"]["id"].as_str().expect("an id").to_owned();
        let live = verify(stage.path(), &["--database", &database]).expect(0).json();
        assert_eq!(live["audited"]["runs"], 2, "a server may run on it: {live}");
        server.kill();
        while cluster.sql(
            &database,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()",
        ) != "1"
        {
            std::thread::yield_now();
        }
        // Books that are right: what the run in the middle of its call holds.
        cluster.sql(
            &database,
            "INSERT INTO budget_scopes (tenant_id, agent, bound, reserved)
             SELECT tenant_id, '', 1000000000000, sum(reserved) FROM runs WHERE status < 3 GROUP BY tenant_id",
        );
        Self {
            stage,
            cluster,
            database,
            ended,
            open,
        }
    }

    /// Another database with the same content.
    fn copy(&self, number: usize) -> String {
        let name = format!("copy{number}");
        let create = format!("CREATE DATABASE {name} TEMPLATE test0");
        self.cluster.sql(&self.cluster.address("postgres"), &create);
        self.cluster.address(&name)
    }

    /// SQL with the ids of the runs in it.
    fn filled(&self, sql: &str) -> String {
        let id = |run: &str| format!("'\\x{}'::bytea", run.strip_prefix("run_").expect("an id"));
        sql.replace("ENDED", &id(&self.ended))
            .replace("OPEN", &id(&self.open))
    }
}

/// What is changed, and what has to be found.
const DAMAGE: &[(&str, &[FindingKind])] = &[
    (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'runs_by_agent'::regclass",
        &[FindingKind::Damaged],
    ),
    (
        "UPDATE runs SET progress = '{' WHERE run_id = ENDED",
        &[FindingKind::RowUnreadable],
    ),
    (
        "UPDATE runs SET status = 4 WHERE run_id = ENDED",
        &[FindingKind::RowUnreadable],
    ),
    (
        "DELETE FROM journal_events WHERE run_id = ENDED AND kind = 'step_started' AND step_id = 4",
        &[FindingKind::AnsweredUndispatched, FindingKind::NotDense],
    ),
    (
        "UPDATE runs SET next_seq = next_seq + 1 WHERE run_id = ENDED",
        &[FindingKind::CounterDiffers],
    ),
    (
        "UPDATE journal_events SET kind = 'run_teleported' WHERE run_id = ENDED AND seq = 1",
        &[FindingKind::WrongBeginning],
    ),
    (
        "INSERT INTO journal_events (tenant_id, run_id, seq, kind, payload, at)
         SELECT tenant_id, run_id, next_seq, 'run_teleported', '\\x00', 0 FROM runs WHERE run_id = ENDED;
         UPDATE runs SET next_seq = next_seq + 1 WHERE run_id = ENDED",
        &[FindingKind::EndsTwice],
    ),
    (
        "UPDATE journal_events SET payload = '{}' WHERE run_id = ENDED AND kind = 'step_completed' AND step_id = 3",
        &[FindingKind::Undecodable],
    ),
    (
        "UPDATE journal_events SET step_id = NULL WHERE run_id = ENDED AND kind = 'step_started' AND step_id = 4",
        &[FindingKind::AnsweredUndispatched, FindingKind::Unfoldable],
    ),
    (
        "UPDATE runs SET progress = jsonb_set(progress::jsonb, '{usage,modelCalls}', '99')::text WHERE run_id = OPEN",
        &[FindingKind::FoldDiffers],
    ),
    (
        "UPDATE journal_events SET step_id = 4 WHERE run_id = ENDED AND kind = 'step_started' AND step_id = 6",
        &[FindingKind::AnsweredUndispatched, FindingKind::DispatchedAfterAnswer],
    ),
    (
        "UPDATE journal_events SET attempt = 2 WHERE run_id = ENDED AND step_id = 4",
        &[FindingKind::WrongAttempt],
    ),
    ("DELETE FROM usage WHERE run_id = ENDED", &[FindingKind::UsageMissing]),
    (
        "INSERT INTO usage SELECT tenant_id, OPEN, day, agent, agent_version, model, status, model_calls, tool_calls, tokens_in,
             tokens_out, tokens_cached, tokens_reasoning, cost, cost_is_estimate, imported FROM usage WHERE run_id = ENDED",
        &[FindingKind::UsageTooMuch],
    ),
    (
        "UPDATE usage SET tokens_out = tokens_out + 1 WHERE run_id = ENDED",
        &[FindingKind::UsageDiffers],
    ),
    (
        "UPDATE runs SET settled = settled + 1 WHERE run_id = ENDED",
        &[FindingKind::SettledDiffers],
    ),
    (
        "UPDATE budget_scopes SET reserved = reserved + 1",
        &[FindingKind::ReservationDiffers],
    ),
    (
        "UPDATE runs SET wake_at = 1 WHERE run_id = ENDED",
        &[FindingKind::NotLetGo],
    ),
    (
        "UPDATE runs SET inbox_count = 1 WHERE run_id = OPEN",
        &[FindingKind::InboxDiffers],
    ),
    (
        "INSERT INTO idempotency_keys (tenant_id, key, fingerprint, run_id, expires_at)
         SELECT tenant_id, 'k', '\\x00', decode(repeat('00', 16), 'hex'), 9 FROM runs LIMIT 1",
        &[FindingKind::Stray],
    ),
    (
        "DELETE FROM blobs WHERE content = 'a note\n'",
        &[FindingKind::BlobMissing],
    ),
    (
        "UPDATE blobs SET content = 'another note\n' WHERE content = 'a note\n'",
        &[FindingKind::BlobDamaged],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_damage_is_found_on_postgres_and_nothing_else() {
    let left = Left::behind().await;
    let whole = verify(left.stage.path(), &["--database", &left.database]);
    let whole = whole.expect(0).json();
    assert_eq!(whole["findings"], Value::Array(Vec::new()));
    assert_eq!(whole["audited"]["ended"], 1);
    assert_eq!(whole["audited"]["budgets"], 1);
    let mut planted = BTreeSet::new();
    for (number, (sql, wanted)) in DAMAGE.iter().enumerate() {
        let database = left.copy(number);
        let sql = left.filled(sql);
        let touched = left.cluster.sql(&database, &format!("{sql} RETURNING 'planted'"));
        assert!(touched.contains("planted"), "nothing was planted: {sql}");
        let found = verify(left.stage.path(), &["--database", &database]).expect(1);
        assert_kinds(&found.json(), wanted, &sql);
        planted.extend(wanted.iter().copied());
    }
    let all: BTreeSet<FindingKind> = FindingKind::ALL.iter().copied().collect();
    assert_eq!(planted, all, "every kind of finding was planted");
}

#[test]
fn a_database_that_no_server_used_is_named_as_such() {
    let cluster = Cluster::start();
    let folder = crate::support::scratch();
    let ended = verify(folder.path(), &["--database", &cluster.database()]).expect(4);
    ended.says("the database is empty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_named_is_audited_though_a_database_is_configured() {
    let stage = Stage::set(&[]);
    let server: Daemon = stage.serve();
    let mut command = portolan(stage.path(), &["verify", "--json", "--data", "data"]);
    command.env("PORTOLAN_DATABASE", "postgres://nobody@127.0.0.1:1/none");
    let ended = crate::support::Ended::of(command).expect(0);
    assert_eq!(ended.json()["audited"]["runs"], 0);
    drop(server);
}
