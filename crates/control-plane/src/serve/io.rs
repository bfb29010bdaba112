//! A stream that ends a connection whose client takes nothing of its answer.

use super::framing::HeadWatch;
use portolan_core::{
    Fut,
    faults::{self, Point},
    time::Clock,
};
use std::{
    fmt,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A socket with a bound on the time without progress of a write.
pub(super) struct WatchedStream {
    stream: TcpStream,
    clock: Arc<dyn Clock>,
    write_stall_ms: u64,
    /// Armed while the socket takes nothing.
    stall: Option<Fut<'static, ()>>,
    watch: Arc<HeadWatch>,
}

impl fmt::Debug for WatchedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedStream")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl WatchedStream {
    pub(super) fn new(
        stream: TcpStream,
        clock: Arc<dyn Clock>,
        write_stall_ms: u64,
        watch: Arc<HeadWatch>,
    ) -> Self {
        Self {
            stream,
            clock,
            write_stall_ms,
            stall: None,
            watch,
        }
    }

    /// Comes by the point of what is written, with a half of it on its way if a test steps in there. Whoever survives that has
    /// lost the connection.
    fn come_by(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<()> {
        let point = if bytes.starts_with(b"HTTP/1.1 201") {
            Point::AnswerHalf
        } else if bytes.windows(8).any(|window| window == b"\nevent: ") {
            Point::FrameHalf
        } else {
            return Ok(());
        };
        if !faults::is_armed(point) {
            faults::at_blocking(point);
            return Ok(());
        }
        let half = Pin::new(&mut self.stream).poll_write(cx, &bytes[..bytes.len() / 2]);
        faults::at_blocking(point);
        drop(half);
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Lets a write pass, or counts the time for which it does not.
    fn progress<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        let stall = match &mut self.stall {
            Some(stall) => stall,
            unarmed => unarmed.insert(self.clock.sleep_ms(self.write_stall_ms)),
        };
        ready!(stall.as_mut().poll(cx));
        self.stall = None;
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client takes nothing of its answer",
        )))
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        this.watch.arrived(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if faults::ENABLED {
            this.come_by(cx, bytes)?;
        }
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.progress(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if faults::ENABLED {
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            this.come_by(cx, &bytes)?;
        }
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.progress(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.progress(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
