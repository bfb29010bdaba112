//! The port of the server, and the way to providers.

use super::Finding;
use crate::{
    client::Server,
    config::{Config, Provider},
};
use reqwest::{Client, StatusCode, redirect};
use std::time::Duration;
use tokio::net::TcpListener;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the address can be listened on, or who does.
pub(super) async fn port(config: &Config) -> Finding {
    const CHECK: &str = "port";
    let address = config.listen.value;
    let error = match TcpListener::bind(address).await {
        Ok(_) => return Finding::ok(CHECK, format!("{address} is free")),
        Err(error) => error,
    };
    if error.kind() != std::io::ErrorKind::AddrInUse {
        return Finding::fail(
            CHECK,
            format!("{address}: {error}"),
            "choose another address with --listen",
        );
    }
    let health = async {
        let server = Server::at(&format!("http://{address}"), None)?;
        server.get(&["healthz"], &[]).await
    };
    match tokio::time::timeout(TIMEOUT, health).await {
        Ok(Ok(answer)) if answer["status"] == "ok" => {
            Finding::ok(CHECK, format!("a Portolan server answers on {address}"))
        }
        _ => Finding::fail(
            CHECK,
            format!("{address} is taken by another program"),
            "choose another address with --listen",
        ),
    }
}

/// The providers that somebody configured, and whether they answer.
pub(super) async fn providers(config: &Config) -> Vec<Finding> {
    let asked_for: Vec<&Provider> = config
        .providers
        .iter()
        .filter(|provider| provider.is_asked_for())
        .collect();
    if asked_for.is_empty() {
        return vec![Finding::warn(
            "providers",
            "none is configured",
            "set OPENAI_API_KEY or OPENROUTER_API_KEY, or add [providers.NAME] to portolan.toml",
        )];
    }
    let mut findings = Vec::new();
    for provider in asked_for {
        findings.push(key(provider));
        findings.push(reach(config, provider).await);
    }
    findings
}

fn key(provider: &Provider) -> Finding {
    let (name, key) = (&provider.config.name, &provider.key);
    match (key.found, &key.last_four) {
        (true, Some(last)) => Finding::ok("keys", format!("{name}: …{last} from {}", key.variable)),
        (true, None) => Finding::warn(
            "keys",
            format!("{name}: the value of {} is too short for a key", key.variable),
            format!("check {}", key.variable),
        ),
        (false, _) => Finding::ok("keys", format!("{name}: none ({} is not set)", key.variable)),
    }
}

/// Asks for the list of models, which costs nothing.
async fn reach(config: &Config, provider: &Provider) -> Finding {
    const CHECK: &str = "reachability";
    let name = &provider.config.name;
    let base = &provider.config.base_url;
    if let Err(error) = config.provider_policy().check(base) {
        return Finding::fail(CHECK, format!("{name}: {error}"), "correct its base URL");
    }
    let builder = || {
        Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(TIMEOUT)
    };
    let client = match builder()
        .build()
        .or_else(|_| builder().tls_certs_only([]).build())
    {
        Ok(client) => client,
        Err(error) => return Finding::fail(CHECK, error.to_string(), "check the certificates of this host"),
    };
    let mut request = client.get(format!("{}/models", base.trim_end_matches('/')));
    if let Some(key) = crate::config::process_environment(&provider.key.variable) {
        request = request.bearer_auth(key);
    }
    match request.send().await {
        Ok(answer) if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            Finding::fail(
                CHECK,
                format!("{name}: {base} refuses the key"),
                format!("check {}", provider.key.variable),
            )
        }
        Ok(answer) => Finding::ok(
            CHECK,
            format!("{name}: {base} answers ({})", answer.status().as_u16()),
        ),
        Err(error) => {
            let error = error.without_url();
            Finding::warn(
                CHECK,
                format!("{name}: {base} does not answer ({error})"),
                "check the base URL and the network; calls are tried again as the agent says",
            )
        }
    }
}
