//! `portolan verify`: proves on a live or a stopped store that what it holds is what was promised.

use crate::{
    Exit, Failure,
    args::{Global, VerifyArgs},
    config::{Config, DatabaseUrl, Flags, process_environment},
    screen::{Form, Screen, Style},
};
use portolan_core::ids::{RunId, TenantId};
use portolan_journal::{
    JournalError,
    audit::{AuditSource, Finding, Place, Scope, Tally, audit},
    blob::BlobStore,
};
use portolan_store::{FileBlobs, PostgresAudit, SqliteAudit};
use serde::Serialize;
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

/// Runs between two lines of progress.
const EVERY: u64 = 25_000;

/// Findings that one JSON document holds. More are counted.
const MOST_FINDINGS: usize = 10_000;

/// Audits the store. It is only read; a server may run on it.
pub(super) async fn run(args: &VerifyArgs, global: &Global, screen: &Screen) -> Result<Exit, Failure> {
    let flags = Flags {
        data: args.data.clone(),
        database: args.database.clone(),
        ..global.flags()
    };
    let config = Config::load(&flags, &process_environment)?;
    let scope = Scope {
        tenant: parsed::<TenantId>("--tenant", args.tenant.as_deref())?,
        run: parsed::<RunId>("--run", args.run.as_deref())?,
    };
    // A directory that is named is meant, whatever else is configured.
    let database = config.database.value.filter(|_| args.data.is_none());
    let (source, blobs) = open(&config.data.value, database.as_ref()).await?;
    let blobs = Some(blobs).filter(|_| !args.skip_files);
    let mut found = Found::new(screen);
    let mut shown = 0;
    let mut progress = |tally: &Tally| {
        if screen.is_watched() && tally.runs / EVERY > shown {
            shown = tally.runs / EVERY;
            screen.talk(&format!(
                "{} runs, {} findings so far",
                tally.runs, tally.findings
            ));
        }
    };
    let mut take = |finding: Finding| found.take(&finding);
    let audited = audit(&*source, blobs.as_deref(), scope, &mut take, &mut progress);
    let tally = audited.await.map_err(|error| unreadable(&error))?;
    if scope.run.is_some() && tally.runs == 0 {
        return Err(Failure::usage("there is no such run in this store"));
    }
    found.end(&tally, screen)
}

fn parsed<T: std::str::FromStr>(flag: &str, text: Option<&str>) -> Result<Option<T>, Failure> {
    text.map(|text| {
        text.parse()
            .map_err(|_| Failure::usage(format!("{flag}: {text} is no id of that kind")))
    })
    .transpose()
}

type Opened = (Arc<dyn AuditSource>, Arc<dyn BlobStore>);

async fn open(directory: &Path, database: Option<&DatabaseUrl>) -> Result<Opened, Failure> {
    if let Some(url) = database {
        let source = PostgresAudit::open(url.reveal()).await.map_err(|error| {
            Failure::unavailable(format!("the store in {url} cannot be audited"))
                .because(&error)
                .hint("name the database of a server with --database")
        })?;
        let source = Arc::new(source);
        return Ok((Arc::clone(&source) as Arc<dyn AuditSource>, source));
    }
    let source = SqliteAudit::open(directory).map_err(|error| {
        Failure::unavailable(format!("the store in {} cannot be audited", directory.display()))
            .because(&error)
            .hint("name the data directory of a server with --data")
    })?;
    Ok((Arc::new(source), Arc::new(FileBlobs::read_only(directory))))
}

fn unreadable(error: &JournalError) -> Failure {
    Failure::unavailable("the audit was interrupted")
        .because(error)
        .hint("what was found until then is above; run it again")
}

/// Findings as they come.
struct Found<'a> {
    screen: &'a Screen,
    kept: Vec<Value>,
    failure: Option<Failure>,
}

/// A finding as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    kind: &'static str,
    promise: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<TenantId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    detail: &'a str,
    hint: &'static str,
}

impl<'a> Shown<'a> {
    fn of(finding: &'a Finding) -> Self {
        let (tenant_id, run_id, seq) = match finding.place {
            Place::Store => (None, None, None),
            Place::Tenant(tenant) => (Some(tenant), None, None),
            Place::Run(run) => (Some(run.tenant), Some(run.run), None),
            Place::Event(run, seq) => (Some(run.tenant), Some(run.run), Some(seq.0)),
        };
        Self {
            kind: finding.kind.name(),
            promise: finding.kind.promise(),
            tenant_id,
            run_id,
            seq,
            detail: &finding.detail,
            hint: finding.kind.hint(),
        }
    }
}

impl<'a> Found<'a> {
    const fn new(screen: &'a Screen) -> Self {
        Self {
            screen,
            kept: Vec::new(),
            failure: None,
        }
    }

    fn take(&mut self, finding: &Finding) {
        let shown = Shown::of(finding);
        let printed = match self.screen.form {
            Form::JsonLines => self.screen.document(&shown),
            Form::Json => {
                if self.kept.len() < MOST_FINDINGS {
                    self.kept.push(json!(shown));
                }
                Ok(())
            }
            Form::Text => {
                let line = self.screen.paint(Style::Bad, &finding.to_string());
                self.screen
                    .line(&line)
                    .and_then(|()| self.screen.line(&format!("  → {}", shown.hint)))
            }
        };
        if let Err(failure) = printed {
            self.failure.get_or_insert(failure);
        }
    }

    fn end(self, tally: &Tally, screen: &Screen) -> Result<Exit, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let counts = json!({
            "runs": tally.runs, "ended": tally.ended, "events": tally.events, "steps": tally.steps,
            "budgets": tally.scopes, "blobs": tally.blobs, "findings": tally.findings,
        });
        match screen.form {
            Form::Json => screen.document(&json!({ "findings": self.kept, "audited": counts }))?,
            Form::JsonLines => screen.document(&json!({ "audited": counts }))?,
            Form::Text => {
                let verdict = match tally.findings {
                    0 => screen.paint(Style::Good, "nothing is wrong"),
                    1 => screen.paint(Style::Bad, "1 finding"),
                    many => screen.paint(Style::Bad, &format!("{many} findings")),
                };
                screen.line(&format!(
                    "{verdict}: {} runs ({} ended), {} events, {} answered steps, {} budgets, {} files and manifests",
                    tally.runs, tally.ended, tally.events, tally.steps, tally.scopes, tally.blobs
                ))?;
            }
        }
        Ok(if tally.findings == 0 {
            Exit::Ok
        } else {
            Exit::Negative
        })
    }
}
