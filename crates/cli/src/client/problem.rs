//! Problem details of the API as failures of a command.

use crate::failure::Failure;
use reqwest::StatusCode;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
    code: Option<String>,
    request_id: Option<String>,
    errors: Vec<Field>,
}

#[derive(Debug, Deserialize)]
struct Field {
    #[serde(default)]
    pointer: Option<String>,
    #[serde(default)]
    parameter: Option<String>,
    message: String,
}

/// What an answer that is no success means.
pub(super) fn failure(status: StatusCode, body: &[u8], had_key: bool) -> Failure {
    let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
    let title = problem.title.unwrap_or_else(|| {
        status
            .canonical_reason()
            .unwrap_or("the server refused")
            .to_owned()
    });
    let code = problem.code.as_deref().unwrap_or_default();
    let mut what = title;
    if let Some(detail) = &problem.detail {
        what = format!("{what}: {detail}");
    }
    for field in &problem.errors {
        let place = field
            .pointer
            .as_deref()
            .or(field.parameter.as_deref())
            .unwrap_or_default();
        what = format!("{what}\n  {place}: {}", field.message);
    }
    if status.is_server_error() {
        let id = problem.request_id.unwrap_or_default();
        return Failure::unavailable(what).hint(format!("the log of the server has more under request {id}"));
    }
    match (status, code) {
        (StatusCode::UNAUTHORIZED, _) if had_key => Failure::usage(what)
            .hint("the key is not one of this server: check PORTOLAN_API_KEY, --data and --url"),
        (StatusCode::UNAUTHORIZED, _) => Failure::usage(what)
            .hint("set PORTOLAN_API_KEY, or name the data directory of the server with --data"),
        (StatusCode::CONFLICT | StatusCode::PAYMENT_REQUIRED, _) => Failure::negative(what),
        (_, "agent_not_found") => Failure::usage(what).hint("`portolan agents ls` lists the agents"),
        (_, "run_not_found") => Failure::usage(what).hint("`portolan runs ls` lists the runs"),
        (_, "artifact_not_found") => {
            Failure::usage(what).hint("`portolan runs artifacts RUN` lists the files")
        }
        (_, "") => Failure::usage(what),
        (_, code) => Failure::usage(what).hint(format!("docs/errors/{code}.md says what it means")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_which_field_and_what_next() {
        let body = br#"{"title":"A field cannot be accepted","status":422,"code":"invalid_field",
                        "errors":[{"pointer":"/model","code":"unknown_model","message":"no such provider"}]}"#;
        let failure = failure(StatusCode::UNPROCESSABLE_ENTITY, body, true);
        assert_eq!(
            failure.to_string(),
            "A field cannot be accepted\n  /model: no such provider"
        );
        assert_eq!(failure.exit().code(), 2);
        assert_eq!(
            failure.next(),
            Some("docs/errors/invalid_field.md says what it means")
        );
    }

    #[test]
    fn the_exit_says_whose_turn_it_is() {
        for (status, exit) in [(401, 2), (402, 1), (404, 2), (409, 1), (500, 4), (503, 4)] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                failure(status, b"not JSON", false).exit().code(),
                exit,
                "{status}"
            );
        }
    }
}
