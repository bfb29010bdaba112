//! `portolan doctor`: would a server run well here?

mod data;
mod database;
mod host;
mod network;

use crate::{
    Exit, Failure,
    args::{DoctorArgs, Global},
    config::{Config, process_environment},
    screen::{Form, Screen, Style},
};
use serde::Serialize;
use serde_json::json;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn warn(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Warn,
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn fail(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Fail,
            ..Self::warn(check, detail, remedy)
        }
    }
}

/// Checks everything; one bad finding does not stop the others.
pub(super) async fn run(args: &DoctorArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let config = Config::load(&args.server.flags(global), &process_environment)?;
    let mut findings = vec![configuration(&config)];
    match &config.database.value {
        None => findings.extend(data::check(&config.data.value).await),
        Some(url) => {
            findings.extend(data::without_store(&config.data.value));
            findings.extend(database::check(url, &config).await);
        }
    }
    findings.push(network::port(&config).await);
    findings.push(host::clock());
    findings.push(host::open_files());
    findings.push(host::shell(&config));
    findings.extend(network::providers(&config).await);
    for variable in &config.unsupported_keys {
        findings.push(Finding::warn(
            "keys",
            format!("{variable} is set, but its provider is not supported yet"),
            "reach its models through openrouter, with OPENROUTER_API_KEY",
        ));
    }
    print(&findings, screen)?;
    let failed = findings.iter().any(|finding| finding.verdict == Verdict::Fail);
    Ok(if failed { Exit::Negative } else { Exit::Ok })
}

fn configuration(config: &Config) -> Finding {
    let from = config.file.as_ref().map_or_else(
        || "no file: flags, environment and defaults".to_owned(),
        |file| file.display().to_string(),
    );
    if !config.listen.value.ip().is_loopback() && !config.insecure_listen.value {
        return Finding::fail(
            "configuration",
            format!(
                "{} can be reached from other machines, without encryption",
                config.listen.value
            ),
            "listen on loopback behind a proxy with TLS, or accept it with --insecure-listen",
        );
    }
    Finding::ok("configuration", from)
}

fn print(findings: &[Finding], screen: &Screen) -> Result<(), Failure> {
    match screen.form {
        Form::Json => return screen.document(&json!({ "findings": findings })),
        Form::JsonLines => {
            for finding in findings {
                screen.document(finding)?;
            }
        }
        Form::Text => {
            for finding in findings {
                let (word, style) = match finding.verdict {
                    Verdict::Ok => ("ok  ", Style::Good),
                    Verdict::Warn => ("warn", Style::Warn),
                    Verdict::Fail => ("fail", Style::Bad),
                };
                let word = screen.paint(style, word);
                screen.line(&format!("{word}  {:<14} {}", finding.check, finding.detail))?;
                if let Some(remedy) = &finding.remedy {
                    screen.line(&format!("      {:<14} → {remedy}", ""))?;
                }
            }
        }
    }
    Ok(())
}
