//! The replay: equal for whatever the engine wrote, and a difference at the right place for whatever was altered since.

use super::world::{RUN, Script, Setup, World};
use portolan_core::{event::Recorded, ids::Seq, model::ModelFailure};
use portolan_engine::{Difference, replay};
use portolan_journal::{
    Command, JournalStore as _,
    audit::blobs_of,
    export::{Decoder, Encoder, FORMAT, Header, Item, Origin},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path};

fn number() -> Value {
    json!({"resultSchema": {"type": "integer"}, "instructions": ["Be brief."]})
}

/// Runs of all kinds, each driven as far as it goes.
async fn runs() -> Vec<(&'static str, World)> {
    let mut runs = Vec::new();
    let mut add = |name, world| runs.push((name, world));

    let world = corrected().await;
    add("corrected", world);

    let script = vec![
        Script::Fail(ModelFailure::Overloaded, None),
        Script::Fail(ModelFailure::InDoubt, None),
        Script::Final(json!("ok")),
    ];
    let world = Setup::new(script).admitted().await;
    world.drive_through_time(1).await;
    add("retried", world);

    let script = vec![
        Script::Call("nobody", json!({"n": 1})),
        Script::Hang,
        Script::Final(json!("ok")),
    ];
    let mut setup = Setup::new(script);
    setup.honours_keys = false;
    let world = setup.admitted().await;
    world.drive_and_die(1).await;
    add("in doubt", world);

    let script = vec![
        Script::Call("nobody", json!({"n": 1})),
        Script::Hang,
        Script::Final(json!("ok")),
    ];
    let mut setup = Setup::new(script);
    setup.honours_keys = false;
    let world = setup.admitted().await;
    world.drive_and_die(1).await;
    world.drive(2).await;
    add("recovered", world);

    let script = vec![Script::Call("hang", json!({})), Script::Final(json!("ok"))];
    let world = Setup::new(script).admitted().await;
    world.drive_and_die(1).await;
    world.drive(2).await;
    add("a tool in doubt", world);

    let world = Setup::new(vec![Script::Hang]).admitted().await;
    world.drive_and_die(1).await;
    let at = world.clock_now();
    world
        .journal
        .command(RUN, Command::Cancel, at)
        .await
        .expect("is taken");
    world.drive(2).await;
    add("cancelled in doubt", world);

    let world = Setup::new(Vec::new()).admitted().await;
    let at = world.clock_now();
    world
        .journal
        .command(RUN, Command::Cancel, at)
        .await
        .expect("is taken");
    world.drive(1).await;
    add("cancelled at once", world);

    let script = vec![
        Script::Final(json!("no")),
        Script::Final(json!("no")),
        Script::Final(json!("no")),
    ];
    let world = Setup::new(script).with(number()).admitted().await;
    world.drive(1).await;
    add("no valid result", world);

    let script = vec![Script::Call("nobody", json!({})); 40];
    let members = json!({"limits": {"modelCalls": 3}});
    let world = Setup::new(script).with(members).admitted().await;
    world.drive(1).await;
    add("out of calls", world);

    let world = Setup::new(vec![Script::Fail(ModelFailure::Refused, None)])
        .admitted()
        .await;
    world.drive(1).await;
    add("refused", world);

    let world = Setup::new(vec![Script::Hang]).admitted().await;
    for owner in 1..8 {
        if world.row().await.progress.status.is_terminal() {
            break;
        }
        world.drive_and_die_or_end(owner).await;
    }
    add("quarantined", world);

    let script = vec![
        Script::Call(
            "editor",
            json!({"operation": "write", "path": "a.txt", "content": "one\n"}),
        ),
        Script::Final(json!("ok")),
    ];
    let members = json!({"tools": ["editor"], "workspace": {"kind": "directory"}});
    let world = Setup::new(script).with(members).admitted().await;
    world.drive(1).await;
    add("files", world);

    runs
}

/// A run whose first result is refused, with a tool call before it.
async fn corrected() -> World {
    let script = vec![
        Script::Call("nobody", json!({"n": 1})),
        Script::Final(json!("not a number")),
        Script::Final(json!(7)),
    ];
    let world = Setup::new(script).with(number()).admitted().await;
    world.drive(1).await;
    world
}

