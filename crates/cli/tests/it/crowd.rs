//! Readers of event streams over raw sockets, which know what any client knows and nothing else.
//!
//! A reader keeps the id of the last event that came whole, and resumes after it; it may be told to go away after any byte. It
//! judges what it sees: ids dense, the terminal event last, no event that differs from what another reader saw.

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
};

/// Takes as many descriptors as this process may have, and tells how many.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("a process may use what it was given");
    limit.maximum.unwrap_or(u64::MAX)
}

/// The monotonic clock that all processes of a machine share.
pub(crate) fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// Where a server is, and the key for it.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) socket: SocketAddr,
    pub(crate) key: String,
}

impl Address {
    pub(crate) fn new(url: &str, key: String) -> Self {
        let socket = url.trim_start_matches("http://").parse();
        Self {
            socket: socket.expect("a server says its address"),
            key,
        }
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The terminal event came, and the server closed.
    Complete,
    /// The server says that nothing comes after the last event.
    NothingMore,
    /// The reader went away.
    Left,
    /// The server went away or does not serve.
    Cut,
}

/// What all readers saw: the digest of each event, by run and place.
#[derive(Debug, Default)]
pub(crate) struct Witness(Mutex<HashMap<(String, u64), u64>>);

impl Witness {
    fn saw(&self, run: &str, seq: u64, digest: u64) -> Result<(), String> {
        let mut seen = self.0.lock().expect("no panic");
        let first = *seen.entry((run.to_owned(), seq)).or_insert(digest);
        if first == digest {
            Ok(())
        } else {
            Err(format!("event {seq} of {run} differs between two readers"))
        }
    }

    /// The last place of a run that anybody saw.
    pub(crate) fn last(&self, run: &str) -> u64 {
        let seen = self.0.lock().expect("no panic");
        let places = seen.keys().filter(|(of, _)| of == run).map(|(_, seq)| *seq);
        places.max().unwrap_or_default()
    }
}

/// One reader of one run.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) run: String,
    /// The last event that came whole.
    pub(crate) after: u64,
    pub(crate) ended: bool,
    pub(crate) connections: u32,
    /// How long the first event of the last connection took.
    pub(crate) first_event: Option<Duration>,
    /// The moment of each event, for whoever measures.
    pub(crate) arrivals: Option<Vec<(u64, Duration)>>,
    /// How far it is, for whoever waits for that.
    pub(crate) progress: Option<watch::Sender<u64>>,
    witness: Arc<Witness>,
}

impl Reader {
    pub(crate) fn new(run: &str, witness: &Arc<Witness>) -> Self {
        Self {
            run: run.to_owned(),
            after: 0,
            ended: false,
            connections: 0,
            first_event: None,
            arrivals: None,
            progress: None,
            witness: Arc::clone(witness),
        }
    }

    /// Reads one connection to its end, or so many bytes of the body and then goes away.
    ///
    /// What the server must not do is an error in words.
    pub(crate) async fn connect(&mut self, at: &Address, most: Option<usize>) -> Result<End, String> {
        self.connections += 1;
        self.first_event = None;
        let began = Instant::now();
        let Ok(mut stream) = TcpStream::connect(at.socket).await else {
            return Ok(End::Cut);
        };
        let head = format!(
            "GET /v1/runs/{}/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\
             Last-Event-ID: {}\r\n\r\n",
            self.run, at.key, self.after
        );
        if stream.write_all(head.as_bytes()).await.is_err() {
            return Ok(End::Cut);
        }
        let mut body = Body::default();
        let mut parser = Parser::default();
        let mut left = most.unwrap_or(usize::MAX);
        let mut buffer = [0; 2048];
        loop {
            let Ok(count @ 1..) = stream.read(&mut buffer).await else {
                return Ok(self.closed(&body));
            };
            body.take(&buffer[..count]);
            match body.status {
                None | Some(200) => {}
                Some(204) if self.ended => return Ok(End::NothingMore),
                Some(204) => return Err(format!("204 after event {} of {}", self.after, self.run)),
                // Not ready yet, or going away.
                Some(503) => return Ok(End::Cut),
                Some(other) => return Err(format!("status {other} for {} after {}", self.run, self.after)),
            }
            let bytes = std::mem::take(&mut body.content);
            let taken = &bytes[..bytes.len().min(left)];
            left -= taken.len();
            for byte in taken {
                if let Some(event) = parser.push(*byte) {
                    self.take(&event)?;
                    self.first_event.get_or_insert_with(|| began.elapsed());
                }
            }
            if left == 0 {
                return Ok(End::Left);
            }
            if body.is_complete {
                return Ok(self.closed(&body));
            }
        }
    }

