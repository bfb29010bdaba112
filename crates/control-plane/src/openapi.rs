//! The OpenAPI document: generated from the handlers, served by the server, committed as `api/openapi.json`.

use crate::{
    page::json_bytes,
    problem::{FieldError, ProblemBody},
    router, runs,
};
use axum::response::Response;
use std::sync::LazyLock;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        OpenApi as Openapi,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

/// What the document says beside its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Portolan",
        description = "Runs AI agents that are bounded, durable and typed.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(runs::artifact),
    components(schemas(ProblemBody<'static>, FieldError)),
    modifiers(&Bearer),
    tags(
        (name = "runs", description = "Executions of agents"),
        (name = "agents", description = "Definitions, in immutable versions"),
        (name = "operation", description = "What operators and orchestrators ask")
    )
)]
pub(crate) struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut Openapi) {
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let (_, document) = router::documented().split_for_parts();
    let mut text = document.to_pretty_json().expect("the document encodes");
    text.push('\n');
    text
});

/// The OpenAPI document of this build, as text.
pub fn openapi_json() -> &'static str {
    &TEXT
}

/// Serves the OpenAPI document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "operation",
    operation_id = "openapi",
    responses((status = 200, description = "This document", body = serde_json::Value))
)]
pub(crate) async fn serve() -> Response {
    json_bytes(openapi_json().as_bytes().to_vec())
}
