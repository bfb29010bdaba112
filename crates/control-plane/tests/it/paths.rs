//! Paths, methods, queries and heads.

use crate::support::World;
use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::json;

#[tokio::test]
async fn row_54_an_id_that_is_none_is_one_that_never_existed() {
    let world = World::idle().await;
    let long = "a".repeat(10_000);
    for id in [
        "x",
        long.as_str(),
        "%00",
        "%2e%2e%2f",
        "RUN_00000000000000000000000000000000",
        "run_0%20",
    ] {
        for suffix in ["", "/events", "/steps", "/artifacts"] {
            let answer = world.get(&format!("/v1/runs/{id}{suffix}")).await;
            assert_eq!(
                answer.code(),
                (404, "run_not_found".to_owned()),
                "{id:.20}{suffix}"
            );
        }
    }
    for id in ["%", "%2", "%zz", "%ff", "%c3%28"] {
        let answer = world.get(&format!("/v1/runs/{id}")).await;
        assert_eq!(answer.code(), (400, "bad_request".to_owned()), "{id}");
    }
}

#[tokio::test]
async fn rows_55_and_56_pages_have_bounds_and_cursors_have_owners() {
    let mut world = World::idle().await;
    for _ in 0..3 {
        world.queued().await;
    }
    for limit in ["0", "-1", "1000000000", "abc", "", "201", "1.0"] {
        let answer = world.get(&format!("/v1/runs?limit={limit}")).await;
        assert_eq!(answer.code(), (400, "bad_query".to_owned()), "{limit}");
    }
    let first = world.get("/v1/runs?limit=2").await.json();
    assert_eq!(first["hasMore"], true);
    let cursor = first["nextCursor"].as_str().expect("a cursor").to_owned();
    let second = world
        .get(&format!("/v1/runs?limit=2&cursor={cursor}"))
        .await
        .json();
    assert_eq!(
        (&second["hasMore"], &second["nextCursor"]),
        (&json!(false), &json!(null))
    );
    let ids: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page["data"].as_array().expect("a list"))
        .map(|run| run["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids.len(), 3);
    assert!(
        ids.windows(2).all(|pair| pair[0] > pair[1]),
        "newest first: {ids:?}"
    );

    let tampered = format!("{}A{}", &cursor[..3], &cursor[4..]);
    for bad in [tampered.as_str(), "", "abc", "e30", &cursor[..10]] {
        let answer = world.get(&format!("/v1/runs?cursor={bad}")).await;
        assert_eq!(answer.code(), (400, "bad_cursor".to_owned()), "{bad}");
    }
    let answer = world.get(&format!("/v1/agents?cursor={cursor}")).await;
    assert_eq!(answer.code().1, "bad_cursor");
    world.key = world.other_key.clone();
    let answer = world.get(&format!("/v1/runs?cursor={cursor}")).await;
    assert_eq!(answer.code(), (400, "bad_cursor".to_owned()), "row 55");
}

#[tokio::test]
async fn rows_57_and_58_methods_are_those_of_the_path() {
    let world = World::idle().await;
    let run = world.queued().await.run;
    for method in ["PUT", "PATCH", "DELETE", "TRACE", "BREW"] {
        let answer = world
            .send(
                world
                    .request(method, "/v1/runs")
                    .body(Body::empty())
                    .expect("a request"),
            )
            .await;
        assert_eq!(answer.code(), (405, "method_not_allowed".to_owned()), "{method}");
        let allow = answer.header("allow").expect("Allow");
        assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    }
    for path in [
        "/v1/runs".to_owned(),
        format!("/v1/runs/{run}"),
        "/healthz".to_owned(),
    ] {
        let head = world
            .send(
                world
                    .request("HEAD", &path)
                    .body(Body::empty())
                    .expect("a request"),
            )
            .await;
        assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0), "{path}");
        // Without a key, as browsers ask.
        let options = Request::builder()
            .method("OPTIONS")
            .uri(&path)
            .header("host", "portolan.test");
        let answer = world.send(options.body(Body::empty()).expect("a request")).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{path}");
        assert!(answer.header("allow").expect("Allow").contains("GET"), "{path}");
    }
}

