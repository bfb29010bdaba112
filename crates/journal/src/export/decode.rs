//! Reads the file form of a run, and believes nothing of it before it was compared.

use super::{BlobLine, EndLine, EventLine, FORMAT, Header, Line, chain};
use base64::Engine as _;
use portolan_core::{
    digest::{Chain, Digest},
    event::Recorded,
    ids::Seq,
    time::Timestamp,
};
use serde::Deserialize;
use std::io::{self, BufRead, Read as _};

/// The longest line: the largest file of a workspace as base64, with room.
const LONGEST_LINE: u64 = 512 << 20;

/// Why a file is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ExportFileError {
    /// It cannot be read.
    #[error("the file cannot be read")]
    Read(#[source] io::Error),
    /// It is something else.
    #[error("the file is no export of a run")]
    Foreign,
    /// A later build wrote it.
    #[error("the file has format {found}, and this build reads format {FORMAT}")]
    Format {
        /// Its format.
        found: u32,
    },
    /// A part is missing.
    #[error("the file ends after line {lines}, without its trailer: it was cut")]
    Truncated {
        /// Lines that are there.
        lines: u64,
    },
    /// A part was altered.
    #[error("line {line} is damaged: {why}")]
    Damaged {
        /// Which.
        line: u64,
        /// What is wrong.
        why: String,
    },
}

/// What stands between header and trailer.
#[derive(Debug)]
pub enum Item {
    /// An event.
    Event(Recorded),
    /// A file or a manifest, compared with its digest.
    Blob(Digest, Vec<u8>),
}

/// Reads a file line by line.
#[derive(Debug)]
pub struct Decoder<R> {
    input: R,
    chain: Chain,
    lines: u64,
    events: u64,
    header: Header,
    is_over: bool,
}

impl<R: BufRead> Decoder<R> {
    /// Reads the header.
    pub fn open(mut input: R) -> Result<Self, ExportFileError> {
        #[derive(Deserialize)]
        struct Probe {
            header: Numbered,
        }
        #[derive(Deserialize)]
        struct Numbered {
            format: u32,
        }
        let line = line(&mut input, 1)?.ok_or(ExportFileError::Foreign)?;
        // The number first: what else a later format has is not ours to judge.
        let probe: Probe = serde_json::from_slice(&line).map_err(|_| ExportFileError::Foreign)?;
        if probe.header.format != FORMAT {
            return Err(ExportFileError::Format {
                found: probe.header.format,
            });
        }
        let Ok(Line::Header(header)) = serde_json::from_slice(&line) else {
            return Err(damaged(1, "it is no header"));
        };
        let mut chain = chain();
        chain.part(&line);
        Ok(Self {
            input,
            chain,
            lines: 1,
            events: 0,
            header: *header,
            is_over: false,
        })
    }

    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The next event or blob; `None` once the trailer was compared and nothing follows it.
    pub fn next_item(&mut self) -> Result<Option<Item>, ExportFileError> {
        if self.is_over {
            return Ok(None);
        }
        let number = self.lines + 1;
        let truncated = ExportFileError::Truncated { lines: self.lines };
        let bytes = line(&mut self.input, number)?.ok_or(truncated)?;
        let read: Result<Line, _> = serde_json::from_slice(&bytes);
        let item = match read.map_err(|error| damaged(number, error.to_string()))? {
            Line::Header(_) => return Err(damaged(number, "it is a second header")),
            Line::Event(event) => {
                self.events += 1;
                Item::Event(recorded(event).map_err(|why| damaged(number, why))?)
            }
            Line::Blob(blob) => content(&blob).map_err(|why| damaged(number, why))?,
            Line::End(end) => return self.end(&end).map(|()| None),
        };
        self.chain.part(&bytes);
        self.lines = number;
        Ok(Some(item))
    }

    fn end(&mut self, end: &EndLine) -> Result<(), ExportFileError> {
        let number = self.lines + 1;
        if (end.lines, end.digest) != (self.lines, self.chain.digest()) {
            return Err(damaged(number, "the lines above are not those that were written"));
        }
        if self.events != self.header.events {
            let why = format!("{} events stand where {} belong", self.events, self.header.events);
            return Err(damaged(number, why));
        }
        if line(&mut self.input, number + 1)?.is_some() {
            return Err(damaged(number + 1, "it follows the trailer"));
        }
        self.is_over = true;
        Ok(())
    }
}

fn damaged(line: u64, why: impl Into<String>) -> ExportFileError {
    let why = why.into();
    ExportFileError::Damaged { line, why }
}