    /// A server that dies before it answers says nothing about the run.
    fn closed(&self, body: &Body) -> End {
        if self.ended && body.status.is_some() {
            End::Complete
        } else {
            End::Cut
        }
    }

    fn take(&mut self, event: &Event) -> Result<(), String> {
        if self.ended {
            return Err(format!("event {} of {} comes after its end", event.id, self.run));
        }
        if event.id != self.after + 1 {
            return Err(format!(
                "event {} of {} comes after {}",
                event.id, self.run, self.after
            ));
        }
        self.witness.saw(&self.run, event.id, event.digest)?;
        self.after = event.id;
        self.ended = matches!(
            event.kind.as_str(),
            "run_succeeded" | "run_failed" | "run_cancelled"
        );
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push((event.id, monotonic()));
        }
        if let Some(progress) = &self.progress {
            progress.send_replace(self.after);
        }
        Ok(())
    }
}

/// An answer in chunks.
#[derive(Debug, Default)]
struct Body {
    status: Option<u16>,
    raw: Vec<u8>,
    /// What came of the content and was not taken yet.
    content: Vec<u8>,
    /// What is left of the chunk, with the line break behind it.
    chunk: usize,
    is_complete: bool,
}

impl Body {
    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        if self.status.is_none() {
            let Some(end) = self.raw.windows(4).position(|window| window == b"\r\n\r\n") else {
                return;
            };
            let head = String::from_utf8_lossy(&self.raw[..end]).into_owned();
            self.status = head.get(9..12).and_then(|code| code.parse().ok());
            self.raw.drain(..end + 4);
        }
        while !self.is_complete {
            if self.chunk == 0 {
                let Some(end) = self.raw.windows(2).position(|window| window == b"\r\n") else {
                    return;
                };
                let size = std::str::from_utf8(&self.raw[..end]).unwrap_or_default();
                let size = usize::from_str_radix(size, 16).unwrap_or_default();
                self.raw.drain(..end + 2);
                self.is_complete = size == 0;
                self.chunk = size + 2;
            }
            let now = self.raw.len().min(self.chunk);
            let of_content = now.min(self.chunk.saturating_sub(2));
            self.content.extend_from_slice(&self.raw[..of_content]);
            self.raw.drain(..now);
            self.chunk -= now;
            if self.chunk > 0 {
                return;
            }
        }
    }
}

#[derive(Debug)]
struct Event {
    id: u64,
    kind: String,
    digest: u64,
}

/// Cuts frames byte by byte, as the standard says: an event is there when its blank line is.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    id: Option<u64>,
    kind: String,
    data: Vec<u8>,
}

impl Parser {
    fn push(&mut self, byte: u8) -> Option<Event> {
        if byte != b'\n' {
            self.line.push(byte);
            return None;
        }
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            let kind = std::mem::take(&mut self.kind);
            let id = self.id.take()?;
            let mut hasher = DefaultHasher::new();
            data.hash(&mut hasher);
            return (!data.is_empty()).then(|| Event {
                id,
                kind,
                digest: hasher.finish(),
            });
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(id) = text.strip_prefix("id: ") {
            self.id = id.parse().ok();
        } else if let Some(kind) = text.strip_prefix("event: ") {
            kind.clone_into(&mut self.kind);
        } else if let Some(data) = text.strip_prefix("data: ") {
            self.data.extend_from_slice(data.as_bytes());
        }
        None
    }
}
