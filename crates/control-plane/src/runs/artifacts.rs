//! `GET /v1/runs/{id}/artifacts` and the bytes of each.

use super::{journal::read_all, run_ref};
use crate::{
    api::Api,
    auth::{Authorized, RunsRead},
    page,
    problem::{Code, Problem},
    schema::{ArtifactList, Problems},
};
use axum::{
    body::Body,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue, header};
use portolan_core::artifact::Artifact;
use serde::Serialize;
use std::sync::Arc;

/// Lists the files that a run changed.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/artifacts",
    tag = "runs",
    operation_id = "listRunArtifacts",
    security(("bearer" = ["runs:read"])),
    params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "The changed files, by path", body = ArtifactList), Problems)
)]
pub(crate) async fn artifacts(
    auth: Authorized<RunsRead>,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    #[derive(Serialize)]
    struct Answer {
        data: Vec<Artifact>,
    }
    let records = read_all(&api, run_ref(auth.tenant(), &id)?).await?;
    let data = api
        .host
        .artifacts(&records)
        .map_err(|error| Problem::internal(&error))?;
    page::json(&Answer { data })
}

/// Gives the bytes of a changed file.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/artifacts/{path}",
    tag = "runs",
    operation_id = "getRunArtifact",
    security(("bearer" = ["runs:read"])),
    params(
        ("id" = String, Path, description = "The run"),
        ("path" = String, Path, description = "The path of the file, with its slashes")
    ),
    responses((status = 200, description = "The bytes", body = Vec<u8>, content_type = "application/octet-stream"), Problems)
)]
pub(crate) async fn artifact(
    auth: Authorized<RunsRead>,
    State(api): State<Arc<Api>>,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let records = read_all(&api, run_ref(auth.tenant(), &id)?).await?;
    let artifacts = api
        .host
        .artifacts(&records)
        .map_err(|error| Problem::internal(&error))?;
    let digest = artifacts
        .into_iter()
        .find(|artifact| artifact.path == path)
        .and_then(|artifact| artifact.digest)
        .ok_or_else(|| {
            Problem::new(
                Code::ArtifactNotFound,
                "the run left no file with content at that path",
            )
        })?;
    let bytes = api.blobs.get(digest).await?;
    let tag = HeaderValue::from_str(&format!("\"{digest}\"")).expect("digests are visible ASCII");
    // A file of a run is data of a stranger: never something that a browser opens under our name.
    let headers: [(HeaderName, HeaderValue); 4] = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment"),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (header::ETAG, tag),
    ];
    Ok((headers, Body::from(bytes)).into_response())
}
