//! The points: one for each place in the code.

macro_rules! points {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $fp:literal, $starred:literal;)+) => {
        /// A place in the code where a test may step in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Point {
            $($(#[doc = $doc])+ $name,)+
        }

        #[cfg(all(feature = "faults", debug_assertions))]
        impl Point {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Its number in the table of fault points.
            pub const fn fault_point(self) -> u8 {
                match self { $(Self::$name => $fp,)+ }
            }

            /// Whether the place is also to survive an error, a delay and an outcome that nobody knows.
            pub const fn is_starred(self) -> bool {
                match self { $(Self::$name => $starred,)+ }
            }

            /// The point of that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|point| point.name() == name)
            }
        }
    };
}

points! {
    /// A request was parsed; its admission has not begun.
    AdmitParsed = "admit.parsed", 1, false;
    /// Within the admission's transaction, between the run and the money.
    AdmitHalf = "admit.half", 2, true;
    /// The admission is committed; its answer is not written.
    AdmitCommitted = "admit.committed", 3, true;
    /// A half of the answer to an admission is written.
    AnswerHalf = "answer.half-written", 4, false;
    /// The run was launched, its drive has not begun.
    Launched = "host.launched", 5, false;
    /// A claim is committed, and nothing was done with it.
    ClaimCommitted = "claim.committed", 6, true;
    /// A journal is read but not decoded.
    JournalRead = "drive.journal-read", 7, false;
    /// Limits are checked; the intent to call a model is not durable.
    ModelBeforeIntent = "model.before-intent", 8, true;
    /// Within an append's transaction, between the row of the run and its events.
    AppendHalf = "append.half", 9, true;
    /// The intent to call a model is durable; nothing is sent.
    ModelIntended = "model.intended", 10, false;
    /// A request to a model is on its way.
    ModelSent = "model.sent", 11, false;
    /// The head of a model's answer is here, its body is not.
    ModelMidAnswer = "model.mid-answer", 12, false;
    /// The answer of a model is here; it is not durable.
    ModelAnswered = "model.answered", 13, false;
    /// An append is committed; its owner does not know.
    AppendCommitted = "append.committed", 14, true;
    /// A failure is found to be worth another attempt; it is not durable.
    RetryDecided = "retry.decided", 16, true;
    /// A failed attempt is durable; nobody waits for the next one yet.
    RetryCommitted = "retry.committed", 17, true;
    /// The intent to run a tool is durable; it has not begun.
    ToolIntended = "tool.intended", 18, true;
    /// A tool has answered; that is not durable.
    ToolAnswered = "tool.answered", 22, false;
    /// The tool before is done, the intent of the next one is not durable.
    ToolBeforeIntent = "tool.before-intent", 23, false;
    /// A result was refused; that is not durable.
    ResultRefused = "result.refused", 24, true;
    /// The run has its end; it is not durable.
    EndBeforeCommit = "end.before-commit", 25, true;
    /// The end is committed; no reader was woken.
    EndUnannounced = "end.unannounced", 26, true;
    /// The end is committed; the workspace is still there.
    EndBeforeDiscard = "end.before-discard", 27, false;
    /// A cancel is durable; nobody was told.
    CancelCommitted = "cancel.committed", 28, true;
    /// A call in flight was given up; that is not durable.
    CallAborted = "cancel.call-aborted", 29, false;
    /// A cancel is about to be written, while the run may be about to end.
    CancelBeforeCommit = "cancel.before-commit", 30, true;
    /// Leases are due; they are not renewed.
    LeaseDue = "lease.due", 31, true;
    /// A lease is lost; the drive goes on.
    LeaseLost = "lease.lost", 32, false;
    /// Free runs are looked for; none is claimed.
    SweepBeforeClaim = "sweep.before-claim", 33, true;
    /// One claimed run of several was started.
    SweepHalf = "sweep.half", 34, true;
    /// An event is read for a reader; it is not written.
    FrameBefore = "stream.before-frame", 35, false;
    /// A half of an event is written to its reader.
    FrameHalf = "stream.half-frame", 36, false;
    /// A reader has everything that was stored, and does not wait yet.
    StreamSeam = "stream.seam", 37, true;
    /// One step of a migration is committed, the next has not begun.
    MigrateBetween = "migrate.between", 46, false;
    /// The server drains.
    DrainBegun = "drain.begun", 47, false;
    /// The key of an admission is written in its transaction.
    KeyKept = "admit.key-kept", 48, true;
    /// A connection is about to be accepted.
    Accept = "serve.accept", 49, false;
}
