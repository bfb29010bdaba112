//! One HTTP exchange with a provider: sent once, bounded in time and size, and reported as what it says about the world.
//!
//! The client follows no redirect, retries nothing, takes no proxy from the environment and speaks HTTP/1.1. Names are
//! resolved here, and an address that the policy refuses is never connected to, whatever a name resolves to today.

mod ambient;
mod resolver;
mod retry_after;

pub(crate) use retry_after::retry_after_ms;

use crate::BaseUrlPolicy;
use ::http::{HeaderMap, StatusCode};
use ambient::OwnRuntime;
use bytes::Bytes;
use portolan_core::{
    Fut,
    blocking::Waiting,
    faults::{self, Point},
};
use reqwest::{Client, Proxy, Url, redirect, retry};
use std::{
    error::Error,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// What is told to a caller that would wait for itself.
const INSIDE_A_RUNTIME: &str = "the blocking call `run()` was made inside of an async runtime, where it would hold the thread that \
                                has to move the connection; use `run_async().await`, or call it from a plain thread";

/// The most that an answer may weigh. A chat completion is far smaller; more is an attack or a mistake.
pub(crate) const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// The most that is read of an answer that only explains a failure.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How a client reaches providers.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Which addresses providers may have.
    pub policy: BaseUrlPolicy,
    /// The proxy for every request. The environment is never asked for one. Behind a proxy it is the proxy that resolves
    /// names, so what they resolve to is its business.
    pub proxy: Option<String>,
    /// How long a connection may take to be made, encryption included.
    pub connect_timeout_ms: u64,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            policy: BaseUrlPolicy::AllowPrivate,
            proxy: None,
            connect_timeout_ms: 10_000,
        }
    }
}

/// Why there is no HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum HttpClientError {
    /// The proxy is no URL. It is not repeated, because it may hold a password.
    #[error("the proxy must be a URL such as http://proxy.example:3128")]
    Proxy,
    /// The TLS or connection layer could not be set up.
    #[error("the HTTP client could not be set up")]
    Setup(#[source] reqwest::Error),
}

/// The connections to all providers. Cheap to clone; share one.
///
/// Inside a tokio runtime a request runs on it. Outside of one, where the blocking driver polls from a plain thread, the
/// client starts a runtime of its own on first use (one thread) and its futures can be polled by any executor.
#[derive(Clone)]
pub struct HttpClient {
    inner: Arc<Inner>,
}

struct Inner {
    options: HttpOptions,
    client: Client,
    own: OnceLock<Option<OwnRuntime>>,
}

/// A request that is complete. Its headers may hold a key and are marked sensitive then.
pub(crate) struct HttpRequest {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The time for everything, from connecting to the last byte of the answer.
    pub(crate) timeout: Duration,
}

/// An answer whose status and headers arrived.
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// What arrived of an answer's body.
pub(crate) enum Body {
    /// All of it.
    Whole(Bytes),
    /// A part, and why there is no more.
    Cut { part: Bytes, reason: String },
    /// More than the bound; the rest was not read.
    TooLarge(Bytes),
}

/// Why no answer arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransportError {
    /// No byte of the request reached the provider.
    #[error("{0}")]
    NotSent(String),
    /// The request was sent, or may have been.
    #[error("{0}")]
    InDoubt(String),
}

impl HttpClient {
    /// Sets the client up.
    pub fn new(options: HttpOptions) -> Result<Self, HttpClientError> {
        let client = build(&options)?;
        let own = OnceLock::new();
        Ok(Self {
            inner: Arc::new(Inner { options, client, own }),
        })
    }

    /// The rule for base URLs that this client enforces.
    pub fn policy(&self) -> BaseUrlPolicy {
        self.inner.options.policy
    }

    /// Sends a request once. Dropping the future abandons it and closes its connection.
    pub(crate) fn send(&self, request: HttpRequest) -> Fut<'static, Result<HttpAnswer, TransportError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            if tokio::runtime::Handle::try_current().is_ok() {
                if Waiting::is_here() {
                    return Err(TransportError::NotSent(INSIDE_A_RUNTIME.to_owned()));
                }
                return exchange(inner.client.clone(), request).await;
            }
            // Connections belong to the runtime that made them, so the own runtime has a client of its own.
            let own = inner
                .own
                .get_or_init(|| build(&inner.options).ok().and_then(OwnRuntime::start));
            match own {
                Some(own) => own.run(|client| exchange(client, request)).await,
                None => Err(TransportError::NotSent(
                    "the runtime for network calls could not be started".to_owned(),
                )),
            }
        })
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("policy", &self.inner.options.policy)
            .finish_non_exhaustive()
    }
}

