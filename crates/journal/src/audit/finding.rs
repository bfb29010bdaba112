//! Findings: what is wrong, where, and what to do about it.

use crate::row::RunRef;
use portolan_core::ids::{Seq, TenantId};
use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $promise:literal, $hint:literal;)*) => {
        /// What can be wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FindingKind {
            $($(#[$doc])* $kind,)*
        }

        impl FindingKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// The promise that is broken.
            pub const fn promise(self) -> &'static str {
                match self { $(Self::$kind => $promise,)* }
            }

            /// What to do about it.
            pub const fn hint(self) -> &'static str {
                match self { $(Self::$kind => $hint,)* }
            }
        }
    };
}

kinds! {
    /// The database's own check found damage.
    Damaged = "damaged", "P1", "stop the server and restore the database from a backup; `portolan export` still reads what is whole";
    /// The row of a run cannot be read.
    RowUnreadable = "row_unreadable", "P16", "the run is lost to the server: restore its row from a backup";
    /// A number is missing or stands twice.
    NotDense = "not_dense", "P15", "the journal was changed from outside: restore the run from a backup or an export";
    /// The counter of the row is not the number of events.
    CounterDiffers = "counter_differs", "P15", "the row or the journal was changed from outside: restore the run from a backup or an export";
    /// The journal does not begin with `run_queued`.
    WrongBeginning = "wrong_beginning", "P1", "the journal was changed from outside: restore the run from a backup or an export";
    /// There is more than one end, or something after it.
    EndsTwice = "ends_twice", "P2", "report this with `portolan export`: no build may write it";
    /// A payload cannot be read.
    Undecodable = "undecodable", "P18", "the event was changed from outside or written by a later build: compare with an export";
    /// An event cannot follow those before it.
    Unfoldable = "unfoldable", "P5", "the journal was changed from outside: restore the run from a backup or an export";
    /// The row is not the fold of its journal.
    FoldDiffers = "fold_differs", "P16", "the row was changed from outside; the journal is the truth: restore the row from a backup";
    /// A step was answered that was never dispatched.
    AnsweredUndispatched = "answered_undispatched", "P10", "the journal was changed from outside: restore the run from a backup or an export";
    /// A step was dispatched after its answer.
    DispatchedAfterAnswer = "dispatched_after_answer", "P7", "report this with `portolan export`: a call may have been paid twice";
    /// An attempt has another number than the failures before it make.
    WrongAttempt = "wrong_attempt", "P8", "report this with `portolan export`: a call may have been paid twice";
    /// A run has ended without usage.
    UsageMissing = "usage_missing", "P20", "the usage of this run is not billed: enter it from the run's totals";
    /// Usage was written before the end, or twice.
    UsageTooMuch = "usage_too_much", "P20", "this run may be billed twice: compare with its totals";
    /// Usage is not what the steps add up to.
    UsageDiffers = "usage_differs", "P21", "the usage of this run is wrong: the sum of its steps is right";
    /// What a run has settled is not what its steps cost.
    SettledDiffers = "settled_differs", "P21", "the books of this run's budgets may be off by the difference";
    /// A budget holds other than its runs do.
    ReservationDiffers = "reservation_differs", "P25", "set the limit of the budget anew once no run is active: its books begin from the runs";
    /// A run that has ended holds money, an owner, a timer or commands.
    NotLetGo = "not_let_go", "P25", "the row was changed from outside: restore the row from a backup";
    /// Commands are counted that are not there, or the other way round.
    InboxDiffers = "inbox_differs", "P51", "cancel the run again: the command is written anew";
    /// A row belongs to no run.
    Stray = "stray", "P16", "the run was deleted from outside: restore it from a backup, or delete the row";
    /// A file of a run is not kept.
    BlobMissing = "blob_missing", "P1", "the run cannot be taken up and its artifact cannot be read: restore the blobs from a backup";
    /// A file of a run is not what it was.
    BlobDamaged = "blob_damaged", "P1", "restore the blob from a backup: its name is the BLAKE3 digest of its content";
}

/// Where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The whole store.
    Store,
    /// A tenant.
    Tenant(TenantId),
    /// A run.
    Run(RunRef),
    /// An event of a run.
    Event(RunRef, Seq),
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: FindingKind,
    /// Where.
    pub place: Place,
    /// What was found, and what was wanted.
    pub detail: String,
}

impl Finding {
    /// A finding about a run.
    pub fn new(kind: FindingKind, run: RunRef, detail: String) -> Self {
        Self {
            kind,
            place: Place::Run(run),
            detail,
        }
    }

    /// A finding about the store.
    pub const fn whole(kind: FindingKind, detail: String) -> Self {
        Self {
            kind,
            place: Place::Store,
            detail,
        }
    }

    /// A finding about a tenant.
    pub const fn of_tenant(kind: FindingKind, tenant: TenantId, detail: String) -> Self {
        Self {
            kind,
            place: Place::Tenant(tenant),
            detail,
        }
    }

    /// Names the event.
    #[must_use]
    pub fn at(self, seq: Seq) -> Self {
        let place = match self.place {
            Place::Run(run) | Place::Event(run, _) => Place::Event(run, seq),
            place @ (Place::Store | Place::Tenant(_)) => place,
        };
        Self { place, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Store => write!(f, "the store")?,
            Place::Tenant(tenant) => write!(f, "{tenant}")?,
            Place::Run(run) => write!(f, "{}", run.run)?,
            Place::Event(run, seq) => write!(f, "{} event {}", run.run, seq.0)?,
        }
        write!(
            f,
            ": {} ({}): {}",
            self.kind.name(),
            self.kind.promise(),
            self.detail
        )
    }
}
