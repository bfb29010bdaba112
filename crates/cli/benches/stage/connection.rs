//! One kept-alive HTTP connection of a caller, with as little of its own as a load generator can have: the client shares
//! its cores with the server, and what it costs would be taken for the server's.

use crate::Failure;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    host: String,
    key: String,
    buffer: Vec<u8>,
}

/// An answer with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body of an answer with that status.
    pub(crate) fn json(&self, status: u16) -> Result<Value, Failure> {
        if self.status == status {
            return Ok(serde_json::from_slice(&self.body)?);
        }
        let body = String::from_utf8_lossy(&self.body);
        Err(format!("{} instead of {status}: {body}", self.status).into())
    }
}

impl Connection {
    /// Connects to `http://HOST:PORT`.
    pub(crate) async fn open(url: &str, key: &str) -> Result<Self, Failure> {
        let host = url
            .strip_prefix("http://")
            .ok_or("not a plain address")?
            .to_owned();
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            host,
            key: key.to_owned(),
            buffer: Vec::with_capacity(8 * 1024),
        })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer, Failure> {
        self.send("GET", path, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Answer, Failure> {
        self.send("POST", path, body).await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &str) -> Result<Answer, Failure> {
        self.send("PUT", path, body).await
    }

    async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<Answer, Failure> {
        let (host, key, length) = (&self.host, &self.key, body.len());
        let entity = match body {
            "" => String::new(),
            _ => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n{entity}\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            self.fill().await?;
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        let status = text.get(9..12).ok_or("no status")?.parse()?;
        let length: usize = text
            .lines()
            .find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then_some(value.trim())
            })
            .ok_or("an answer without a length")?
            .parse()?;
        while self.buffer.len() < head + length {
            self.fill().await?;
        }
        Ok(Answer {
            status,
            body: self.buffer[head..head + length].to_vec(),
        })
    }

    async fn fill(&mut self) -> Result<(), Failure> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
