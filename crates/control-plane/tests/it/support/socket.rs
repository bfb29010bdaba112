//! The server on a socket of loopback, and a client that says exactly what it is told.

use super::World;
use portolan_control_plane::{ServeLimits, serve, serve::Drained};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A test that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) server: JoinHandle<Drained>,
}

impl World {
    /// Serves this world on a free port.
    pub(crate) async fn serve(&self, limits: ServeLimits) -> Served {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let (router, clock) = (self.router.clone(), std::sync::Arc::clone(&self.clock) as _);
        let shutdown = self.shutdown.clone();
        let server = tokio::spawn(serve(listener, router, limits, clock, shutdown));
        Served { address, server }
    }
}

/// A raw connection.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) async fn connect(served: &Served) -> Self {
        Self(TcpStream::connect(served.address).await.expect("loopback"))
    }

    pub(crate) async fn say(&mut self, text: impl AsRef<[u8]>) {
        // A server that refuses may close while the rest is still being said.
        let _ = self.0.write_all(text.as_ref()).await;
    }

    /// Everything until the server closes. A reset after an answer is a close too.
    pub(crate) async fn hear_all(&mut self) -> String {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        let reading = async {
            while let Ok(count @ 1..) = self.0.read(&mut buffer).await {
                heard.extend_from_slice(&buffer[..count]);
            }
        };
        tokio::time::timeout(PATIENCE, reading)
            .await
            .expect("the server closes");
        String::from_utf8_lossy(&heard).into_owned()
    }

    /// Until the text has been heard.
    pub(crate) async fn hear_until(&mut self, text: &str) -> String {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        let is_there = |heard: &[u8], from: usize| {
            let from = from.saturating_sub(text.len());
            heard[from..]
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        let reading = async {
            let mut searched = 0;
            while !is_there(&heard, searched) {
                searched = heard.len();
                match self.0.read(&mut buffer).await {
                    Ok(count @ 1..) => heard.extend_from_slice(&buffer[..count]),
                    end => panic!("{end:?} after {}", String::from_utf8_lossy(&heard)),
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("it is said");
        String::from_utf8_lossy(&heard).into_owned()
    }
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    let code = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    code.and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("no answer: {answer:?}"))
}
