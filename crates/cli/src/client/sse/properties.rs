//! What the server frames is what the client reads, whatever the events hold and wherever the bytes are cut.

use super::{EventFrame, FrameReader};
use base64::Engine as _;
use portolan_control_plane::event_frame;
use portolan_core::{
    event::{KINDS, Recorded},
    ids::{Attempt, RunId, Seq, StepId},
    time::Timestamp,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// How deep the payload of an unknown kind may nest and still be shown as JSON.
const MOST_NESTED: usize = 100;

/// Text with everything in it that ends lines, begins fields or hides.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\r".to_owned()),
        Just("\n\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\0".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("\u{2028}".to_owned()),
        Just(": ".to_owned()),
        Just("data: x".to_owned()),
        Just("id: 1".to_owned()),
        Just(" ".to_owned()),
        ".{0,8}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// JSON as any writer may lay it out.
fn laid_out() -> impl Strategy<Value = Vec<u8>> {
    (tree(), any::<bool>(), 0..3_usize).prop_map(|(tree, pretty, breaks)| {
        let text = if pretty {
            serde_json::to_string_pretty(&tree).expect("JSON")
        } else {
            tree.to_string()
        };
        let around = ["", "\r\n", "\n\n \r"][breaks];
        format!("{around}{text}{around}").into_bytes()
    })
}

fn event() -> impl Strategy<Value = Recorded> {
    let nested = (0..200_usize).prop_map(|depth| [vec![b'['; depth], vec![b']'; depth]].concat());
    let empty = Just(b" {\r\n }\n".to_vec());
    let ours = (
        prop_oneof![Just("step_started"), prop::sample::select(KINDS)],
        prop_oneof![4 => laid_out(), 1 => empty],
    )
        .prop_map(|(kind, json)| (kind.to_owned(), json));
    let unknown = (
        text(),
        prop_oneof![
            laid_out(),
            prop::collection::vec(any::<u8>(), 0..64),
            text().prop_map(String::into_bytes),
            nested,
        ],
    );
    (
        prop_oneof![ours, unknown],
        prop::option::of(1..9_u32),
        -1_000_000_000_000_i64..4_000_000_000_000_000,
    )
        .prop_map(|((kind, payload), step, at)| Recorded {
            seq: Seq::ZERO,
            at: Timestamp(at),
            step: step.map(StepId::llm),
            attempt: step.map(Attempt),
            kind,
            payload,
        })
}

/// What the client is to see of an event.
fn shown(run: RunId, event: &Recorded) -> EventFrame {
    let known = KINDS.contains(&event.kind.as_str());
    let base64 = || json!({"base64": base64::engine::general_purpose::STANDARD.encode(&event.payload)});
    let parsed = serde_json::from_slice::<Value>(&event.payload).ok();
    let too_deep = event.payload.starts_with(&[b'['; MOST_NESTED + 1]);
    let mut data = parsed.filter(|_| known || !too_deep).unwrap_or_else(base64);
    let mut shown = json!({"seq": event.seq.0, "kind": event.kind});
    if let (Some(step), Some(attempt)) = (event.step, event.attempt) {
        shown["stepId"] = json!(step.to_string());
        shown["attempt"] = json!(attempt.0);
        if let ("step_started", Some(fields)) = (event.kind.as_str(), data.as_object_mut())
            && !fields.is_empty()
        {
            let key = format!("{run}:{step}:{}", attempt.0);
            fields.insert("idempotencyKey".to_owned(), json!(key));
        }
    }
    shown["at"] = json!(event.at.to_string());
    shown["data"] = data;
    EventFrame {
        seq: event.seq.0,
        event: shown,
    }
}

proptest! {
    // A failure prints its input; files beside the sources would be another thing to keep.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_is_read_as_it_was_written(
        events in prop::collection::vec(event(), 1..6),
        comments in prop::collection::vec(prop::sample::select(&[
            "", ": still here\n\n", ": bye\nretry: 1200\n\n", "\n", ":\n\n",
        ][..]), 6),
        pieces in prop::collection::vec(1..40_usize, 1..20),
    ) {
        let run = RunId::from_bytes([5; 16]);
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (seq, (mut event, comment)) in (1..).zip(events.into_iter().zip(&comments)) {
            event.seq = Seq(seq);
            bytes.extend_from_slice(comment.as_bytes());
            bytes.extend_from_slice(&event_frame(run, &event));
            expected.push(shown(run, &event));
        }
        let (mut reader, mut seen) = (FrameReader::default(), Vec::new());
        let mut rest = bytes.as_slice();
        for piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(*piece));
            reader.push(now).expect("small");
            while let Some(frame) = reader.next().expect("valid") {
                seen.push(frame);
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = FrameReader::default();
        reader.push(&bytes).expect("small");
        while let Ok(Some(_)) = reader.next() {}
    }
}
