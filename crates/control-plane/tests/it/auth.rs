//! Keys, scopes and tenants.

use crate::support::{Answer, HASH_KEY, World, config};
use axum::body::Body;
use http::Request;
use portolan_control_plane::{ApiConfig, HashKey, Secret, bootstrap};
use portolan_core::{
    key::Scope,
    time::{Clock, Timestamp},
};
use portolan_engine::ambient::OsEntropy;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

async fn with_headers(world: &World, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "portolan.test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world
        .send(request.body(Body::from("{")).expect("a request"))
        .await
}

/// An answer without what differs between any two requests.
fn comparable(answer: &Answer) -> (u16, Vec<(String, String)>, Value) {
    let mut headers: Vec<(String, String)> = answer
        .headers
        .iter()
        .filter(|(name, _)| *name != "x-request-id")
        .map(|(name, value)| (name.to_string(), format!("{value:?}")))
        .collect();
    headers.sort();
    let mut body = answer.json();
    if let Some(members) = body.as_object_mut() {
        members.remove("requestId");
    }
    (answer.status.as_u16(), headers, body)
}

fn hash_of(key: &str) -> [u8; 32] {
    Secret::parse(key).expect("a key").hash(&HashKey::new(HASH_KEY))
}

#[tokio::test]
async fn rows_45_to_47_nobody_is_told_what_is_wrong_with_a_key() {
    let world = World::idle().await;
    let (expired, revoked) = (
        world.make_key(world.tenant, [Scope::Admin]),
        world.make_key(world.tenant, [Scope::Admin]),
    );
    world
        .keys
        .change(&hash_of(&expired), |key| key.expires_at = Some(Timestamp(1)));
    world.keys.revoke(&hash_of(&revoked));
    let long = format!("Bearer pk_{}", "a".repeat(4_096));
    let values = [
        None,
        Some("Basic YTpi".to_owned()),
        Some("Bearer".to_owned()),
        Some("Bearer ".to_owned()),
        Some(format!("Token {}", world.key)),
        Some("Bearer sk_abc".to_owned()),
        Some("Bearer pk_unknown".to_owned()),
        Some(format!("Bearer {expired}")),
        Some(format!("Bearer {revoked}")),
        Some(long),
    ];
    let mut seen = None;
    for value in &values {
        let headers: Vec<(&str, &str)> = value
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        // The body is no JSON: it is not looked at.
        let answer = with_headers(&world, "POST", "/v1/runs", &headers).await;
        assert_eq!(answer.code(), (401, "unauthenticated".to_owned()), "{value:?}");
        assert_eq!(
            answer.header("www-authenticate"),
            Some("Bearer realm=\"portolan\"")
        );
        let now = comparable(&answer);
        assert_eq!(seen.get_or_insert_with(|| now.clone()), &now, "{value:?}");
    }
}

#[tokio::test]
async fn rows_50_and_51_a_key_comes_in_one_header() {
    let world = World::idle().await;
    let path = format!("/v1/runs?api_key={0}&access_token={0}", world.key);
    assert_eq!(
        with_headers(&world, "GET", &path, &[]).await.status.as_u16(),
        401,
        "row 50"
    );
    let key = format!("Bearer {}", world.key);
    let twice = [("authorization", key.as_str()), ("authorization", key.as_str())];
    let answer = with_headers(&world, "GET", "/v1/runs", &twice).await;
    assert_eq!(answer.code(), (400, "bad_request".to_owned()), "row 51");
    let lower = [("authorization", format!("bearer {}", world.key))];
    let lower: Vec<(&str, &str)> = lower
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    assert_eq!(
        with_headers(&world, "GET", "/v1/runs", &lower)
            .await
            .status
            .as_u16(),
        200
    );
}

