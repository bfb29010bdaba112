//! A provider's configuration, checked: what every adapter sends to and with.

use super::{Dialect, ProviderConfig, ProviderConfigError};
use crate::{
    HttpClient, Secret,
    http::{HttpAnswer, HttpRequest, TransportError},
};
use ::http::{HeaderMap, HeaderName, HeaderValue, header};
use portolan_core::{Fut, ids::IdempotencyKey};
use reqwest::Url;
use std::{fmt, time::Duration};

/// The header that carries the key of an attempt.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Headers that the adapter or the client sets; a configured one would break the request or hide the key.
const RESERVED: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::HOST,
    IDEMPOTENCY_KEY,
];

/// A provider that can be called.
pub(crate) struct Endpoint {
    pub(crate) provider: String,
    pub(crate) dialect: Dialect,
    pub(crate) honours_idempotency_keys: bool,
    http: HttpClient,
    base: Url,
    headers: HeaderMap,
    timeout: Duration,
    secrets: Vec<Secret>,
}

impl Endpoint {
    /// Checks a configuration.
    pub(crate) fn new(http: &HttpClient, config: &ProviderConfig) -> Result<Self, ProviderConfigError> {
        let provider = config.name.clone();
        if !is_provider_name(&provider) {
            return Err(ProviderConfigError::Name(provider));
        }
        let base = match http.policy().check(&config.base_url) {
            Ok(base) => base,
            Err(source) => return Err(ProviderConfigError::BaseUrl { provider, source }),
        };
        if config.timeout_ms == 0 {
            return Err(ProviderConfigError::Timeout(provider));
        }
        Ok(Self {
            headers: headers(config)?,
            dialect: config.dialect,
            honours_idempotency_keys: config.honours_idempotency_keys,
            http: http.clone(),
            base,
            timeout: Duration::from_millis(config.timeout_ms),
            secrets: secrets(config),
            provider,
        })
    }

    /// Sends a JSON body to a path below the base URL, once.
    pub(crate) fn post(
        &self,
        path: &[&str],
        key: Option<&IdempotencyKey>,
        body: Vec<u8>,
    ) -> Fut<'static, Result<HttpAnswer, TransportError>> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let mut headers = self.headers.clone();
        if let Some(key) = key {
            let value = HeaderValue::from_str(key.as_str())
                .expect("a key has only letters, digits, '_', ':' and '-'");
            headers.insert(IDEMPOTENCY_KEY, value);
        }
        self.http.send(HttpRequest {
            url,
            headers,
            body,
            timeout: self.timeout,
        })
    }

    /// Removes every secret of this provider from a text that is not ours: a provider may repeat the key that it refuses.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |clean, secret| {
            clean.replace(secret.expose(), "[redacted]")
        })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

pub(crate) fn is_provider_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
}

fn headers(config: &ProviderConfig) -> Result<HeaderMap, ProviderConfigError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    for (name, value) in &config.headers {
        let refused = || ProviderConfigError::Header {
            provider: config.name.clone(),
            header: name.clone(),
        };
        let parsed = HeaderName::try_from(name).map_err(|_| refused())?;
        if RESERVED.contains(&parsed) {
            return Err(refused());
        }
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| refused())?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    if let Some(key) = &config.api_key {
        let refused = || ProviderConfigError::ApiKey(config.name.clone());
        if key.expose().is_empty() {
            return Err(refused());
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(|_| refused())?;
        bearer.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, bearer);
    }
    Ok(headers)
}

/// What must not appear in a message. A header's value is confidential only when it is long enough to be a credential;
/// removing a short word would garble messages and protect nothing.
fn secrets(config: &ProviderConfig) -> Vec<Secret> {
    let values = config.headers.iter().map(|(_, value)| value);
    let values = values.filter(|value| value.expose().len() >= 8);
    let mut secrets: Vec<Secret> = config.api_key.iter().chain(values).cloned().collect();
    // The longest first, so that a secret within another one does not leave the rest of it behind.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BaseUrlPolicy, HttpOptions};

    fn endpoint(config: &ProviderConfig) -> Result<Endpoint, ProviderConfigError> {
        let http = HttpClient::new(HttpOptions::default()).expect("a client");
        Endpoint::new(&http, config)
    }

    #[test]
    fn what_could_not_be_sent_is_refused_when_it_is_configured() {
        let base = || ProviderConfig::custom("local", "http://127.0.0.1:1/v1");
        for name in ["", "Open AI", "a/b", "ü", &"x".repeat(65)] {
            let config = ProviderConfig::custom(name, "http://127.0.0.1:1/v1");
            assert_eq!(
                endpoint(&config).err(),
                Some(ProviderConfigError::Name(name.into()))
            );
        }
        for key in ["", "sk-canary\n", "sk-canary\u{e9}\u{0}"] {
            let error = endpoint(&base().with_api_key(key.to_owned())).expect_err("a bad key");
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
        for header in ["Authorization", "Idempotency-Key", "content-length", "bad name"] {
            let mut config = base();
            config.headers.push((header.into(), Secret::new("x")));
            assert!(
                matches!(endpoint(&config), Err(ProviderConfigError::Header { .. })),
                "{header}"
            );
        }
        let mut config = base();
        config.timeout_ms = 0;
        assert_eq!(
            endpoint(&config).err(),
            Some(ProviderConfigError::Timeout("local".into()))
        );
    }

    #[test]
    fn the_policy_of_the_client_judges_the_base_url() {
        let options = HttpOptions {
            policy: BaseUrlPolicy::PublicOnly,
            ..HttpOptions::default()
        };
        let http = HttpClient::new(options).expect("a client");
        let refused = Endpoint::new(&http, &ProviderConfig::custom("local", "http://127.0.0.1:1/v1"));
        assert!(matches!(refused, Err(ProviderConfigError::BaseUrl { .. })));
    }

    #[test]
    fn secrets_leave_no_trace_in_foreign_text_or_debug_output() {
        let mut config =
            ProviderConfig::custom("local", "http://127.0.0.1:1/v1").with_api_key("canary-key".to_owned());
        config
            .headers
            .push(("x-gateway".into(), Secret::new("canary-key-and-more")));
        config.headers.push(("x-title".into(), Secret::new("app")));
        let endpoint = endpoint(&config).expect("a provider");
        assert_eq!(
            endpoint.scrub("bad canary-key and canary-key-and-more from app"),
            "bad [redacted] and [redacted] from app"
        );
        assert!(!format!("{endpoint:?} {config:?} {:?}", endpoint.headers).contains("canary"));
    }
}
