//! The runtime that a client brings along for callers that have none.

use super::TransportError;
use reqwest::Client;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinError, JoinHandle},
};

/// A runtime with one thread, and the client whose connections live on it.
pub(super) struct OwnRuntime {
    /// Taken only when the value is dropped.
    runtime: Option<Runtime>,
    client: Client,
}

impl OwnRuntime {
    /// Starts the thread, or gives nothing if the host does not allow it.
    pub(super) fn start(client: Client) -> Option<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(4)
            .thread_name("portolan-http")
            .enable_all()
            .build()
            .ok()?;
        let runtime = Some(runtime);
        Some(Self { runtime, client })
    }

    /// Runs an exchange here. The future that comes back may be polled anywhere; dropping it stops the exchange.
    pub(super) async fn run<F, T>(&self, exchange: impl FnOnce(Client) -> F) -> Result<T, TransportError>
    where
        F: Future<Output = Result<T, TransportError>> + Send + 'static,
        T: Send + 'static,
    {
        let Some(runtime) = &self.runtime else {
            return Err(TransportError::NotSent("the client is shutting down".to_owned()));
        };
        let task = AbortOnDrop(runtime.spawn(exchange(self.client.clone())));
        match task.await {
            Ok(result) => result,
            Err(stopped) => Err(TransportError::InDoubt(format!(
                "the call was stopped: {stopped}"
            ))),
        }
    }
}

impl Drop for OwnRuntime {
    /// Does not wait for the thread: waiting is a panic when the last owner is dropped inside another runtime.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