fn build(options: &HttpOptions) -> Result<Client, HttpClientError> {
    let builder = || -> Result<reqwest::ClientBuilder, HttpClientError> {
        let mut builder = Client::builder()
            .user_agent(concat!("portolan/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .http1_only()
            .connect_timeout(Duration::from_millis(options.connect_timeout_ms))
            .dns_resolver(Arc::new(resolver::GuardedResolver(options.policy)));
        if let Some(proxy) = &options.proxy {
            builder = builder.proxy(Proxy::all(proxy).map_err(|_| HttpClientError::Proxy)?);
        }
        Ok(builder)
    };
    match builder()?.build() {
        Ok(client) => Ok(client),
        // A host without any root certificate can still talk to a local model over http://; https:// fails there with an
        // unknown issuer, and says so.
        Err(error) => {
            let fallback = builder()?.tls_certs_only([]).build();
            let client = fallback.map_err(|_| HttpClientError::Setup(error))?;
            tracing::warn!("no root certificates were found: providers behind https:// cannot be reached");
            Ok(client)
        }
    }
}

async fn exchange(client: Client, request: HttpRequest) -> Result<HttpAnswer, TransportError> {
    let sending = client
        .post(request.url)
        .headers(request.headers)
        .timeout(request.timeout)
        .body(request.body)
        .send();
    let sent = on_its_way(sending).await;
    let mut response = sent.map_err(|error| {
        // Only what cannot have reached the provider is definite; every other failure leaves the bill open.
        let not_sent = error.is_connect() || error.is_builder();
        let what = describe(error);
        if not_sent {
            TransportError::NotSent(what)
        } else {
            TransportError::InDoubt(what)
        }
    })?;
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let bound = if status.is_success() {
        MAX_ANSWER_BYTES
    } else {
        MAX_ERROR_BYTES
    };
    faults::at(Point::ModelMidAnswer).await;
    let body = read(response, bound).await;
    Ok(HttpAnswer {
        status,
        headers,
        body,
    })
}

/// Sends, and comes by the point where the request is on its way: a moment after it began, if a test waits there.
async fn on_its_way<T>(sending: impl Future<Output = T>) -> T {
    const MOMENT: Duration = Duration::from_millis(20);
    if !faults::is_armed(Point::ModelSent) {
        faults::at(Point::ModelSent).await;
        return sending.await;
    }
    let mut sending = std::pin::pin!(sending);
    let early = tokio::time::timeout(MOMENT, sending.as_mut()).await;
    faults::at(Point::ModelSent).await;
    match early {
        Ok(answer) => answer,
        Err(_) => sending.await,
    }
}

/// Reads a body piece by piece, so that no length a provider announces is ever believed.
async fn read(mut response: reqwest::Response, bound: usize) -> Body {
    let mut part: Vec<u8> = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let room = bound - part.len();
                if chunk.len() > room {
                    part.extend_from_slice(&chunk[..room]);
                    return Body::TooLarge(part.into());
                }
                part.extend_from_slice(&chunk);
            }
            Ok(None) => return Body::Whole(part.into()),
            Err(error) => {
                let (part, reason) = (part.into(), describe(error));
                return Body::Cut { part, reason };
            }
        }
    }
}

/// The chain of causes in one line. A port's error is one message for an operator, so the chain ends here. The URL is
/// left out: the caller names the provider.
fn describe(error: reqwest::Error) -> String {
    if error.is_timeout() && !error.is_connect() {
        return "it did not answer in time".to_owned();
    }
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

impl Body {
    /// The bytes that arrived.
    pub(crate) const fn bytes(&self) -> &Bytes {
        match self {
            Self::Whole(bytes) | Self::TooLarge(bytes) | Self::Cut { part: bytes, .. } => bytes,
        }
    }
}
