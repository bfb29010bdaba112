//! The schema of both stores, from the command line.

use crate::support::{run, scratch};
use portolan_testkit::postgres::Cluster;
use serde_json::{Value, json};

#[test]
fn a_data_directory_is_brought_up_to_date_once() {
    let directory = scratch();
    let migrate = |more: &[&str]| {
        let mut arguments = vec!["migrate", "--data", "data", "--json"];
        arguments.extend(more);
        run(directory.path(), &arguments).expect(0).json()
    };
    let all = json!(["V1__initial", "V2__imports"]);
    assert_eq!(
        migrate(&["--dry-run"]),
        json!({ "store": "data", "pending": all })
    );
    assert!(!directory.path().join("data").exists(), "a look makes nothing");
    assert_eq!(migrate(&[]), json!({ "store": "data", "applied": all }));
    assert_eq!(migrate(&["--dry-run"]), json!({ "store": "data", "pending": [] }));
    assert_eq!(migrate(&[]), json!({ "store": "data", "applied": [] }));
}

#[test]
fn a_shared_database_is_brought_up_to_date_once_and_the_doctor_sees_it() {
    let cluster = Cluster::start();
    let database = cluster.database();
    let directory = scratch();
    let ask = |command: &str, more: &[&str], code: i32| {
        let mut arguments = vec![command, "--database", &database, "--json"];
        arguments.extend(more);
        run(directory.path(), &arguments).expect(code).json()
    };
    let finding = |document: &Value, check: &str| -> Value {
        let findings = document["findings"].as_array().expect("a list");
        let found = findings.iter().find(|finding| finding["check"] == check);
        found
            .unwrap_or_else(|| panic!("no {check} in {document}"))
            .clone()
    };
    let doctor = ["--listen", "127.0.0.1:0", "--data", "data"];
    let seen = ask("doctor", &doctor, 0);
    assert_eq!(finding(&seen, "schema")["detail"], "the first start will make it");
    let all = json!(["V1__initial", "V2__blobs", "V3__imports"]);
    assert_eq!(ask("migrate", &["--dry-run"], 0)["pending"], all);
    assert_eq!(ask("migrate", &[], 0)["applied"], all);
    assert_eq!(ask("migrate", &[], 0)["applied"], json!([]));
    assert_eq!(
        finding(&ask("doctor", &doctor, 0), "schema")["detail"],
        "version 3"
    );

    cluster.sql(&database, "ALTER DATABASE test0 SET synchronous_commit = off");
    let seen = finding(&ask("doctor", &doctor, 1), "database");
    assert_eq!(seen["verdict"], "fail");
    let detail = seen["detail"].as_str().expect("text");
    assert!(detail.contains("synchronous_commit is off"), "{detail}");
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "data",
        "--database",
        &database,
    ];
    run(directory.path(), &serve)
        .expect(4)
        .says("--allow-unsafe-database");
}
