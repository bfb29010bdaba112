//! A reader of one run: a stream that is cut at random, by this reader or by trouble, and resumed at any server.

use super::{
    fleet::Fleet,
    history::{History, Seen, Stream},
};
use crate::random::Random;
use portolan_core::digest::Digest;
use std::{sync::Arc, time::Duration};

/// Connections that a reader makes at most. More means that it does not get on.
const MOST_CONNECTIONS: u32 = 10_000;

/// How a connection ended.
enum Cut {
    /// The run has ended, and so has the stream.
    End,
    /// Come again.
    Again,
    /// The server is not to be had now.
    Away,
}

/// Follows a run to its end.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) fleet: Arc<Fleet>,
    pub(super) http: reqwest::Client,
    pub(super) key: String,
    pub(super) random: Random,
    pub(super) history: History,
}

impl Reader {
    /// Reads until the stream has ended, and enters what it saw. True if it got there.
    pub(super) async fn follow(&self, run: &str) -> bool {
        let mut stream = Stream {
            run: run.to_owned(),
            ..Stream::default()
        };
        while !stream.ended && stream.connections < MOST_CONNECTIONS {
            let Some(url) = self.fleet.url(self.random.index(self.fleet.len())) else {
                pause().await;
                continue;
            };
            stream.connections += 1;
            // Most connections end early, after so many events.
            let patience = match self.random.percent(70) {
                true => self.random.within(0..6),
                false => u64::MAX,
            };
            match self.connect(&url, &mut stream, patience).await {
                Cut::End => stream.ended = true,
                Cut::Again => {}
                Cut::Away => pause().await,
            }
        }
        let ended = stream.ended;
        self.history.stream(stream);
        ended
    }

    async fn connect(&self, url: &str, stream: &mut Stream, patience: u64) -> Cut {
        let mut request = self
            .http
            .get(format!("{url}/v1/runs/{}/events", stream.run))
            .bearer_auth(&self.key)
            .header("accept", "text/event-stream");
        if let Some(last) = stream.events.last() {
            request = request.header("last-event-id", last.seq);
        }
        let Ok(mut response) = request.send().await else {
            return Cut::Away;
        };
        match response.status().as_u16() {
            200 => {}
            204 => return Cut::End,
            503 | 429 => return Cut::Away,
            status => {
                let body = response.text().await.unwrap_or_default();
                self.history.surprise(format!(
                    "a stream of {} was answered {status}: {body}",
                    stream.run
                ));
                return Cut::Away;
            }
        }
        let (mut text, mut seen) = (Vec::new(), 0);
        while seen < patience {
            let Ok(Some(chunk)) = response.chunk().await else {
                break;
            };
            text.extend_from_slice(&chunk);
            while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                let frame: Vec<u8> = text.drain(..end + 2).collect();
                if let Some(event) = parse(&frame) {
                    let is_last = is_terminal(&event.kind);
                    stream.events.push(event);
                    seen += 1;
                    if is_last {
                        return Cut::End;
                    }
                }
            }
        }
        Cut::Again
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

pub(super) fn is_terminal(kind: &str) -> bool {
    matches!(kind, "run_succeeded" | "run_failed" | "run_cancelled")
}

/// A frame that is an event. Comments, retry hints and frames without an id are none.
fn parse(frame: &[u8]) -> Option<Seen> {
    let text = std::str::from_utf8(frame).ok()?;
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim_start)
    };
    let data = field("data").unwrap_or_default();
    Some(Seen {
        seq: field("id")?.parse().ok()?,
        kind: field("event")?.to_owned(),
        data: Digest::of(data.as_bytes()).to_string(),
    })
}
