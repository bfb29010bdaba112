//! Event streams: frames out of bytes, and a follower that takes up a cut stream where it was.

use super::Server;
use crate::failure::{Failure, OrFail as _};
use reqwest::Response;
use serde_json::Value;
use std::time::Duration;

/// The most that one event may weigh: a tool's output within, and room around it.
const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// Cut streams in a row without an event after which the follower gives up.
const MAX_CUTS: u32 = 30;
/// The pause before it comes back, unless the server asks for another, and the longest that it may ask for.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The server says something every 15 seconds: who hears nothing for so long talks to nobody.
const SILENCE: Duration = Duration::from_secs(45);

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventFrame {
    /// Its place in the journal.
    pub(crate) seq: u64,
    /// The event as the API shows it.
    pub(crate) event: Value,
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    buffer: Vec<u8>,
    searched: usize,
    /// The pause that the server asked for last.
    retry: Option<Duration>,
}

impl FrameReader {
    /// Takes bytes as they arrive.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.buffer.len() + bytes.len() > MAX_FRAME_BYTES {
            return Err(Failure::unavailable("an event of the stream is too large"));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// The next event that is complete; comments and hints are skipped.
    pub(crate) fn next(&mut self) -> Result<Option<EventFrame>, Failure> {
        loop {
            let start = self.searched.saturating_sub(1);
            let end = self.buffer[start..].windows(2).position(|pair| pair == b"\n\n");
            let Some(end) = end.map(|end| start + end) else {
                self.searched = self.buffer.len();
                return Ok(None);
            };
            let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
            self.searched = 0;
            if let Some(frame) = self.parse(&frame)? {
                return Ok(Some(frame));
            }
        }
    }

    fn parse(&mut self, frame: &[u8]) -> Result<Option<EventFrame>, Failure> {
        let text = std::str::from_utf8(frame).or_unavailable(|| "the event stream is no text".to_owned())?;
        let (mut id, mut data) = (None, String::new());
        for line in text.lines() {
            if let Some(value) = line.strip_prefix("id:") {
                id = value.trim().parse().ok();
            } else if let Some(value) = line.strip_prefix("retry:") {
                let asked = value.trim().parse().ok().map(Duration::from_millis);
                self.retry = asked.map(|pause| pause.min(LONGEST_PAUSE));
            } else if let Some(value) = line.strip_prefix("data:") {
                data.push_str(value.strip_prefix(' ').unwrap_or(value));
                data.push('\n');
            }
        }
        let (Some(seq), false) = (id, data.is_empty()) else {
            return Ok(None);
        };
        let event =
            serde_json::from_str(&data).or_unavailable(|| "an event of the stream is no JSON".to_owned())?;
        Ok(Some(EventFrame { seq, event }))
    }
}

/// Follows a run to its end, through restarts of the server.
#[derive(Debug)]
pub(crate) struct Follow<'a> {
    server: &'a Server,
    run: &'a str,
    after: u64,
    open: Option<(Response, FrameReader)>,
    cuts: u32,
    silence: Duration,
    ended: bool,
}

impl<'a> Follow<'a> {
    /// Follows strictly after a place.
    pub(crate) fn new(server: &'a Server, run: &'a str, after: u64) -> Self {
        Self {
            server,
            run,
            after,
            open: None,
            cuts: 0,
            silence: SILENCE,
            ended: false,
        }
    }

