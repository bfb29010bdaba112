//! The audit: proves on what a store holds that it kept its promises.
//!
//! A store hands out everything about a run as it stood in one moment, and the rules are functions of that. They know
//! nothing of how it was written. An audit writes nothing, holds one run in memory at a time, and goes on after a finding.

mod finding;
mod fold;
mod order;
mod rest;
mod steps;
mod usage;

pub use finding::{Finding, FindingKind, Place};
pub use usage::UsageRow;

use crate::{
    blob::{BlobError, BlobStore},
    row::{RunRef, RunRow, ScopeBooks, ScopeKey},
    store::JournalError,
};
use portolan_core::{
    Fut,
    digest::Digest,
    event::{Event, Recorded},
    ids::TenantId,
    manifest::Entry,
    money::NanoUsd,
};
use std::collections::BTreeSet;

/// Runs that are asked for at once.
const PAGE: u32 = 256;

/// Everything that a store holds about a run, as it stood in one moment.
#[derive(Debug, Clone)]
pub struct Dossier {
    /// The row.
    pub row: RunRow,
    /// The journal, in the order of its numbers, with the gaps that it has.
    pub events: Vec<Recorded>,
    /// The usage rows. One at most, if all is well.
    pub usage: Vec<UsageRow>,
    /// Commands that wait.
    pub inbox: u64,
    /// Commands that wait, as the row counts them.
    pub inbox_count: u64,
}

/// The books of a scope beside what its runs hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedScope {
    /// Whose.
    pub tenant: TenantId,
    /// Which.
    pub scope: ScopeKey,
    /// What the books say.
    pub books: ScopeBooks,
    /// What the scope's runs that have not ended hold.
    pub held_by_runs: NanoUsd,
}

/// A row that belongs to a run which is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The table.
    pub table: &'static str,
    /// The run that it names.
    pub run: RunRef,
}

/// Why a run could not be handed out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DossierError {
    /// What is stored about this run cannot be read. Others can.
    #[error("{0}")]
    Unreadable(String),
    /// The store cannot be used.
    #[error("the store cannot be audited")]
    Store(#[from] JournalError),
}

/// A store that can be audited. It is only read.
pub trait AuditSource: Send + Sync {
    /// Runs of all tenants strictly after one, ordered by tenant and id.
    fn runs(&self, after: Option<RunRef>, max: u32) -> Fut<'_, Result<Vec<RunRef>, JournalError>>;

    /// Everything about a run; `None` if it is gone meanwhile.
    fn dossier(&self, run: RunRef) -> Fut<'_, Result<Option<Dossier>, DossierError>>;

    /// The books of all scopes, each as it stood in one moment with its runs.
    fn scopes(&self) -> Fut<'_, Result<Vec<AuditedScope>, JournalError>>;

    /// Rows without a run, at most so many.
    fn strays(&self, max: u32) -> Fut<'_, Result<Vec<Stray>, JournalError>>;

    /// What the database says about its own pages and indexes. Empty if all is well.
    fn damage(&self) -> Fut<'_, Result<Vec<String>, JournalError>>;
}

/// What is audited.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope {
    /// Only this tenant.
    pub tenant: Option<TenantId>,
    /// Only this run, of whichever tenant.
    pub run: Option<portolan_core::ids::RunId>,
}

/// How far an audit is, and what it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Events.
    pub events: u64,
    /// Steps that were answered.
    pub steps: u64,
    /// Runs that have ended, each with its usage.
    pub ended: u64,
    /// Budget scopes.
    pub scopes: u64,
    /// Blobs that were read and hashed.
    pub blobs: u64,
    /// Findings.
    pub findings: u64,
}

/// Audits a store. `found` hears each finding, `progress` how far it is after every page.
pub async fn audit(
    source: &dyn AuditSource,
    blobs: Option<&dyn BlobStore>,
    scope: Scope,
    found: &mut (dyn FnMut(Finding) + Send),
    progress: &mut (dyn FnMut(&Tally) + Send),
) -> Result<Tally, JournalError> {
    let mut tally = Tally::default();
    let mut known_blobs = BTreeSet::new();
    let mut after = None;
    loop {
        let page = source.runs(after, PAGE).await?;
        for run in &page {
            let is_meant = scope.tenant.is_none_or(|tenant| tenant == run.tenant)
                && scope.run.is_none_or(|only| only == run.run);
            if is_meant {
                one(source, blobs, *run, &mut known_blobs, &mut tally, found).await?;
            }
        }
        progress(&tally);
        match page.last() {
            Some(last) => after = Some(*last),
            None => break,
        }
    }
    if scope.tenant.is_none() && scope.run.is_none() {
        whole(source, &mut tally, found).await?;
    }
    Ok(tally)
}