/// A line without its break; `None` at the end of the file. One that lacks its break was cut.
fn line(input: &mut impl BufRead, number: u64) -> Result<Option<Vec<u8>>, ExportFileError> {
    let mut line = Vec::new();
    let mut bounded = input.take(LONGEST_LINE);
    bounded
        .read_until(b'\n', &mut line)
        .map_err(ExportFileError::Read)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 >= LONGEST_LINE - 1 => Err(damaged(number, "it is too long")),
        Some(_) => Err(ExportFileError::Truncated { lines: number - 1 }),
    }
}

fn recorded(line: EventLine) -> Result<Recorded, String> {
    let payload = match (line.data, line.base64) {
        (Some(data), None) => data.get().as_bytes().to_vec(),
        (None, Some(text)) => bytes(&text)?,
        (Some(_), Some(_)) | (None, None) => return Err("an event has one payload".to_owned()),
    };
    Ok(Recorded {
        seq: Seq(line.seq),
        at: Timestamp(line.at),
        step: line.step_id,
        attempt: line.attempt,
        kind: line.kind,
        payload,
    })
}

fn content(line: &BlobLine) -> Result<Item, String> {
    let content = bytes(&line.base64)?;
    if Digest::of(&content) == line.digest {
        Ok(Item::Blob(line.digest, content))
    } else {
        Err("the content is not that of the digest".to_owned())
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(text);
    decoded.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};
    use portolan_core::ids::{Epoch, RunId, StepId, TenantId};

    fn header(events: u64) -> Header {
        Header {
            format: FORMAT,
            run_id: RunId::from_bytes([1; 16]),
            agent_name: "fixer".parse().expect("a name"),
            agent_version: 2,
            definition: None,
            epoch: Epoch(3),
            active_ms: 4,
            ended: true,
            events,
            origin: Origin {
                tenant_id: TenantId::from_bytes([2; 16]),
                build: "1".to_owned(),
            },
        }
    }

    const PAYLOADS: [&[u8]; 7] = [
        b"{\"a\" : [1,  2.50] }",
        b"{\"a\":\n1}",
        b" {}",
        b"null",
        b"\x00\xff",
        b"",
        "{\"é\":\"\\u0000\"}".as_bytes(),
    ];

    fn records() -> Vec<Recorded> {
        let records = PAYLOADS.iter().zip(1..).map(|(payload, seq)| Recorded {
            seq: Seq(seq),
            at: Timestamp(1_234_567_891 + i64::from(seq == 2)),
            step: (seq == 3).then(|| StepId::llm(1)),
            attempt: (seq == 3).then_some(portolan_core::ids::Attempt(2)),
            kind: "run_teleported".to_owned(),
            payload: payload.to_vec(),
        });
        records.collect()
    }

    fn file() -> Vec<u8> {
        let (mut encoder, mut file) = Encoder::begin(header(PAYLOADS.len() as u64)).expect("encodes");
        for record in records() {
            file.extend(encoder.event(&record).expect("encodes"));
        }
        file.extend(encoder.blob(Digest::of(b"x"), b"x").expect("encodes"));
        file.extend(encoder.end().expect("encodes"));
        file
    }

    fn read(file: &[u8]) -> Result<(Vec<Recorded>, usize), ExportFileError> {
        let mut decoder = Decoder::open(file)?;
        let (mut records, mut blobs) = (Vec::new(), 0);
        while let Some(item) = decoder.next_item()? {
            match item {
                Item::Event(record) => records.push(record),
                Item::Blob(..) => blobs += 1,
            }
        }
        Ok((records, blobs))
    }

    #[test]
    fn payloads_survive_byte_for_byte() {
        let (read, blobs) = read(&file()).expect("whole");
        assert_eq!(blobs, 1);
        assert_eq!(format!("{read:?}"), format!("{:?}", records()));
    }

    #[test]
    fn a_file_that_was_cut_anywhere_is_refused() {
        let file = file();
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "cut after {length} bytes");
        }
    }

    #[test]
    fn a_file_with_another_byte_anywhere_is_refused() {
        let file = file();
        for place in 0..file.len() {
            let mut altered = file.clone();
            altered[place] ^= 1;
            assert!(read(&altered).is_err(), "another byte at {place}");
        }
    }

    #[test]
    fn a_later_format_and_something_else_are_refused_by_name() {
        let later = br#"{"header":{"format":2,"more":1}}"#;
        let mut later = later.to_vec();
        later.push(b'\n');
        assert!(matches!(read(&later), Err(ExportFileError::Format { found: 2 })));
        assert!(matches!(read(b"{}\n"), Err(ExportFileError::Foreign)));
        assert!(matches!(read(b""), Err(ExportFileError::Foreign)));
    }
}
