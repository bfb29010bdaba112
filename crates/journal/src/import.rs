//! A run that ended elsewhere: checked as an audit checks, before anything of it is written.

use crate::{
    audit::{Dossier, Finding, UsageRow, check},
    export::Header,
    fold::Progress,
    row::{RunRef, RunRow},
};
use portolan_core::{
    event::{Event, Recorded},
    ids::{Seq, TenantId},
    money::NanoUsd,
};

/// A whole run to be written as it is.
#[derive(Debug, Clone)]
pub struct Import {
    row: RunRow,
    events: Vec<Recorded>,
}

/// What became of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// The run is there, with its usage, which is marked as billed elsewhere. No budget was touched.
    Done,
    /// The tenant has a run of that id. Nothing was written.
    Exists,
}

/// Why a run is not imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It may go on where it came from.
    #[error("the run has not ended: only runs that have are imported")]
    NotEnded,
    /// The journal does not begin with a request.
    #[error("the journal does not begin with a request")]
    Beginning,
    /// The header says something else than the journal.
    #[error("the header of the file is not that of its journal")]
    Header,
    /// A rule of the audit is broken.
    #[error("the run breaks a rule: {0}")]
    Rule(Box<Finding>),
}

impl Import {
    /// Checks a run and makes the row that its journal folds to.
    pub fn checked(tenant: TenantId, header: &Header, events: Vec<Recorded>) -> Result<Self, ImportError> {
        let at = RunRef {
            tenant,
            run: header.run_id,
        };
        let first = events.first().ok_or(ImportError::Beginning)?;
        let Ok(Event::RunQueued(queued)) = first.event() else {
            return Err(ImportError::Beginning);
        };
        let mut progress = Progress::default();
        for record in &events {
            // What does not fold is a finding of the audit.
            if let Ok(event) = record.event() {
                let _ = progress.apply(&event, record.at, record.step);
            }
        }
        if !progress.status.is_terminal() {
            return Err(ImportError::NotEnded);
        }
        let is_same = (header.ended, &header.agent_name, header.agent_version)
            == (true, &queued.agent_name, queued.agent_version);
        if !is_same {
            return Err(ImportError::Header);
        }
        let row = RunRow {
            at,
            agent: queued.agent_name,
            agent_version: queued.agent_version,
            tags: queued.tags,
            created_at: first.at,
            last_seq: events.last().map_or(Seq::ZERO, |record| record.seq),
            epoch: header.epoch,
            owner: None,
            lease_until: None,
            wake_at: None,
            redrives: 0,
            active_ms: header.active_ms,
            reserved: NanoUsd::ZERO,
            settled: progress.cost,
            cancel_requested_at: None,
            progress,
        };
        let dossier = Dossier {
            usage: vec![UsageRow {
                is_imported: true,
                ..UsageRow::of(&row)
            }],
            row,
            events,
            inbox: 0,
            inbox_count: 0,
        };
        match check(&dossier).into_iter().next() {
            Some(finding) => Err(ImportError::Rule(Box::new(finding))),
            None => Ok(Self {
                row: dossier.row,
                events: dossier.events,
            }),
        }
    }

    /// The row.
    pub const fn row(&self) -> &RunRow {
        &self.row
    }

    /// The journal.
    pub fn events(&self) -> &[Recorded] {
        &self.events
    }
}
