//! The API from the outside: what the commands ask the server.

mod problem;
mod sse;

pub(crate) use sse::{Follow, is_terminal};

use crate::{
    args::{Global, ServerAddress},
    compose,
    config::{Config, Flags, process_environment},
    failure::{Failure, OrFail as _},
};
use bytes::Bytes;
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode, Url,
    header::{self, HeaderValue},
};
use serde_json::Value;
use std::{path::Path, time::Duration};

/// The most that is taken of an answer that is not streamed.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// How long an answer may take, waits included.
const TIMEOUT: Duration = Duration::from_secs(90);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server and the key for it.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    http: Client,
    base: Url,
    /// The whole header, marked so that nothing prints it.
    bearer: Option<HeaderValue>,
}

impl Server {
    /// Finds the server and the key: flags, then the environment, then the configuration and its data directory.
    pub(crate) fn find(address: &ServerAddress, global: &Global) -> Result<Self, Failure> {
        let flags = Flags {
            data: address.data.clone(),
            ..global.flags()
        };
        let config = Config::load(&flags, &process_environment)?;
        let url = address
            .url
            .clone()
            .or_else(|| process_environment("PORTOLAN_URL"))
            .unwrap_or_else(|| format!("http://{}", config.listen.value));
        let key = match process_environment("PORTOLAN_API_KEY") {
            Some(key) => Some(key),
            None => admin_key(&config.data.value)?,
        };
        Self::at(&url, key)
    }

    /// A server at a URL.
    pub(crate) fn at(url: &str, key: Option<String>) -> Result<Self, Failure> {
        let base = Url::parse(url)
            .or_usage(|| format!("{url:?} is no URL of a server"))
            .and_then(|base| match base.scheme() {
                "http" | "https" => Ok(base),
                other => Err(Failure::usage(format!("{other}: is no way to a server"))),
            })
            .map_err(|failure| failure.hint("give a URL such as http://127.0.0.1:7700"))?;
        let builder = || Client::builder().connect_timeout(CONNECT_TIMEOUT).http1_only();
        let http = builder()
            .build()
            // A host without root certificates still reaches a server over http://.
            .or_else(|_| builder().tls_certs_only([]).build())
            .or_unavailable(|| "the HTTP client cannot be set up".to_owned())?;
        let bearer = key.map(|key| bearer(&key)).transpose()?;
        Ok(Self { http, base, bearer })
    }

    /// The URL of the server, for people.
    pub(crate) fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Asks for a JSON document.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Value, Failure> {
        let response = self.send(Method::GET, path, query, None).await?;
        self.json(response).await
    }

    /// Asks for bytes.
    pub(crate) async fn get_bytes(&self, path: &[&str]) -> Result<Vec<u8>, Failure> {
        let request = self.http.get(self.at_path(path, &[])).timeout(TIMEOUT);
        let response = self
            .authorized(request)
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let response = self.accepted(response).await?;
        self.read(response).await
    }

    /// Asks for a file, which is handed on piece by piece.
    pub(crate) async fn download(
        &self,
        path: &[&str],
        take: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
    ) -> Result<(), Failure> {
        let request = self.authorized(self.http.get(self.at_path(path, &[])));
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let mut response = self.accepted(response).await?;
        while let Some(piece) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            take(&piece)?;
        }
        Ok(())
    }

    /// Sends a JSON document.
    pub(crate) async fn submit(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let response = self.send(method, path, &[], body).await?;
        self.json(response).await
    }

    /// Opens the event stream of a run strictly after a place; `None`: the run has ended and nothing comes after it.
    pub(crate) async fn stream(&self, run: &str, after: u64) -> Result<Option<Response>, Failure> {
        let url = self.at_path(&["v1", "runs", run, "events"], &[("after", after.to_string())]);
        let request = self.http.get(url).header(header::ACCEPT, "text/event-stream");
        let response = self
            .authorized(request)
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let response = self.accepted(response).await?;
        Ok((response.status() != StatusCode::NO_CONTENT).then_some(response))
    }

    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Response, Failure> {
        let mut request = self
            .http
            .request(method, self.at_path(path, query))
            .header(header::ACCEPT, "application/json")
            .timeout(TIMEOUT);
        if let Some(body) = body {
            request = request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        self.authorized(request)
            .send()
            .await
            .map_err(|error| self.unreachable(&error))
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.bearer {
            Some(bearer) => request.header(header::AUTHORIZATION, bearer),
            None => request,
        }
    }

    fn at_path(&self, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Lets a success pass and turns a problem into a failure.
    async fn accepted(&self, response: Response) -> Result<Response, Failure> {
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = self.read(response).await.unwrap_or_default();
        Err(problem::failure(status, &body, self.bearer.is_some()))
    }

    async fn json(&self, response: Response) -> Result<Value, Failure> {
        let response = self.accepted(response).await?;
        let body = self.read(response).await?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body)
            .or_unavailable(|| format!("{} answered something else than JSON", self.url()))
            .map_err(|failure| failure.hint("is this address a Portolan server?"))
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let chunk: Option<Bytes> = response.chunk().await.map_err(|error| self.unreachable(&error))?;
            let Some(chunk) = chunk else { return Ok(body) };
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(Failure::unavailable("the answer of the server is too large"));
            }
            body.extend_from_slice(&chunk);
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        Failure::unavailable(format!("the server at {} did not answer", self.url()))
            .because(error)
            .hint("start one with `portolan serve`, or name it with --url or PORTOLAN_URL")
    }
}

fn bearer(key: &str) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::from_str(&format!("Bearer {key}"));
    // The cause is not repeated: nothing of a key is printed.
    let mut value =
        value.map_err(|_| Failure::usage("the API key has characters that no header can carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn admin_key(data: &Path) -> Result<Option<String>, Failure> {
    compose::read_admin_key(data).or_usage(|| "the admin key of the data directory cannot be read".to_owned())
}

/// A member of an answer, as text.
pub(crate) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}
