//! What an append comes to: the money, the end of the run and the inbox. Both databases ask here, so that they cannot differ.

use portolan_core::money::NanoUsd;
use portolan_journal::{Append, InboxEntry, NewEvent, Progress, ScopeBooks, ScopeKey, Settlement};

/// An append with what could be prepared before it reached a writer.
#[derive(Debug)]
pub(crate) struct PreparedAppend {
    pub(crate) append: Append,
    /// The fold after the events, and after those of the top-up.
    progress: String,
    topped_up: Option<String>,
}

impl PreparedAppend {
    pub(crate) fn new(append: Append) -> serde_json::Result<Self> {
        let top_up = append.top_up.as_ref();
        Ok(Self {
            progress: serde_json::to_string(&append.progress)?,
            topped_up: top_up
                .map(|top_up| serde_json::to_string(&top_up.progress))
                .transpose()?,
            append,
        })
    }

    /// What the append comes to if its top-up is granted or not.
    pub(crate) fn ending(&self, granted: bool) -> Ending<'_> {
        let top_up = self.append.top_up.as_ref().filter(|_| granted);
        match (top_up, &self.topped_up) {
            (Some(top_up), Some(json)) => Ending {
                topped_up: top_up.amount,
                more: &top_up.events,
                progress: &top_up.progress,
                json,
            },
            _ => Ending {
                topped_up: NanoUsd::ZERO,
                more: &[],
                progress: &self.append.progress,
                json: &self.progress,
            },
        }
    }

    pub(crate) fn settle(&self) -> Settlement {
        self.append.settle.unwrap_or_default()
    }

    /// The events that are written.
    pub(crate) fn events<'a>(&'a self, ending: &Ending<'a>) -> Vec<&'a NewEvent> {
        self.append.events.iter().chain(ending.more).collect()
    }

    /// Settles, judges the top-up, and ends the reservation with the run.
    pub(crate) fn decide(
        &self,
        reserved: NanoUsd,
        settled: NanoUsd,
        mut books: Vec<OpenBooks>,
    ) -> Decision<'_> {
        let settle = self.settle();
        for open in &mut books {
            let kept = &mut open.books;
            kept.reserved = kept.reserved.saturating_sub(settle.reserved);
            kept.settled = kept.settled.saturating_add(settle.actual);
        }
        let asked = self.append.top_up.as_ref().map(|top_up| top_up.amount);
        let refused = asked
            .filter(|amount| *amount > NanoUsd::ZERO)
            .and_then(|amount| without_room(&books, amount));
        let ending = self.ending(refused.is_none());
        let mut reserved = reserved
            .saturating_sub(settle.reserved)
            .saturating_add(ending.topped_up);
        for open in &mut books {
            open.books.reserved = open.books.reserved.saturating_add(ending.topped_up);
        }
        if ending.progress.status.is_terminal() {
            for open in &mut books {
                open.books.reserved = open.books.reserved.saturating_sub(reserved);
            }
            reserved = NanoUsd::ZERO;
        }
        Decision {
            ending,
            refused,
            books,
            reserved,
            settled: settled.saturating_add(settle.actual),
        }
    }

    /// The commands that are open after the append.
    pub(crate) fn remaining(&self, mut inbox: Vec<InboxEntry>, ended: bool) -> Vec<InboxEntry> {
        inbox.retain(|entry| !ended && !self.append.consumed.contains(&entry.id));
        inbox
    }
}

/// How far an append goes.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    pub(crate) topped_up: NanoUsd,
    /// Events of the top-up.
    pub(crate) more: &'a [NewEvent],
    pub(crate) progress: &'a Progress,
    /// The same, encoded.
    pub(crate) json: &'a str,
}

/// What an append does to the run and to the books.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    pub(crate) ending: Ending<'a>,
    pub(crate) refused: Option<ScopeKey>,
    pub(crate) books: Vec<OpenBooks>,
    pub(crate) reserved: NanoUsd,
    pub(crate) settled: NanoUsd,
}

impl Decision<'_> {
    pub(crate) const fn ended(&self) -> bool {
        self.ending.progress.status.is_terminal()
    }
}

/// The books of one scope while a request is decided.
#[derive(Debug)]
pub(crate) struct OpenBooks {
    pub(crate) scope: ScopeKey,
    pub(crate) books: ScopeBooks,
}

/// The first scope that has no room.
pub(crate) fn without_room(scopes: &[OpenBooks], amount: NanoUsd) -> Option<ScopeKey> {
    scopes
        .iter()
        .find(|open| !open.books.has_room_for(amount))
        .map(|open| open.scope.clone())
}

/// How a scope stands in a column: the empty agent is the whole tenant.
pub(crate) fn scope_column(scope: &ScopeKey) -> &str {
    match scope {
        ScopeKey::Tenant => "",
        ScopeKey::Agent(agent) => agent.as_str(),
    }
}