#[tokio::test]
async fn what_the_engine_wrote_is_equal() {
    for (name, world) in runs().await {
        let records = world.records().await;
        let kinds: Vec<&str> = records.iter().map(|record| record.kind.as_str()).collect();
        let replayed = replay(&records);
        assert_eq!(replayed.difference, None, "{name}: {kinds:?}");
        assert_eq!(replayed.ended, name != "in doubt", "{name}: {kinds:?}");
        assert_eq!(replayed.events, records.len() as u64, "{name}");
    }
}

#[tokio::test]
async fn every_beginning_of_a_journal_is_equal() {
    for (name, world) in runs().await {
        let records = world.records().await;
        for length in 1..records.len() {
            let replayed = replay(&records[..length]);
            assert_eq!(replayed.difference, None, "{name} up to {length}");
            assert!(!replayed.ended, "{name} up to {length}");
        }
    }
}

/// The place and the name of the difference, after a change.
async fn changed(change: impl FnOnce(&mut Vec<Recorded>)) -> (u64, &'static str) {
    let mut records = corrected().await.records().await;
    change(&mut records);
    let difference = replay(&records).difference;
    let Difference { seq, kind } = difference.expect("the change is noticed");
    (seq.0, kind.name())
}

fn nth<'a>(records: &'a mut [Recorded], kind: &str, number: usize) -> &'a mut Recorded {
    let found = records
        .iter_mut()
        .filter(|record| record.kind == kind)
        .nth(number);
    found.expect("such an event")
}

fn swap_text(record: &mut Recorded, from: &str, to: &str) {
    let text = String::from_utf8(record.payload.clone()).expect("text");
    assert!(text.contains(from), "{from} is not in {text}");
    record.payload = text.replace(from, to).into_bytes();
}

fn swap_places(records: &mut [Recorded], a: usize, b: usize) {
    records.swap(a, b);
    for (place, record) in (1..).zip(records.iter_mut()) {
        record.seq = Seq(place);
    }
}

/// 1 queued, 2 started, 3 llm-1, 4 its answer, 5 llm-2, 6 its answer, 7 the refusal, 8 llm-3, 9 its answer, 10 the end.
#[tokio::test]
async fn the_journal_that_is_altered_below_looks_like_this() {
    let kinds = corrected().await.kinds().await;
    let wanted = [
        "run_queued",
        "run_started",
        "step_started",
        "step_completed",
        "step_started",
        "step_completed",
        "result_rejected",
        "step_started",
        "step_completed",
        "run_succeeded",
    ];
    assert_eq!(kinds, wanted);
}

#[tokio::test]
async fn an_altered_instruction_is_found_at_the_first_request() {
    let found = changed(|records| swap_text(nth(records, "run_started", 0), "Be brief.", "Be broad.")).await;
    assert_eq!(found, (3, "request"));
}

