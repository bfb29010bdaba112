//! `GET /v1/runs/{id}/export`: a run as a file.

use super::{not_found, run_ref};
use crate::{
    api::Api,
    auth::{Authorized, RunsRead},
    problem::Problem,
    schema::Problems,
};
use axum::{
    body::Body,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue, header};
use portolan_core::{digest::Digest, event::Recorded, ids::Seq};
use portolan_journal::{
    JournalError, RunRef,
    audit::blobs_of,
    blob::BlobError,
    export::{Encoder, FORMAT, Header, Origin},
};
use std::{
    collections::{BTreeSet, btree_set},
    io,
    sync::Arc,
};

/// Events that are read at once, and what they weigh together.
const BATCH_EVENTS: u32 = 64;
const BATCH_BYTES: usize = 1 << 20;

/// Why a file breaks off. Its reader notices: the trailer is missing.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the journal cannot be read")]
    Journal(#[from] JournalError),
    #[error("a file of the run cannot be read")]
    Blob(#[from] BlobError),
    #[error("a line cannot be encoded")]
    Encode(#[from] serde_json::Error),
    #[error("the journal has no event {}", .0.0)]
    Missing(Seq),
}

/// Exports a run: a header, its journal up to now, the files that it names and a trailer, one JSON document a line.
#[utoipa::path(
    get,
    path = "/v1/runs/{id}/export",
    tag = "runs",
    operation_id = "exportRun",
    security(("bearer" = ["runs:read"])),
    params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "The file", body = String, content_type = "application/x-ndjson"), Problems)
)]
pub(crate) async fn export(
    auth: Authorized<RunsRead>,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let run = run_ref(auth.tenant(), &id)?;
    let row = api.journal.run(run).await?.ok_or_else(not_found)?;
    let version = Some(row.agent_version);
    let agent = api.agents.agent(run.tenant, row.agent.clone(), version).await?;
    let definition = agent
        .map(|agent| serde_json::to_value(agent.definition))
        .transpose();
    let header = Header {
        format: FORMAT,
        run_id: run.run,
        agent_name: row.agent,
        agent_version: row.agent_version,
        definition: definition.map_err(|error| Problem::internal(&error))?,
        epoch: row.epoch,
        active_ms: row.active_ms,
        ended: row.progress.status.is_terminal(),
        events: row.last_seq.0,
        origin: Origin {
            tenant_id: run.tenant,
            build: env!("CARGO_PKG_VERSION").to_owned(),
        },
    };
    let (encoder, first) = Encoder::begin(header).map_err(|error| Problem::internal(&error))?;
    let export = Export {
        api,
        run,
        encoder,
        last: row.last_seq,
        named: BTreeSet::new(),
    };
    let lines = futures::stream::try_unfold(Place::First(first, export), next);
    const HEADERS: [(HeaderName, HeaderValue); 2] = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-ndjson"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((HEADERS, Body::from_stream(lines)).into_response())
}

struct Export {
    api: Arc<Api>,
    run: RunRef,
    encoder: Encoder,
    last: Seq,
    named: BTreeSet<Digest>,
}

/// How far a file is.
enum Place {
    First(Vec<u8>, Export),
    Events(Seq, Export),
    Blobs(btree_set::IntoIter<Digest>, Export),
    Over,
}

type Step = Option<(Vec<u8>, Place)>;

async fn next(state: Place) -> Result<Step, io::Error> {
    piece(state).await.map_err(|error| {
        tracing::warn!(%error, "an export broke off");
        io::Error::other(error)
    })
}

async fn piece(state: Place) -> Result<Step, ExportError> {
    match state {
        Place::First(line, export) => Ok(Some((line, Place::Events(Seq::ZERO, export)))),
        Place::Events(after, export) if after < export.last => export.events(after).await.map(Some),
        Place::Events(_, mut export) => {
            let named = std::mem::take(&mut export.named).into_iter();
            export.blob(named).await.map(Some)
        }
        Place::Blobs(left, export) => export.blob(left).await.map(Some),
        Place::Over => Ok(None),
    }
}

impl Export {
    async fn events(mut self, after: Seq) -> Result<(Vec<u8>, Place), ExportError> {
        let left = u32::try_from(self.last.0 - after.0).unwrap_or(BATCH_EVENTS);
        let max = left.min(BATCH_EVENTS);
        let page = self
            .api
            .journal
            .read_page(self.run, after, max, BATCH_BYTES)
            .await?;
        let last = page.last().map(|record| record.seq);
        let last = last.ok_or_else(|| ExportError::Missing(after.next()))?;
        let mut lines = Vec::new();
        for record in &page {
            lines.extend(self.event(record)?);
        }
        Ok((lines, Place::Events(last, self)))
    }

    fn event(&mut self, record: &Recorded) -> Result<Vec<u8>, ExportError> {
        self.named.extend(blobs_of(record));
        Ok(self.encoder.event(record)?)
    }

    /// The next blob, or the trailer.
    async fn blob(mut self, mut left: btree_set::IntoIter<Digest>) -> Result<(Vec<u8>, Place), ExportError> {
        let Some(digest) = left.next() else {
            return Ok((self.encoder.end()?, Place::Over));
        };
        let content = self.api.blobs.get(digest).await?;
        let line = self.encoder.blob(digest, &content)?;
        Ok((line, Place::Blobs(left, self)))
    }
}
