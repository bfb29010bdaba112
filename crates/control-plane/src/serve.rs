//! The accept loop: connections within bounds of number, head, time and silence, and a drain that lets answers finish.

mod framing;
mod io;

use crate::{edge::AmbiguousFraming, problem::Code};
use axum::{Router, body::Body};
use framing::HeadWatch;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use io::WatchedStream;
use portolan_core::{
    faults::{self, Point},
    time::Clock,
};
use rustix::net::sockopt;
use std::{sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

/// Bounds of connections. All times are in milliseconds.
#[derive(Debug, Clone)]
pub struct ServeLimits {
    /// Connections at once; more are answered 503 and closed.
    pub max_connections: usize,
    /// Time for the head of a request, and for the pause between two requests.
    pub header_timeout_ms: u64,
    /// The largest head that is buffered. Smaller bounds with better answers are those of the API.
    pub max_head_bytes: usize,
    /// How long a client may take nothing of an answer.
    pub write_stall_ms: u64,
    /// How long the other end may leave bytes unacknowledged. With a heartbeat every 15 seconds a stream whose reader is gone
    /// without a word ends that much later at most.
    pub unacknowledged_ms: u32,
    /// What the system keeps of an answer that is on its way; it counts twice that with its own books.
    pub send_buffer_bytes: usize,
    /// How long answers may take to finish once the server drains.
    pub drain_ms: u64,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            // Ten thousand silent streams leave room for requests.
            max_connections: 12_000,
            header_timeout_ms: 10_000,
            max_head_bytes: 160 * 1024,
            write_stall_ms: 30_000,
            unacknowledged_ms: 30_000,
            send_buffer_bytes: 128 * 1024,
            drain_ms: 25_000,
        }
    }
}

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Every answer was finished.
    Cleanly,
    /// So many connections were cut when the time was up.
    Cut(usize),
}

/// How long the loop pauses when the process has no file descriptor to spare.
const ACCEPT_PAUSE_MS: u64 = 50;

/// Serves the router until the token is cancelled, then drains.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) -> Drained {
    let server = Server {
        router,
        places: Arc::new(Semaphore::new(limits.max_connections)),
        limits,
        clock,
        graceful: GracefulShutdown::new(),
        connections: TaskTracker::new(),
        cut: CancellationToken::new(),
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                if faults::at(Point::Accept).await.is_none() {
                    server.take(stream);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                server.clock.sleep_ms(ACCEPT_PAUSE_MS).await;
            }
        }
    }
    drop(listener);
    server.drain().await
}

struct Server {
    router: Router,
    limits: ServeLimits,
    clock: Arc<dyn Clock>,
    places: Arc<Semaphore>,
    graceful: GracefulShutdown,
    connections: TaskTracker,
    cut: CancellationToken,
}

impl Server {
    fn take(&self, stream: TcpStream) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            refuse(stream);
            return;
        };
        if let Err(error) = prepare(&stream, &self.limits) {
            tracing::debug!(%error, "a connection is gone already");
            return;
        }
        // On the heap, so that the task that holds it does not have room for it twice.
        let connection = Box::pin(self.graceful.watch(self.connection(stream)));
        let cut = self.cut.clone();
        self.connections.spawn(hold(place, cut, connection));
    }

    fn connection(
        &self,
        stream: TcpStream,
    ) -> hyper::server::conn::http1::Connection<
        TokioIo<WatchedStream>,
        impl hyper::service::HttpService<
            hyper::body::Incoming,
            ResBody = Body,
            Error = std::convert::Infallible,
            Future: Send,
        > + use<>,
    > {
        let watch = Arc::new(HeadWatch::default());
        let io = WatchedStream::new(
            stream,
            Arc::clone(&self.clock),
            self.limits.write_stall_ms,
            Arc::clone(&watch),
        );
        let router = self.router.clone();
        let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let mut request = request.map(Body::new);
            if watch.begin_request() {
                request.extensions_mut().insert(AmbiguousFraming);
            }
            let (router, watch) = (router.clone(), Arc::clone(&watch));
            async move {
                let answer = router.oneshot(request).await;
                watch.end_request();
                answer
            }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(self.limits.header_timeout_ms))
            .max_buf_size(self.limits.max_head_bytes.max(8_192))
            .keep_alive(true)
            .half_close(false);
        builder.serve_connection(TokioIo::new(io), service)
    }

    /// Lets every connection finish the answer that it is in, and cuts those that take too long.
    async fn drain(self) -> Drained {
        self.connections.close();
        let finished = async {
            self.graceful.shutdown().await;
            self.connections.wait().await;
        };
        tokio::select! {
            () = finished => return Drained::Cleanly,
            () = self.clock.sleep_ms(self.limits.drain_ms) => {}
        }
        let left = self.connections.len();
        self.cut.cancel();
        self.connections.wait().await;
        Drained::Cut(left)
    }
}

/// Sends what is written at once, gives up on a peer that acknowledges nothing, and bounds what the system keeps for one that
/// reads nothing: left alone, it takes megabytes.
fn prepare(stream: &TcpStream, limits: &ServeLimits) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_tcp_user_timeout(stream, limits.unacknowledged_ms)?;
    sockopt::set_socket_send_buffer_size(stream, limits.send_buffer_bytes)?;
    Ok(())
}

/// Drives a connection to its end.
async fn hold(
    place: OwnedSemaphorePermit,
    cut: CancellationToken,
    connection: impl Future<Output = Result<(), hyper::Error>>,
) {
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        }
        () = cut.cancelled() => {}
    }
    drop(place);
}

/// Answers 503 as far as the socket takes it at once, and closes.
fn refuse(stream: TcpStream) {
    let code = Code::TooManyConnections;
    let body = format!(
        "{{\"type\":\"{}\",\"title\":\"{}\",\"status\":503,\"detail\":\"try again\",\"code\":\"{}\",\"retryAfterMs\":1000}}",
        code.uri(),
        code.title(),
        code.name()
    );
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\
         Retry-After: 1\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    // The runtime does not know yet that a fresh socket can be written to; the system does, and does not block.
    let written = stream
        .into_std()
        .and_then(|mut stream| std::io::Write::write(&mut stream, answer.as_bytes()));
    if let Err(error) = written {
        tracing::debug!(%error, "a refused connection is gone already");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "the test is both ends of the connection"
    )]
    #[tokio::test]
    async fn a_peer_that_is_gone_without_a_word_is_given_up_within_45_seconds() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (_client, (stream, _)) = (client.expect("loopback"), accepted.expect("loopback"));
        let limits = ServeLimits::default();
        prepare(&stream, &limits).expect("the system has the option");
        let timeout_ms = sockopt::tcp_user_timeout(&stream).expect("set");
        let heartbeat_ms = crate::ApiConfig::default().heartbeat_ms;
        assert!(u64::from(timeout_ms) + heartbeat_ms <= 45_000);
        assert!(stream.nodelay().expect("set"));
    }
}
