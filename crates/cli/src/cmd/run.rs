//! `portolan run FILE|AGENT`.

mod embedded;
mod ground;
mod metered;
mod remote;

use crate::{
    Exit, Failure, agent_file,
    args::{Global, RunArgs},
    failure::OrFail as _,
    screen::Screen,
};
use serde_json::Value;

/// Runs a file here, or a name on the server.
pub(super) async fn run(args: RunArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let input = input(args.input.as_deref())?;
    if agent_file::is_file(&args.agent) {
        return Box::pin(embedded::run(&args, input, global, screen)).await;
    }
    for (given, flag) in [
        (args.in_place, "--in-place"),
        (args.allow_host_shell, "--allow-host-shell"),
    ] {
        if given {
            return Err(Failure::usage(format!(
                "{flag} is for an agent file, and {:?} is a name",
                args.agent
            ))
            .hint("give a file (.toml, .yaml), or leave the flag out"));
        }
    }
    remote::run(&args, input, global, screen).await
}

/// JSON, or @FILE with JSON in it. What is no JSON is text.
fn input(given: Option<&str>) -> Result<Value, Failure> {
    let Some(given) = given else {
        return Ok(Value::Null);
    };
    let text = match given.strip_prefix('@') {
        Some(path) => {
            std::fs::read_to_string(path).or_usage(|| format!("the input {path} cannot be read"))?
        }
        None => given.to_owned(),
    };
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_input_is_json_or_text() {
        for (given, expected) in [
            ("{\"a\":1}", json!({"a": 1})),
            ("\"text\"", json!("text")),
            ("Say hello", json!("Say hello")),
            ("7", json!(7)),
        ] {
            assert_eq!(input(Some(given)).expect("given"), expected);
        }
        assert_eq!(input(None).expect("none"), Value::Null);
        assert_eq!(
            input(Some("@/no/such/file")).expect_err("gone").exit(),
            Exit::Usage
        );
    }
}