    /// The next event; `None` after the terminal one. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<EventFrame>, Failure> {
        while !self.ended {
            match self.advance().await {
                Ok(Some(frame)) => {
                    self.cuts = 0;
                    self.after = frame.seq;
                    self.ended = is_terminal(&frame.event);
                    return Ok(Some(frame));
                }
                // The stream was cut, or the server went away: come back, but not for ever.
                Ok(None) => {}
                Err(failure) if failure.exit() == crate::Exit::Unavailable && self.cuts < MAX_CUTS => {
                    let asked = self.open.take().and_then(|(_, reader)| reader.retry);
                    self.cuts += 1;
                    tokio::time::sleep(asked.unwrap_or(PAUSE)).await;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }

    async fn advance(&mut self) -> Result<Option<EventFrame>, Failure> {
        if self.open.is_none() {
            match self.server.stream(self.run, self.after).await? {
                Some(response) => self.open = Some((response, FrameReader::default())),
                None => {
                    self.ended = true;
                    return Ok(None);
                }
            }
        }
        let Some((response, reader)) = &mut self.open else {
            return Ok(None);
        };
        if let Some(frame) = reader.next()? {
            return Ok(Some(frame));
        }
        let Ok(chunk) = tokio::time::timeout(self.silence, response.chunk()).await else {
            return Err(Failure::unavailable("the event stream fell silent"));
        };
        match chunk.or_unavailable(|| "the event stream was cut".to_owned())? {
            Some(bytes) => reader.push(&bytes)?,
            None => return Err(Failure::unavailable("the event stream ended before its run")),
        }
        Ok(None)
    }
}

/// Whether a run ends with this event.
pub(crate) fn is_terminal(event: &Value) -> bool {
    portolan_core::event::is_terminal_kind(super::text(event, "kind"))
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    /// Answers a request on the next connection with a piece of a stream, and keeps it open.
    async fn answer(listener: &TcpListener, frames: &str) -> (String, tokio::net::TcpStream) {
        let (mut stream, _) = listener.accept().await.expect("loopback");
        let mut request = vec![0; 4096];
        let count = stream.read(&mut request).await.expect("a request");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let written = stream.write_all(format!("{head}{frames}").as_bytes()).await;
        written.expect("the client listens");
        (String::from_utf8_lossy(&request[..count]).into_owned(), stream)
    }

    #[tokio::test]
    async fn a_stream_that_falls_silent_is_left_and_taken_up_where_it_was() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let server = Server::at(&url, None).expect("a server");
        let mut follow = Follow::new(&server, "run_1", 0);
        follow.silence = Duration::from_millis(20);
        let serving = async {
            // The connection stays open, as that of a host that lost its power does.
            let one = "id: 1\ndata: {\"seq\":1,\"kind\":\"note\"}\n\nretry: 1\n\n";
            let (_, _silent) = answer(&listener, one).await;
            let (request, _open) = answer(&listener, "id: 2\ndata: {\"kind\":\"run_succeeded\"}\n\n").await;
            request
        };
        let following = async {
            let mut seen = Vec::new();
            while let Some(frame) = follow.next().await.expect("it comes back") {
                seen.push(frame.seq);
            }
            seen
        };
        let (request, seen) = tokio::join!(serving, following);
        assert_eq!(seen, [1, 2]);
        assert!(
            request.starts_with("GET /v1/runs/run_1/events?after=1 "),
            "{request}"
        );
    }

    #[test]
    fn the_pause_that_is_asked_for_is_kept_within_reason() {
        for (line, pause) in [
            ("retry: 700", Some(Duration::from_millis(700))),
            ("retry: 86400000", Some(LONGEST_PAUSE)),
            ("retry: soon", None),
        ] {
            let mut reader = FrameReader::default();
            reader
                .push(format!(": bye\n{line}\n\n").as_bytes())
                .expect("small");
            assert_eq!((reader.next().expect("valid"), reader.retry), (None, pause));
        }
    }

    #[test]
    fn frames_come_whole_wherever_the_bytes_are_cut() {
        let stream = b": hello\n\nid: 1\nevent: run_queued\ndata: {\"seq\":1,\"kind\":\"run_queued\"}\n\nretry: 1000\n\n\
                       id: 2\nevent: x\ndata: {\"seq\":2}\n\n";
        for cut in 0..stream.len() {
            let mut reader = FrameReader::default();
            let mut seqs = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                reader.push(part).expect("small");
                while let Some(frame) = reader.next().expect("valid") {
                    seqs.push(frame.seq);
                }
            }
            assert_eq!(seqs, [1, 2], "cut at {cut}");
        }
    }

    #[test]
    fn an_endless_frame_is_refused() {
        let mut reader = FrameReader::default();
        reader.push(&vec![b'x'; MAX_FRAME_BYTES]).expect("just fits");
        assert!(reader.push(b"x").is_err());
    }
}
