//! The file form of a run: its journal with the files that it names, one JSON document a line.
//!
//! A header, the events in their order, the blobs, and a trailer with the number of lines and a digest over them, so that a file
//! that was cut or altered is noticed. Payloads stand there as they are kept, byte for byte: as JSON where they are JSON on one
//! line, else as base64. A later format has another number and is refused by name.

mod decode;

pub use decode::{Decoder, ExportFileError, Item};

use base64::Engine as _;
use portolan_core::{
    agent::AgentName,
    digest::{Chain, Digest},
    event::Recorded,
    ids::{Attempt, Epoch, RunId, StepId, TenantId},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// The number of the format that this build writes.
pub const FORMAT: u32 = 1;

/// The facts about a run that its journal does not hold, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The format.
    pub format: u32,
    /// The run.
    pub run_id: RunId,
    /// Its agent.
    pub agent_name: AgentName,
    /// The version of the agent.
    pub agent_version: u32,
    /// The definition of that version, if it is still kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
    /// The generation of its last owner.
    pub epoch: Epoch,
    /// Active time that it used, in milliseconds.
    pub active_ms: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// Events that follow.
    pub events: u64,
    /// Where it was exported.
    pub origin: Origin,
}

/// Where a file comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The tenant of the run there.
    pub tenant_id: TenantId,
    /// The build that wrote the file.
    pub build: String,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Header(Box<Header>),
    Event(EventLine),
    Blob(BlobLine),
    End(EndLine),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventLine {
    seq: u64,
    /// Microseconds since the Unix epoch.
    at: i64,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step_id: Option<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<Attempt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BlobLine {
    digest: Digest,
    base64: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct EndLine {
    lines: u64,
    digest: Digest,
}

fn chain() -> Chain {
    Chain::new("portolan run export")
}

/// Writes the lines of a file, each with its line break.
#[derive(Debug)]
pub struct Encoder {
    chain: Chain,
    lines: u64,
}

impl Encoder {
    /// Begins with the header.
    pub fn begin(header: Header) -> serde_json::Result<(Self, Vec<u8>)> {
        let mut encoder = Self {
            chain: chain(),
            lines: 0,
        };
        let line = encoder.line(&Line::Header(Box::new(header)))?;
        Ok((encoder, line))
    }

    /// An event.
    pub fn event(&mut self, record: &Recorded) -> serde_json::Result<Vec<u8>> {
        let data = on_one_line(&record.payload);
        let base64 = match &data {
            Some(_) => None,
            None => Some(base64::engine::general_purpose::STANDARD.encode(&record.payload)),
        };
        self.line(&Line::Event(EventLine {
            seq: record.seq.0,
            at: record.at.0,
            kind: record.kind.clone(),
            step_id: record.step,
            attempt: record.attempt,
            data,
            base64,
        }))
    }

    /// A file or a manifest.
    pub fn blob(&mut self, digest: Digest, content: &[u8]) -> serde_json::Result<Vec<u8>> {
        let base64 = base64::engine::general_purpose::STANDARD.encode(content);
        self.line(&Line::Blob(BlobLine { digest, base64 }))
    }

    /// The trailer.
    pub fn end(mut self) -> serde_json::Result<Vec<u8>> {
        let end = EndLine {
            lines: self.lines,
            digest: self.chain.digest(),
        };
        self.line(&Line::End(end))
    }

    fn line(&mut self, line: &Line) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(line)?;
        self.chain.part(&line);
        self.lines += 1;
        line.push(b'\n');
        Ok(line)
    }
}

/// A payload that survives as JSON within a line, byte for byte.
fn on_one_line(payload: &[u8]) -> Option<Box<RawValue>> {
    if payload.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return None;
    }
    let raw: Box<RawValue> = serde_json::from_slice(payload).ok()?;
    // `null` would be read back as no payload at all.
    (raw.get().as_bytes() == payload && payload != b"null").then_some(raw)
}