async fn one(
    source: &dyn AuditSource,
    blobs: Option<&dyn BlobStore>,
    run: RunRef,
    known: &mut BTreeSet<Digest>,
    tally: &mut Tally,
    found: &mut (dyn FnMut(Finding) + Send),
) -> Result<(), JournalError> {
    let mut note = |finding: Finding, tally: &mut Tally| {
        tally.findings += 1;
        found(finding);
    };
    tally.runs += 1;
    let dossier = match source.dossier(run).await {
        Ok(Some(dossier)) => dossier,
        Ok(None) => return Ok(()),
        Err(DossierError::Unreadable(what)) => {
            note(Finding::new(FindingKind::RowUnreadable, run, what), tally);
            return Ok(());
        }
        Err(DossierError::Store(error)) => return Err(error),
    };
    tally.events += dossier.events.len() as u64;
    tally.ended += u64::from(dossier.row.progress.status.is_terminal());
    let completed = dossier
        .events
        .iter()
        .filter(|event| event.kind == "step_completed");
    tally.steps += completed.count() as u64;
    for finding in check(&dossier) {
        note(finding, tally);
    }
    if let Some(blobs) = blobs {
        for (digest, seq) in named_blobs(&dossier) {
            if !known.insert(digest) {
                continue;
            }
            tally.blobs += 1;
            let kind = match blobs.get(digest).await {
                Ok(_) => continue,
                Err(BlobError::Missing(_)) => FindingKind::BlobMissing,
                Err(BlobError::Damaged(_)) => FindingKind::BlobDamaged,
                Err(BlobError::Unusable(why)) => return Err(JournalError::NotCommitted(why)),
            };
            note(Finding::new(kind, run, digest.to_string()).at(seq), tally);
        }
    }
    Ok(())
}

/// Every rule about one run.
pub fn check(dossier: &Dossier) -> Vec<Finding> {
    let mut found = Vec::new();
    order::check(dossier, &mut found);
    fold::check(dossier, &mut found);
    steps::check(dossier, &mut found);
    usage::check(dossier, &mut found);
    rest::check(dossier, &mut found);
    found
}

/// What is true of the store as a whole.
async fn whole(
    source: &dyn AuditSource,
    tally: &mut Tally,
    found: &mut (dyn FnMut(Finding) + Send),
) -> Result<(), JournalError> {
    let mut note = |finding: Finding| {
        tally.findings += 1;
        found(finding);
    };
    for what in source.damage().await? {
        note(Finding::whole(FindingKind::Damaged, what));
    }
    for stray in source.strays(PAGE).await? {
        note(Finding::new(
            FindingKind::Stray,
            stray.run,
            stray.table.to_owned(),
        ));
    }
    let scopes = source.scopes().await?;
    for scope in &scopes {
        if scope.books.reserved != scope.held_by_runs {
            let what = format!(
                "{} holds {} nano-dollars, its runs {}",
                scope_name(&scope.scope),
                scope.books.reserved.0,
                scope.held_by_runs.0
            );
            note(Finding::of_tenant(
                FindingKind::ReservationDiffers,
                scope.tenant,
                what,
            ));
        }
    }
    tally.scopes = scopes.len() as u64;
    Ok(())
}

fn scope_name(scope: &ScopeKey) -> String {
    match scope {
        ScopeKey::Tenant => "the budget of the tenant".to_owned(),
        ScopeKey::Agent(agent) => format!("the budget of the agent {}", agent.as_str()),
    }
}

/// The blobs that a journal names, each with the place that names it.
fn named_blobs(dossier: &Dossier) -> Vec<(Digest, portolan_core::ids::Seq)> {
    let named = dossier.events.iter();
    named
        .flat_map(|record| {
            let blobs = blobs_of(record).into_iter();
            blobs.map(|digest| (digest, record.seq))
        })
        .collect()
}

/// The blobs that an event names: the first manifest, the files of a change, the content of an artifact.
pub fn blobs_of(record: &Recorded) -> Vec<Digest> {
    match record.event() {
        Ok(Event::RunStarted(started)) => started.baseline.into_iter().collect(),
        Ok(Event::StepCompleted(done)) => {
            let entries = done.files.iter().flat_map(|change| change.put.values());
            let files = entries.filter_map(|entry| match entry {
                Entry::File { digest, .. } => Some(*digest),
                Entry::Link { .. } | Entry::Directory | Entry::Unreadable { .. } => None,
            });
            files.collect()
        }
        Ok(Event::ArtifactCreated(artifact) | Event::ArtifactModified(artifact)) => {
            artifact.digest.into_iter().collect()
        }
        Ok(_) | Err(_) => Vec::new(),
    }
}