#[tokio::test]
async fn rows_48_and_49_a_scope_is_judged_before_anything_exists() {
    let mut world = World::idle().await;
    let run = world.queued().await;
    let invented = "run_00000000000000000000000000000000";
    let real = run.run.to_string();
    let routes: Vec<(&str, String, Scope)> = [real.as_str(), invented]
        .iter()
        .flat_map(|id| {
            [
                ("POST", "/v1/runs".to_owned(), Scope::RunsExecute),
                ("POST", format!("/v1/runs/{id}/cancel"), Scope::RunsExecute),
                ("GET", "/v1/runs".to_owned(), Scope::RunsRead),
                ("GET", format!("/v1/runs/{id}"), Scope::RunsRead),
                ("GET", format!("/v1/runs/{id}/events"), Scope::RunsRead),
                ("GET", format!("/v1/runs/{id}/steps"), Scope::RunsRead),
                ("GET", format!("/v1/runs/{id}/trace"), Scope::RunsRead),
                ("GET", format!("/v1/runs/{id}/artifacts"), Scope::RunsRead),
                ("GET", format!("/v1/runs/{id}/artifacts/a/b"), Scope::RunsRead),
                ("GET", "/v1/agents".to_owned(), Scope::AgentsRead),
                ("GET", "/v1/agents/echo".to_owned(), Scope::AgentsRead),
                ("GET", "/v1/agents/nobody".to_owned(), Scope::AgentsRead),
                ("GET", "/v1/agents/echo/versions/1".to_owned(), Scope::AgentsRead),
                ("PUT", "/v1/agents/echo".to_owned(), Scope::AgentsWrite),
                ("DELETE", "/v1/agents/echo".to_owned(), Scope::AgentsWrite),
                ("DELETE", "/v1/agents/nobody".to_owned(), Scope::AgentsWrite),
            ]
        })
        .collect();
    for (method, path, scope) in routes {
        let others: Vec<Scope> = crate::support::ALL
            .into_iter()
            .filter(|other| *other != scope)
            .collect();
        world.key = world.make_key(
            world.tenant,
            <[Scope; 3]>::try_from(others).expect("three are left"),
        );
        // No body and no content type: neither is looked at.
        let answer = world
            .send(
                world
                    .request(method, &path)
                    .body(Body::empty())
                    .expect("a request"),
            )
            .await;
        assert_eq!(
            answer.code(),
            (403, "scope_missing".to_owned()),
            "{method} {path}"
        );
        let detail = answer.json()["detail"].as_str().expect("a detail").to_owned();
        assert!(detail.contains(scope.name()), "{detail}");
    }
    assert!(world.journal_has_no_command(run).await);
}

impl World {
    async fn journal_has_no_command(&self, run: portolan_journal::RunRef) -> bool {
        use portolan_journal::JournalStore;
        self.journal.inbox(run).await.expect("memory works").is_empty()
    }
}

#[tokio::test]
async fn rows_36_52_and_53_the_object_of_another_tenant_never_existed() {
    let mut world = World::idle().await;
    let theirs = world.queued().await;
    world.succeed(theirs).await;
    let foreign = theirs.run.to_string();
    let invented = foreign.replace(&foreign[30..], "000000");
    assert_ne!(foreign, invented);
    world.key = world.other_key.clone();
    for (method, path) in [
        ("GET", "/v1/runs/ID"),
        ("GET", "/v1/runs/ID?waitMs=10"),
        ("GET", "/v1/runs/ID/events"),
        ("GET", "/v1/runs/ID/events?after=1"),
        ("GET", "/v1/runs/ID/steps"),
        ("GET", "/v1/runs/ID/trace"),
        ("GET", "/v1/runs/ID/artifacts"),
        ("GET", "/v1/runs/ID/artifacts/a"),
        ("POST", "/v1/runs/ID/cancel"),
    ] {
        let ask = async |id: &str| {
            let request = world.request(method, &path.replace("ID", id)).body(Body::empty());
            let mut answer = world.send(request.expect("a request")).await;
            answer.body = String::from_utf8(answer.body)
                .expect("UTF-8")
                .replace(id, "ID")
                .into_bytes();
            comparable(&answer)
        };
        let (of_foreign, of_invented) = (ask(&foreign).await, ask(&invented).await);
        assert_eq!(of_foreign, of_invented, "{method} {path}");
        assert_eq!(of_foreign.0, 404, "{method} {path}");
    }
    let run = async |name: &str| {
        let body = json!({"agentName": name, "input": "x"}).to_string();
        comparable(&world.post("/v1/runs", body).await)
    };
    assert_eq!(run("echo").await, run("nobody").await, "row 36");
    assert_eq!(run("echo").await.0, 404);
    assert_eq!(world.get("/v1/runs").await.json()["data"], json!([]));
    assert_eq!(world.get("/v1/agents").await.json()["data"], json!([]));
}