#[tokio::test]
async fn an_altered_answer_is_found_at_the_next_request() {
    let found = changed(|records| swap_text(nth(records, "step_completed", 0), "\"n\":1", "\"n\":2")).await;
    assert_eq!(found, (5, "request"));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_found_where_it_stands() {
    let found = changed(|records| swap_text(nth(records, "step_completed", 1), "final", "fatal")).await;
    assert_eq!(found, (6, "unreadable"));
}

#[tokio::test]
async fn a_gap_is_found_behind_it() {
    let found = changed(|records| drop(records.remove(4))).await;
    assert_eq!(found, (6, "not_dense"));
}

#[tokio::test]
async fn lines_out_of_order_are_found_at_the_first_of_them() {
    let found = changed(|records| records.swap(4, 5)).await;
    assert_eq!(found, (6, "not_dense"));
}

#[tokio::test]
async fn an_answer_before_its_intent_is_found_there() {
    let found = changed(|records| swap_places(records, 4, 5)).await;
    assert_eq!(found, (5, "order"));
}

#[tokio::test]
async fn a_refusal_behind_the_next_intent_is_found_there() {
    let found = changed(|records| swap_places(records, 6, 7)).await;
    assert_eq!(found, (7, "rejection"));
}

#[tokio::test]
async fn an_altered_refusal_is_found_where_it_stands() {
    let found = changed(|records| swap_text(nth(records, "result_rejected", 0), "integer", "string")).await;
    assert_eq!(found, (7, "rejection"));
}

#[tokio::test]
async fn an_altered_step_is_found_where_it_stands() {
    let found = changed(|records| {
        for record in &mut records[7..9] {
            record.step = Some("llm-4".parse().expect("a step"));
        }
    })
    .await;
    assert_eq!(found, (8, "step"));
}

#[tokio::test]
async fn an_altered_attempt_is_found_where_it_stands() {
    let found = changed(|records| records[4].attempt = Some(portolan_core::ids::Attempt(2))).await;
    assert_eq!(found, (5, "attempt"));
}

#[tokio::test]
async fn an_altered_result_is_found_at_the_end() {
    let found = changed(|records| swap_text(nth(records, "run_succeeded", 0), "7", "8")).await;
    assert_eq!(found, (10, "terminal"));
}

#[tokio::test]
async fn another_end_is_found_at_the_end() {
    let found = changed(|records| {
        let end = nth(records, "run_succeeded", 0);
        end.kind = "run_failed".to_owned();
        end.payload = br#"{"error":{"kind":"provider","message":"no"}}"#.to_vec();
    })
    .await;
    assert_eq!(found, (10, "terminal"));
}

#[tokio::test]
async fn an_end_that_comes_too_early_is_found_there() {
    let found = changed(|records| {
        let end = records.pop().expect("an end");
        records.truncate(4);
        records.push(Recorded { seq: Seq(5), ..end });
    })
    .await;
    assert_eq!(found, (5, "terminal"));
}

/// Where journals of this build and of earlier ones are kept, as `portolan export` writes them.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/journals");

/// A run as a file.
async fn file(world: &World) -> Vec<u8> {
    let (row, records) = (world.row().await, world.records().await);
    let header = Header {
        format: FORMAT,
        run_id: RUN.run,
        agent_name: row.agent,
        agent_version: row.agent_version,
        definition: None,
        epoch: row.epoch,
        active_ms: row.active_ms,
        ended: row.progress.status.is_terminal(),
        events: row.last_seq.0,
        origin: Origin {
            tenant_id: RUN.tenant,
            build: env!("CARGO_PKG_VERSION").to_owned(),
        },
    };
    let (mut encoder, mut file) = Encoder::begin(header).expect("encodes");
    for record in &records {
        file.extend(encoder.event(record).expect("encodes"));
    }
    for digest in records.iter().flat_map(blobs_of).collect::<BTreeSet<_>>() {
        let content = world.deps.blobs.get(digest).await.expect("kept");
        file.extend(encoder.blob(digest, &content).expect("encodes"));
    }
    file.extend(encoder.end().expect("encodes"));
    file
}

/// Every release adds the journals that it writes (`UPDATE=1`) and changes none of those that are there: a run that was begun by
/// an earlier build is taken up by this one.
#[tokio::test]
async fn the_journals_of_all_builds_replay_equal() {
    if std::env::var_os("UPDATE").is_some() {
        for (name, world) in runs().await {
            let name = format!("{}-{}.jsonl", env!("CARGO_PKG_VERSION"), name.replace(' ', "-"));
            let path = Path::new(CORPUS).join(name);
            if !path.exists() {
                fs::write(path, file(&world).await).expect("written");
            }
        }
    }
    let mut count = 0;
    for entry in fs::read_dir(CORPUS).expect("the corpus is there") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let kept = fs::read(&path).expect("readable");
        let mut decoder = Decoder::open(&kept[..]).expect("an export");
        let mut records = Vec::new();
        while let Some(item) = decoder.next_item().expect("whole") {
            if let Item::Event(record) = item {
                records.push(record);
            }
        }
        let replayed = replay(&records);
        assert_eq!(replayed.difference, None, "{}", path.display());
        assert_eq!(replayed.ended, decoder.header().ended, "{}", path.display());
        count += 1;
    }
    assert!(count >= 12, "only {count} journals");
}