#[tokio::test]
async fn row_59_paths_are_exact() {
    let world = World::idle().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/runs/",
        "/v1//runs",
        "//v1/runs",
        "/V1/runs",
        "/v1/Runs",
        "/v1/agents/",
        "/v2/runs",
        "/v1/budgets",
        "/v1/usage",
        "/metrics",
        "/console/",
        "/mcp",
        "/v1/runs/x/fork",
        "/v1/runs/x/artifacts/",
    ] {
        for key in [true, false] {
            let mut request = world.request("GET", path);
            if !key {
                request = Request::builder().uri(path).header("host", "portolan.test");
            }
            let answer = world.send(request.body(Body::empty()).expect("a request")).await;
            assert_eq!(
                answer.code(),
                (404, "unknown_path".to_owned()),
                "{path}, key: {key}"
            );
        }
    }
}

#[tokio::test]
async fn row_60_heads_are_bounded() {
    let world = World::idle().await;
    let answer = world.get(&format!("/v1/runs?tag={}", "a".repeat(20_000))).await;
    assert_eq!(answer.code(), (414, "uri_too_long".to_owned()));
    let request = world
        .request("GET", "/v1/runs")
        .header("x-long", "a".repeat(40_000));
    let answer = world.send(request.body(Body::empty()).expect("a request")).await;
    assert_eq!(answer.code(), (431, "headers_too_large".to_owned()));
    let mut request = world.request("GET", "/v1/runs");
    for number in 0..120 {
        request = request.header(format!("x-{number}"), "a");
    }
    let answer = world.send(request.body(Body::empty()).expect("a request")).await;
    assert_eq!(answer.code(), (431, "headers_too_large".to_owned()));
}

#[tokio::test]
async fn row_86_the_host_is_one_and_this_is_no_proxy() {
    let world = World::idle().await;
    let key = format!("Bearer {}", world.key);
    let ask = async |target: &str, hosts: &[&str]| {
        let mut request = Request::builder().uri(target).header("authorization", &key);
        for host in hosts {
            request = request.header("host", *host);
        }
        world
            .send(request.body(Body::empty()).expect("a request"))
            .await
            .status
            .as_u16()
    };
    assert_eq!(ask("/v1/runs", &[]).await, 400);
    assert_eq!(ask("/v1/runs", &["a", "a"]).await, 400);
    assert_eq!(
        ask("http://elsewhere.test/v1/runs", &["portolan.test"]).await,
        400
    );
    assert_eq!(ask("http://portolan.test/v1/runs", &["Portolan.test"]).await, 200);
    let connect = Request::builder()
        .method("CONNECT")
        .uri("elsewhere.test:443")
        .header("host", "elsewhere.test:443");
    let answer = world.send(connect.body(Body::empty()).expect("a request")).await;
    assert_eq!(answer.status.as_u16(), 405);
}

#[tokio::test]
async fn request_ids_are_the_clients_or_fresh() {
    let world = World::idle().await;
    let ask = async |id: Option<&[u8]>| {
        let mut request = world.request("GET", "/v1/runs/nope");
        if let Some(id) = id {
            request = request.header("x-request-id", id);
        }
        let answer = world.send(request.body(Body::empty()).expect("a request")).await;
        answer.code();
        assert_eq!(answer.json()["instance"], "/v1/runs/nope");
        answer.header("x-request-id").expect("an id").to_owned()
    };
    assert_eq!(ask(Some(b"trace-1:a/b_c.d")).await, "trace-1:a/b_c.d");
    let long = "x".repeat(129);
    for bad in [&b"a b"[..], b"", b"\xff", b"<script>", long.as_bytes()] {
        let fresh = ask(Some(bad)).await;
        assert!(fresh.starts_with("req_") && fresh.len() == 36, "{fresh}");
    }
    assert_ne!(ask(None).await, ask(None).await);
}

#[tokio::test]
async fn what_a_query_does_not_know_is_refused() {
    let world = World::idle().await;
    let run = world.queued().await.run;
    for path in [
        "/v1/runs?state=failed".to_owned(),
        "/v1/runs?status=done".to_owned(),
        "/v1/runs?status=failed&status=queued".to_owned(),
        "/v1/runs?since=yesterday".to_owned(),
        "/v1/runs?until=2026-01-01".to_owned(),
        "/v1/runs?tag=".to_owned(),
        "/v1/runs?tag=%00".to_owned(),
        "/v1/runs?agentName=a%2Fb".to_owned(),
        format!("/v1/runs/{run}?wait=1"),
        format!("/v1/runs/{run}/events?deltas=maybe"),
        "/v1/agents?name=x".to_owned(),
    ] {
        assert_eq!(
            world.get(&path).await.code(),
            (400, "bad_query".to_owned()),
            "{path}"
        );
    }
}
