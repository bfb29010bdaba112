//! Events as JSON objects and as frames of a stream.

use bytes::Bytes;
use portolan_core::{
    entropy::Entropy,
    event::{KINDS, Recorded},
    ids::{IdempotencyKey, RunId},
};
use serde::{Serialize, de::IgnoredAny};
use std::io::Write as _;

/// The comment that keeps a silent stream open.
pub(crate) const HEARTBEAT: Bytes = Bytes::from_static(b": still here\n\n");

/// The pause that a client is asked for when its stream ends before its run, in milliseconds: the shortest, and how much
/// longer it may be. Thousands of clients whose server goes away do not all come back in the same moment.
const COME_AGAIN_MS: u64 = 500;
const SPREAD_MS: u64 = 1_500;

/// The last words of a stream that ends before its run: come again soon.
pub(crate) fn come_again(entropy: &dyn Entropy) -> Bytes {
    let mut random = [0; 8];
    entropy.fill(&mut random);
    let pause_ms = COME_AGAIN_MS + u64::from_le_bytes(random) % SPREAD_MS;
    format!(": the stream ends before its run\nretry: {pause_ms}\n\n").into()
}

/// The deepest that a payload of an unknown kind may nest and still be shown as JSON. What this build writes is flatter.
const MOST_NESTED: usize = 100;

/// Appends `{seq, kind, stepId?, attempt?, at, data}`.
pub(crate) fn push_object(run: RunId, event: &Recorded, out: &mut Vec<u8>) {
    let Recorded {
        seq,
        at,
        step,
        attempt,
        kind,
        payload,
    } = event;
    // Writing into memory cannot fail.
    let _ = write!(out, "{{\"seq\":{},\"kind\":", seq.0);
    push_json(kind, out);
    if let Some(step) = step {
        let _ = write!(out, ",\"stepId\":\"{step}\"");
    }
    if let Some(attempt) = attempt {
        let _ = write!(out, ",\"attempt\":{}", attempt.0);
    }
    let _ = write!(out, ",\"at\":\"{at}\",\"data\":");
    push_data(kind, payload, out);
    if let ("step_started", Some(step), Some(attempt)) = (kind.as_str(), step, attempt) {
        push_key(&IdempotencyKey::new(run, *step, *attempt), out);
    }
    out.push(b'}');
}

/// Adds the key of a dispatch to the object that was pushed last. The journal does not keep what run, step and attempt make.
fn push_key(key: &IdempotencyKey, out: &mut Vec<u8>) {
    let Some(fields) = out.strip_suffix(b"}") else {
        return;
    };
    // An object without fields names no step that was dispatched.
    if !fields.trim_ascii_end().ends_with(b"{") {
        out.pop();
        let _ = write!(out, ",\"idempotencyKey\":\"{key}\"}}");
    }
}

/// The payload on one line. What a later build wrote in a form that is no JSON that readers bear is shown as base64.
fn push_data(kind: &str, payload: &[u8], out: &mut Vec<u8>) {
    let ours = KINDS.contains(&kind);
    if !ours && !can_be_shown(payload) {
        use base64::Engine as _;
        out.extend_from_slice(b"{\"base64\":\"");
        let text = base64::engine::general_purpose::STANDARD.encode(payload);
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\"}");
        return;
    }
    // Between the tokens of JSON a line break is as good as a space; inside of strings there is none.
    let start = out.len();
    out.extend_from_slice(payload.trim_ascii());
    for byte in &mut out[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// Whether it is JSON that readers bear: many take no more than 128 levels, some of which are the event's.
fn can_be_shown(payload: &[u8]) -> bool {
    nesting(payload) <= MOST_NESTED && serde_json::from_slice::<IgnoredAny>(payload).is_ok()
}

/// How deep the lists and objects of a JSON text nest.
fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn push_json(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a string encodes");
}

/// One event as a frame of a stream: the sequence as its id, the kind as its event, the object as its data.
pub fn frame(run: RunId, event: &Recorded) -> Bytes {
    let mut out = Vec::with_capacity(event.payload.len() + 192);
    let decent = !event.kind.is_empty() && event.kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let name = if decent { event.kind.as_str() } else { "unknown" };
    let _ = write!(out, "id: {}\nevent: {name}\ndata: ", event.seq.0);
    push_object(run, event, &mut out);
    out.extend_from_slice(b"\n\n");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_core::{
        ids::{Attempt, Seq, StepId},
        time::Timestamp,
    };

    fn recorded(kind: &str, payload: &[u8]) -> Recorded {
        Recorded {
            seq: Seq(7),
            at: Timestamp::EPOCH,
            step: Some(StepId::llm(2)),
            attempt: Some(Attempt(1)),
            kind: kind.to_owned(),
            payload: payload.to_vec(),
        }
    }

    fn text(kind: &str, payload: &[u8]) -> String {
        String::from_utf8(frame(RunId::from_bytes([1; 16]), &recorded(kind, payload)).to_vec())
            .expect("UTF-8")
    }

    #[test]
    fn a_frame_has_one_line_of_each() {
        assert_eq!(
            text("step_completed", b"{\"output\":\"a\\nb\\u0000\"}"),
            "id: 7\nevent: step_completed\ndata: {\"seq\":7,\"kind\":\"step_completed\",\"stepId\":\"llm-2\",\"attempt\":1,\
             \"at\":\"1970-01-01T00:00:00.000Z\",\"data\":{\"output\":\"a\\nb\\u0000\"}}\n\n"
        );
    }

    #[test]
    fn a_dispatch_shows_the_key_that_was_sent() {
        let frame = text("step_started", b"{\"name\":\"m\"}");
        let data: serde_json::Value =
            serde_json::from_str(&frame[frame.find('{').expect("an object")..]).expect("JSON");
        let key = format!("run_{}:llm-2:1", "01".repeat(16));
        assert_eq!(
            data["data"],
            serde_json::json!({"name": "m", "idempotencyKey": key})
        );
    }

    #[test]
    fn no_payload_and_no_kind_splits_a_frame() {
        for (kind, payload) in [
            ("step_completed", &b"{\r\n \"output\":\n1}"[..]),
            ("run_teleported", b"\x00\xff\n\ndata: forged"),
            ("step_started", b"{}"),
            ("forged\n\nevent: run_succeeded", b"{}"),
        ] {
            let frame = text(kind, payload);
            let lines: Vec<&str> = frame.split('\n').collect();
            assert_eq!(lines.len(), 5, "{frame}");
            assert!(!frame.contains('\r'));
            let data = lines[2].strip_prefix("data: ").expect("the data line");
            assert!(serde_json::from_str::<serde_json::Value>(data).is_ok(), "{data}");
        }
    }
}
