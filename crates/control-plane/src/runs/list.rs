//! `GET /v1/runs`.

use super::{create::is_label, view::Loaded};
use crate::{
    api::Api,
    auth::{Authorized, RunsRead},
    page::{self, Page},
    params::Params,
    problem::{Code, Problem},
    schema::{Problems, RunList},
};
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use futures::{StreamExt, TryStreamExt};
use portolan_core::{
    agent::AgentName,
    ids::{RunId, TenantId},
    time::Timestamp,
};
use portolan_journal::{RunFilter, RunRow, RunStatus};
use std::sync::Arc;

const PARAMETERS: &[&str] = &["status", "agentName", "tag", "since", "until", "limit", "cursor"];
/// Rows that are looked at for one page when the shown status is not the kept one.
const MOST_LOOKED_AT: u32 = 2_000;
/// Runs of a page that are read at once.
const AT_ONCE: usize = 8;

/// Lists runs, newest first.
#[utoipa::path(
    get,
    path = "/v1/runs",
    tag = "runs",
    operation_id = "listRuns",
    security(("bearer" = ["runs:read"])),
    params(
        ("status" = Option<String>, Query, description = "Only of this status"),
        ("agentName" = Option<String>, Query, description = "Only of this agent"),
        ("tag" = Option<String>, Query, description = "Only with this tag"),
        ("since" = Option<String>, Query, description = "Only admitted at or after this time"),
        ("until" = Option<String>, Query, description = "Only admitted before this time"),
        ("limit" = Option<u32>, Query, description = "Items of a page, 1 to 200; 50 if absent"),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before")
    ),
    responses((status = 200, description = "A page of runs", body = RunList), Problems)
)]
pub(crate) async fn list(
    auth: Authorized<RunsRead>,
    State(api): State<Arc<Api>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let tenant = auth.tenant();
    let params = Params::read(query.as_deref(), PARAMETERS)?;
    let limit = page::limit(&params)?;
    let (filter, shown) = filter(&params, &api, tenant)?;
    let (rows, next) = rows(&api, tenant, filter, shown.as_deref(), limit).await?;
    write(&api, tenant, rows, next).await
}

/// Reads the filter, and the status that is to be shown.
fn filter(params: &Params<'_>, api: &Api, tenant: TenantId) -> Result<(RunFilter, Option<String>), Problem> {
    const TIME: &str = "a UTC time such as 2026-01-31T08:00:00Z";
    let shown = params.get("status").map(str::to_owned);
    let status = match shown.as_deref() {
        None | Some("cancelling") => None,
        Some(name) => Some(RunStatus::from_name(name).ok_or_else(|| {
            let known = "queued, running, waiting, cancelling, succeeded, failed or cancelled";
            Problem::new(Code::BadQuery, format!("status is {known}"))
        })?),
    };
    let tag = params.get("tag").map(str::to_owned);
    if tag.as_deref().is_some_and(|tag| !is_label(tag)) {
        return Err(Problem::new(Code::BadQuery, "tag is a tag: 1 to 128 characters"));
    }
    let before = match page::after(params, &api.hash_key, "runs", tenant)? {
        None => None,
        Some(bytes) => {
            let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| Problem::new(Code::BadCursor, "no run"))?;
            Some(RunId::from_bytes(bytes))
        }
    };
    let filter = RunFilter {
        status,
        agent: params.parse::<AgentName>("agentName", "the name of an agent")?,
        tag,
        since: params.parse::<Timestamp>("since", TIME)?,
        until: params.parse::<Timestamp>("until", TIME)?,
        before,
    };
    Ok((filter, shown))
}

/// The rows of a page, and the run to go on after if there is more.
async fn rows(
    api: &Api,
    tenant: TenantId,
    mut filter: RunFilter,
    shown: Option<&str>,
    limit: u32,
) -> Result<(Vec<RunRow>, Option<RunId>), Problem> {
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    let mut looked_at = 0;
    loop {
        let batch = api.journal.list(tenant, filter.clone(), limit + 1).await?;
        let is_last_batch = batch.len() <= wanted;
        for row in batch {
            if rows.len() == wanted {
                let last = rows.last().map(|row: &RunRow| row.at.run);
                return Ok((rows, last));
            }
            looked_at += 1;
            filter.before = Some(row.at.run);
            if shown.is_none_or(|shown| row.shown_status() == shown) {
                rows.push(row);
            }
        }
        if is_last_batch {
            return Ok((rows, None));
        }
        if looked_at >= MOST_LOOKED_AT {
            return Ok((rows, filter.before));
        }
    }
}

async fn write(
    api: &Api,
    tenant: TenantId,
    rows: Vec<RunRow>,
    next: Option<RunId>,
) -> Result<Response, Problem> {
    let now = api.clock.now();
    let total = rows.len();
    let mut loading = futures::stream::iter(rows)
        .map(|row| Loaded::complete(api, row))
        .buffered(AT_ONCE);
    let mut page = Page::new();
    let (mut written, mut last, mut cut) = (0, None, false);
    while let Some(run) = loading.try_next().await? {
        page.push(&run.view(now)?)?;
        written += 1;
        last = Some(run.row.at.run);
        if page.is_large() && written < total {
            cut = true;
            break;
        }
    }
    let next = if cut { last } else { next };
    let cursor = next.map(|run| page::cursor(&api.hash_key, "runs", tenant, run.as_bytes()));
    Ok(page.end(cursor.as_deref()))
}