#[tokio::test]
async fn a_key_is_looked_up_once_for_many_requests_and_its_end_is_noticed() {
    let config = ApiConfig {
        key_ttl_ms: 60_000,
        ..config()
    };
    let world = World::idle_with(config).await;
    for _ in 0..20 {
        assert_eq!(world.get("/v1/runs").await.status.as_u16(), 200);
    }
    assert_eq!(world.keys.look_ups.load(Ordering::SeqCst), 1);

    let config = ApiConfig {
        key_ttl_ms: 0,
        ..crate::support::config()
    };
    let world = World::idle_with(config).await;
    assert_eq!(world.get("/v1/runs").await.status.as_u16(), 200);
    world.keys.revoke(&hash_of(&world.key));
    assert_eq!(world.get("/v1/runs").await.status.as_u16(), 401);
}

#[tokio::test]
async fn an_expiry_bites_although_the_key_is_remembered() {
    let config = ApiConfig {
        key_ttl_ms: 60_000,
        ..config()
    };
    let world = World::idle_with(config).await;
    let end = world.clock.now().plus_ms(10_000);
    world
        .keys
        .change(&hash_of(&world.key), |key| key.expires_at = Some(end));
    assert_eq!(world.get("/v1/runs").await.status.as_u16(), 200);
    world.clock.advance_ms(10_000);
    assert_eq!(world.get("/v1/runs").await.status.as_u16(), 401);
    assert_eq!(world.keys.look_ups.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_admin_key_has_every_scope_and_acts_in_its_own_tenant_only() {
    let mut world = World::idle().await;
    let limited = world.key.clone();
    world.key = world.make_key(world.tenant, [Scope::Admin]);
    world.queued().await;
    assert_eq!(world.get("/v1/agents").await.status.as_u16(), 200);
    let named = async |world: &World, tenant: String| {
        let request = world
            .request("GET", "/v1/runs")
            .header("x-portolan-tenant", tenant);
        world
            .send(request.body(Body::empty()).expect("a request"))
            .await
            .status
            .as_u16()
    };
    assert_eq!(named(&world, world.tenant.to_string()).await, 200);
    assert_eq!(named(&world, world.other_tenant.to_string()).await, 404);
    world.key = limited;
    assert_eq!(named(&world, world.other_tenant.to_string()).await, 403);
}

#[tokio::test]
async fn the_first_start_makes_one_admin_key() {
    let world = World::idle().await;
    let keys = crate::support::stores::FakeKeys::default();
    let (hash_key, at) = (HashKey::new(HASH_KEY), world.clock.now());
    let make = || bootstrap::admin_key(&keys, &hash_key, &OsEntropy, at);
    let secret = make().await.expect("works").expect("the store is empty");
    let mut stored = None;
    keys.change(&secret.hash(&hash_key), |key| stored = Some(key.clone()));
    let stored = stored.expect("the key is kept under its digest");
    assert!(stored.scopes.contains(&Scope::Admin));
    assert!(!format!("{stored:?}{secret:?}").contains(secret.reveal()));
    assert!(
        make().await.expect("works").is_none(),
        "the second start makes none"
    );
}
