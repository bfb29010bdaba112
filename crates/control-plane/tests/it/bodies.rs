//! Bad and odd bodies of `POST /v1/runs`, row by row of the table of inputs.

use crate::support::World;
use axum::body::{Body, Bytes};
use http::StatusCode;
use serde_json::json;

fn wrapped(input: &str) -> Vec<u8> {
    format!(r#"{{"agentName":"echo","input":{input}}}"#).into_bytes()
}

fn bytes(parts: [&[u8]; 3]) -> Vec<u8> {
    parts.concat()
}

/// Row, body, status, code.
type Row = (&'static str, Vec<u8>, u16, &'static str);

fn syntax_rows() -> Vec<Row> {
    let utf16: Vec<u8> =
        r#"{"agentName":"echo","input":1}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let open = br#"{"agentName":"echo","input":""#;
    vec![
        ("2: empty", Vec::new(), 400, "json_syntax"),
        ("3: truncated", b"{".to_vec(), 400, "json_syntax"),
        (
            "4: trailing garbage",
            [wrapped("1"), b"x".to_vec()].concat(),
            400,
            "json_syntax",
        ),
        (
            "4: a second value",
            [wrapped("1"), wrapped("1")].concat(),
            400,
            "json_syntax",
        ),
        ("6: comment", b"/* hi */ {}".to_vec(), 400, "json_syntax"),
        (
            "6: trailing comma",
            br#"{"agentName":"echo","input":1,}"#.to_vec(),
            400,
            "json_syntax",
        ),
        (
            "6: single quotes",
            b"{'agentName':'echo','input':1}".to_vec(),
            400,
            "json_syntax",
        ),
        (
            "7: byte order mark",
            [b"\xef\xbb\xbf".to_vec(), wrapped("1")].concat(),
            400,
            "json_syntax",
        ),
        ("8: UTF-16", utf16.clone(), 400, "json_syntax"),
        (
            "8: UTF-16 with its mark",
            [b"\xff\xfe".to_vec(), utf16].concat(),
            400,
            "invalid_utf8",
        ),
        (
            "9: invalid UTF-8",
            bytes([open, b"\xff", b"\"}"]),
            400,
            "invalid_utf8",
        ),
        (
            "10: overlong",
            bytes([open, b"\xc0\xaf", b"\"}"]),
            400,
            "invalid_utf8",
        ),
        (
            "10: surrogate in UTF-8",
            bytes([open, b"\xed\xa0\x80", b"\"}"]),
            400,
            "invalid_utf8",
        ),
        (
            "11: lone surrogate",
            wrapped(r#""\ud800""#),
            400,
            "lone_surrogate",
        ),
        ("12: raw NUL", bytes([open, b"\0", b"\"}"]), 400, "json_syntax"),
        (
            "15: duplicate key",
            br#"{"agentName":"echo","agentName":"echo","input":1}"#.to_vec(),
            400,
            "duplicate_key",
        ),
        (
            "16: nested duplicate key",
            wrapped(r#"{"a":[{"b":1,"b":2}]}"#),
            400,
            "duplicate_key",
        ),
        (
            "18: depth 65",
            wrapped(&format!("{}{}", "[".repeat(64), "]".repeat(64))),
            400,
            "too_deep",
        ),
        (
            "19: depth 100,000",
            wrapped(&"[".repeat(100_000)),
            400,
            "too_deep",
        ),
        ("39: NaN", wrapped("NaN"), 400, "json_syntax"),
        ("39: Infinity", wrapped("-Infinity"), 400, "json_syntax"),
        ("40: 1e400", wrapped("1e400"), 400, "number_out_of_range"),
    ]
}

fn field_rows() -> Vec<Row> {
    let with = |member: &str| format!(r#"{{"agentName":"echo","input":"x",{member}}}"#).into_bytes();
    let named = |name: &str| format!(r#"{{"agentName":{name},"input":1}}"#).into_bytes();
    let mut rows: Vec<Row> = vec![
        ("5: array", b"[]".to_vec(), 422, "invalid_field"),
        (
            "5: array in the order of the fields",
            br#"["echo",1,{},{},{},[]]"#.to_vec(),
            422,
            "invalid_field",
        ),
        ("5: string", br#""echo""#.to_vec(), 422, "invalid_field"),
        ("5: null", b"null".to_vec(), 422, "invalid_field"),
        (
            "14: NUL in agentName",
            named(r#""ec\u0000ho""#),
            422,
            "invalid_field",
        ),
        (
            "17: unknown field",
            with(r#""agent_name":1"#),
            422,
            "unknown_field",
        ),
        (
            "32: agentName missing",
            br#"{"input":1}"#.to_vec(),
            422,
            "invalid_field",
        ),
        (
            "32: input missing",
            br#"{"agentName":"echo"}"#.to_vec(),
            422,
            "invalid_field",
        ),
        (
            "34: another normal form",
            named("\"cafe\u{301}\""),
            404,
            "agent_not_found",
        ),
        ("35: unknown agent", named(r#""nobody""#), 404, "agent_not_found"),
        (
            "41: ten years",
            with(r#""limits":{"wallTimeMs":315360000000}"#),
            422,
            "out_of_range",
        ),
        ("tags", with(r#""tags":["a\u0000"]"#), 422, "invalid_field"),
        (
            "too many tags",
            with(&format!(r#""tags":{}"#, json!(vec!["t"; 33]))),
            422,
            "invalid_field",
        ),
        (
            "metadata of another type",
            with(r#""metadata":{"a":1}"#),
            422,
            "invalid_field",
        ),
        ("null for a list", with(r#""tags":null"#), 422, "invalid_field"),
        (
            "files without a workspace",
            with(r#""files":{"a":"b"}"#),
            422,
            "no_workspace",
        ),
        (
            "a looser limit",
            with(r#""limits":{"modelCalls":1000}"#),
            422,
            "looser_than_agent",
        ),
        (
            "unknown field of a file",
            with(r#""files":{"a":{"base64":"","x":1}}"#),
            422,
            "invalid_field",
        ),
    ];
    for name in ["null", "\"\"", "5", "[]"] {
        rows.push(("32: agentName of another type", named(name), 422, "invalid_field"));
    }
    let long = format!("\"{}\"", "a".repeat(257));
    for name in [
        long.as_str(),
        "\"a/b\"",
        "\"..\"",
        "\"a\\u0007\"",
        "\"a\u{202e}b\"",
    ] {
        rows.push(("33: agentName", named(name), 422, "invalid_field"));
    }
    for value in [
        "-1",
        "0",
        "9223372036854775808",
        "1e3",
        "1.5",
        "\"8\"",
        "true",
        "null",
    ] {
        let body = with(&format!(r#""limits":{{"modelCalls":{value}}}"#));
        rows.push((
            "37: modelCalls",
            body,
            422,
            if value == "0" {
                "out_of_range"
            } else {
                "invalid_field"
            },
        ));
    }
    for value in ["-1", "\"2m\""] {
        rows.push((
            "41: wallTimeMs",
            with(&format!(r#""limits":{{"wallTimeMs":{value}}}"#)),
            422,
            "invalid_field",
        ));
    }
    rows.push((
        "41: wallTimeMs 0",
        with(r#""limits":{"wallTimeMs":0}"#),
        422,
        "out_of_range",
    ));
    for value in ["\"0.0000000001\"", "\"-1\"", "\"-0\"", "0.5"] {
        rows.push((
            "42: maxCostUsd",
            with(&format!(r#""limits":{{"maxCostUsd":{value}}}"#)),
            422,
            "invalid_field",
        ));
    }
    rows
}

#[tokio::test]
async fn what_is_no_run_is_refused_by_name_and_nothing_is_made() {
    let world = World::idle().await;
    for (row, body, status, code) in syntax_rows().into_iter().chain(field_rows()) {
        let answer = world.post("/v1/runs", body).await;
        let (got, problem_code) = answer.code();
        assert_eq!(got, status, "{row}: {}", String::from_utf8_lossy(&answer.body));
        if status == 422 {
            let first = &answer.json()["errors"][0];
            assert_eq!(first["code"], code, "{row}");
            assert!(first["pointer"].is_string(), "{row}: {first}");
        } else {
            assert_eq!(problem_code, code, "{row}");
        }
    }
    assert_eq!(world.runs_of(world.tenant).await, 0);
}

#[tokio::test]
async fn a_fault_names_its_field() {
    let world = World::idle().await;
    for (body, pointer) in [
        (r#"{"input":1}"#, "/agentName"),
        (
            r#"{"agentName":"echo","input":1,"limits":{"modelCalls":null}}"#,
            "/limits/modelCalls",
        ),
        (r#"{"agentName":"echo","input":1,"tags":["a",5]}"#, "/tags/1"),
        (
            r#"{"agentName":"echo","input":1,"metadata":{"a/b":1}}"#,
            "/metadata/a~1b",
        ),
        (r#"{"agentName":"echo","input":1,"nope":1}"#, "/nope"),
        (
            r#"{"agentName":"echo","input":1,"limits":{"nope":1}}"#,
            "/limits/nope",
        ),
    ] {
        let answer = world.post("/v1/runs", body).await;
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{body}");
    }
}

#[tokio::test]
async fn what_is_odd_but_right_is_accepted() {
    let world = World::idle().await;
    for (row, body) in [
        ("1: minimal", wrapped("\"x\"")),
        ("13: escaped NUL", wrapped(r#""a\u0000b""#)),
        (
            "18: depth 64",
            wrapped(&format!(
                "{{\"task\":\"x\",\"d\":{}{}}}",
                "[".repeat(62),
                "]".repeat(62)
            )),
        ),
        (
            "38: no tools",
            br#"{"agentName":"echo","input":"x","limits":{"toolCalls":0}}"#.to_vec(),
        ),
        (
            "whitespace",
            b"\n\t {\r\"agentName\" : \"echo\" , \"input\" : \"x\" } \n".to_vec(),
        ),
    ] {
        let answer = world.post("/v1/runs", body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{row}: {answer:?}");
        let run = &answer.json()["run"];
        assert_eq!(run["status"], "queued", "{row}");
        let location = format!("/v1/runs/{}", run["id"].as_str().expect("an id"));
        assert_eq!(answer.header("location"), Some(location.as_str()), "{row}");
        assert_eq!(
            world.get(&location).await.json()["run"]["input"],
            run["input"],
            "{row}"
        );
    }
}

#[tokio::test]
async fn sizes_are_bounded_at_the_byte() {
    let world = World::idle().await;
    let of_size = |size: usize| {
        let frame = wrapped("\"\"").len();
        wrapped(&format!("\"{}\"", "x".repeat(size - frame)))
    };
    let limit = 1024 * 1024;
    assert_eq!(of_size(limit).len(), limit);
    assert_eq!(
        world.post("/v1/runs", of_size(limit)).await.status,
        StatusCode::CREATED,
        "row 20"
    );
    let over = world.post("/v1/runs", of_size(limit + 1)).await;
    assert_eq!(over.code(), (413, "body_too_large".to_owned()), "row 20");
    assert_eq!(over.header("connection"), Some("close"));

    let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4096])));
    let answer = world.post("/v1/runs", Body::from_stream(endless)).await;
    assert_eq!(answer.code(), (413, "body_too_large".to_owned()), "row 22");

    let declared = world
        .request("POST", "/v1/runs")
        .header("content-type", "application/json")
        .header("content-length", "10000000000")
        .body(Body::from_stream(futures::stream::pending::<
            Result<Bytes, std::io::Error>,
        >()));
    let answer = world.send(declared.expect("a request")).await;
    assert_eq!(answer.code(), (413, "body_too_large".to_owned()), "row 21");
}

#[tokio::test]
async fn a_body_that_does_not_come_times_out() {
    let world = World::idle().await;
    let body = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let answer = world.post("/v1/runs", body).await;
    assert_eq!(answer.code(), (408, "body_timeout".to_owned()), "row 23");
    assert_eq!(answer.header("connection"), Some("close"), "row 23");
}

#[tokio::test]
async fn media_types_are_judged_before_the_body() {
    let world = World::idle().await;
    for (row, types, encoding, status) in [
        ("26", vec![], None, 415),
        ("27", vec!["text/plain"], None, 415),
        ("27", vec!["application/x-www-form-urlencoded"], None, 415),
        ("27", vec!["multipart/form-data; boundary=x"], None, 415),
        ("28", vec!["application/json; charset=utf-8"], None, 201),
        ("29", vec!["application/json; charset=latin1"], None, 415),
        ("30", vec!["application/json"], Some("gzip"), 415),
        ("two", vec!["application/json", "application/json"], None, 415),
        ("identity", vec!["application/json"], Some("identity"), 201),
    ] {
        let mut request = world.request("POST", "/v1/runs");
        for media in types {
            request = request.header("content-type", media);
        }
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        let answer = world
            .send(request.body(Body::from(wrapped("\"x\""))).expect("a request"))
            .await;
        assert_eq!(answer.status.as_u16(), status, "row {row}");
        if status == 415 {
            assert_eq!(answer.code().1, "unsupported_media_type", "row {row}");
        }
    }
    // The type is judged before the syntax, and the size too.
    let request = world
        .request("POST", "/v1/runs")
        .header("content-type", "text/plain");
    let answer = world
        .send(request.body(Body::from("{")).expect("a request"))
        .await;
    assert_eq!(answer.status.as_u16(), 415);
}

#[tokio::test]
async fn a_price_that_is_not_known_refuses_a_hard_bound() {
    let world = World::idle().await;
    let body = json!({"agentName": "echo", "input": "x", "limits": {"maxCostUsd": "0.50"}});
    let answer = world.post("/v1/runs", body.to_string()).await;
    assert_eq!(answer.code(), (422, "price_unknown".to_owned()));
    world.agent("priced", json!({"model": "fake/priced"})).await;
    let body = json!({"agentName": "priced", "input": "x", "limits": {"maxCostUsd": "0.50"}});
    let answer = world.post("/v1/runs", body.to_string()).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(answer.json()["run"]["limits"]["maxCostUsd"], "0.5");
}

#[tokio::test]
async fn an_input_must_fit_the_schema_of_its_agent() {
    let world = World::idle().await;
    let schema = json!({"type": "object", "required": ["task"], "properties": {"n": {"type": "integer"}}});
    world
        .agent("typed", json!({"model": "fake/echo", "inputSchema": schema}))
        .await;
    let post = async |input: serde_json::Value| {
        let body = json!({"agentName": "typed", "input": input});
        world.post("/v1/runs", body.to_string()).await
    };
    let answer = post(json!({"task": "x", "n": "1"})).await;
    assert_eq!(answer.code(), (422, "invalid_field".to_owned()));
    assert_eq!(answer.json()["errors"][0]["pointer"], "/input/n");
    assert_eq!(
        post(json!({"task": "x", "n": 1})).await.status,
        StatusCode::CREATED
    );
}
