//! The planted bugs. To add one, add a line.

macro_rules! plants {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $promise:literal;)+) => {
        /// A bug that tests must find when it is switched on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Plant {
            $($(#[doc = $doc])+ $name,)+
        }

        #[cfg(all(feature = "faults", debug_assertions))]
        impl Plant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The number of the promise that it breaks.
            pub const fn promise(self) -> u8 {
                match self { $(Self::$name => $promise,)+ }
            }

            /// The bug of that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|plant| plant.name() == name)
            }
        }
    };
}

plants! {
    /// An admission is answered before it is committed.
    AckBeforeCommit = "ack-before-commit", 1;
    /// A run that has ended takes another terminal event.
    SecondTerminal = "second-terminal", 2;
    /// The timer of a run that waits is forgotten.
    TimerForgotten = "timer-forgotten", 3;
    /// The key of an admission is not looked at.
    KeyIgnored = "key-ignored", 4;
    /// A run is taken over under the generation that it had.
    TakenOverUnraised = "taken-over-unraised", 5;
    /// Queued runs that nobody started are not swept.
    QueuedNotSwept = "queued-not-swept", 6;
    /// A completed step is dispatched again.
    CompletedDispatchedAgain = "completed-dispatched-again", 7;
    /// A crash moves the attempt.
    AttemptRaisedByCrash = "attempt-raised-by-crash", 8;
    /// The key of a call changes when it is sent again.
    KeyChangesOnResend = "key-changes-on-resend", 9;
    /// The effect comes before its intent is durable.
    EffectBeforeIntent = "effect-before-intent", 10;
    /// A request that differs from the recorded one goes on.
    DivergenceIgnored = "divergence-ignored", 11;
    /// A tool in doubt that may run once runs again.
    OnceToolRunsAgain = "once-tool-runs-again", 12;
    /// Calls of a batch run in reverse order after a crash.
    BatchOutOfOrder = "batch-out-of-order", 13;
    /// A crash forgets how many calls were made.
    CountsResetByCrash = "counts-reset-by-crash", 14;
    /// A refused append still takes its number.
    SeqWithGaps = "seq-with-gaps", 15;
    /// The status moves without its event.
    StatusWithoutEvent = "status-without-event", 16;
    /// The generation of the owner is not looked at.
    EpochUnchecked = "epoch-unchecked", 17;
    /// NUL characters are cut out of what is stored.
    NulStripped = "nul-stripped", 18;
    /// The usage of runs that failed or were cancelled is not written.
    UsageOnlyOfSuccess = "usage-only-of-success", 20;
    /// What a call cost is booked twice.
    SettledTwice = "settled-twice", 21;
    /// A budget is read and written in two steps.
    GateWithoutReserve = "gate-without-reserve", 22;
    /// A call is made though its money was refused.
    TopUpIgnored = "top-up-ignored", 23;
    /// A cost that is too large wraps around.
    CostWraps = "cost-wraps", 24;
    /// What a run had reserved is not given back when it ends.
    ReservationLeaks = "reservation-leaks", 25;
    /// A refused admission keeps its key.
    RefusalKeepsKey = "refusal-keeps-key", 26;
    /// What was committed between the replay and the wait is not told.
    GapAtTheSeam = "gap-at-the-seam", 28;
    /// A tail tells an event before it is committed.
    ToldBeforeCommit = "told-before-commit", 29;
    /// A tail ends by the status, before the last event.
    EndsByStatus = "ends-by-status", 30;
    /// A page is as heavy as the journal.
    PageUnbounded = "page-unbounded", 31;
    /// A tail says nothing while nothing happens.
    SilenceUntold = "silence-untold", 32;
}
