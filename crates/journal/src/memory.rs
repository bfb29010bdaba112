//! The store in memory: the reference that the others are compared with, and what simulations run on.

use crate::{
    append::{
        Admission, Admitted, Append, Appended, ClaimRequest, Claimed, DeadOwners, NewEvent, RenewRequest,
        Renewed,
    },
    audit::{AuditSource, AuditedScope, Dossier, DossierError, Stray, UsageRow},
    fold::{Progress, RunStatus},
    hub::Hub,
    import::{Import, Imported},
    row::{Command, Commanded, Head, InboxEntry, InboxId, RunFilter, RunRef, RunRow, ScopeBooks, ScopeKey},
    store::{JournalError, JournalStore},
};
use portolan_core::{
    Fut,
    digest::Digest,
    event::Recorded,
    faults::{Plant, planted},
    ids::{Epoch, RunId, Seq, TenantId},
    money::NanoUsd,
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A store whose content ends with the process.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    state: Mutex<State>,
    hub: Hub,
}

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunRef, Run>,
    keys: HashMap<(TenantId, String), (Digest, RunRef, Timestamp)>,
    scopes: BTreeMap<(TenantId, ScopeKey), ScopeBooks>,
    usage: BTreeMap<RunRef, Vec<UsageRow>>,
}

#[derive(Debug)]
struct Run {
    row: RunRow,
    journal: Vec<Recorded>,
    inbox: Vec<InboxEntry>,
    next_inbox: u64,
}

impl Run {
    fn push(&mut self, events: Vec<NewEvent>, at: Timestamp) {
        for event in events {
            let seq = self.row.last_seq.next();
            self.row.last_seq = seq;
            let NewEvent {
                kind,
                step,
                attempt,
                payload,
            } = event;
            self.journal.push(Recorded {
                seq,
                at,
                step,
                attempt,
                kind: kind.into_owned(),
                payload: match planted(Plant::NulStripped) {
                    true => payload.iter().copied().filter(|byte| *byte != 0).collect(),
                    false => payload.to_vec(),
                },
            });
        }
    }
}

impl State {
    /// The scopes with a limit that a run counts in, tenant first.
    fn scopes_of(&self, row: &RunRow) -> Vec<(TenantId, ScopeKey)> {
        [ScopeKey::Tenant, ScopeKey::Agent(row.agent.clone())]
            .into_iter()
            .map(|scope| (row.at.tenant, scope))
            .filter(|key| self.scopes.contains_key(key))
            .collect()
    }

    fn without_room(&self, scopes: &[(TenantId, ScopeKey)], amount: NanoUsd) -> Option<ScopeKey> {
        let full = scopes.iter().find(|key| {
            self.scopes
                .get(*key)
                .is_some_and(|books| match planted(Plant::GateWithoutReserve) {
                    // As a gate does that reads before others have written: it does not see what they hold.
                    true => books.settled.saturating_add(amount) > books.limit,
                    false => !books.has_room_for(amount),
                })
        });
        full.map(|(_, scope)| scope.clone())
    }

    fn book(&mut self, scopes: &[(TenantId, ScopeKey)], change: impl Fn(&mut ScopeBooks)) {
        for key in scopes {
            if let Some(books) = self.scopes.get_mut(key) {
                change(books);
            }
        }
    }

    fn admit(&mut self, admission: Admission) -> Admitted {
        let Admission {
            run,
            agent,
            agent_version,
            tags,
            queued,
            reserve,
            idempotency,
            claim,
            at,
        } = admission;
        if let Some(claim) = &idempotency
            && !planted(Plant::KeyIgnored)
        {
            let held = self.keys.get(&(run.tenant, claim.key.clone()));
            if let Some((fingerprint, made, expires)) = held
                && *expires > at
            {
                return if *fingerprint == claim.fingerprint {
                    Admitted::Replayed(made.run)
                } else {
                    Admitted::KeyReused
                };
            }
        }
        let row = RunRow {
            at: run,
            agent,
            agent_version,
            tags,
            created_at: at,
            progress: Progress::default(),
            last_seq: Seq::ZERO,
            epoch: Epoch(u64::from(claim.is_some())),
            owner: claim.map(|claim| claim.owner),
            lease_until: claim.map(|claim| claim.lease_until),
            wake_at: None,
            redrives: 0,
            active_ms: 0,
            reserved: reserve,
            settled: NanoUsd::ZERO,
            cancel_requested_at: None,
        };
        let scopes = self.scopes_of(&row);
        if let Some(scope) = self.without_room(&scopes, reserve) {
            if let Some(claim) = idempotency
                && planted(Plant::RefusalKeepsKey)
            {
                let held = (claim.fingerprint, run, claim.expires_at);
                self.keys.insert((run.tenant, claim.key), held);
            }
            return Admitted::OverBudget { scope };
        }
        self.book(&scopes, |books| {
            books.reserved = books.reserved.saturating_add(reserve)
        });
        if let Some(claim) = idempotency {
            self.keys.insert(
                (run.tenant, claim.key),
                (claim.fingerprint, run, claim.expires_at),
            );
        }
        let mut created = Run {
            row,
            journal: Vec::new(),
            inbox: Vec::new(),
            next_inbox: 1,
        };
        created.push(vec![queued], at);
        let epoch = claim.map(|_| created.row.epoch);
        self.runs.insert(run, created);
        Admitted::Created { epoch }
    }

    fn claim(&mut self, request: &ClaimRequest) -> Vec<Claimed> {
        let mut free: Vec<RunRef> = self
            .runs
            .values()
            .filter(|run| is_free(&run.row, request))
            .map(|run| run.row.at)
            .collect();
        free.sort_by_key(|at| at.run);
        free.truncate(usize::try_from(request.max).unwrap_or(usize::MAX));
        let mut claimed = Vec::new();
        for at in free {
            let Some(run) = self.runs.get_mut(&at) else {
                continue;
            };
            let row = &mut run.row;
            let waits = row.progress.status == RunStatus::Waiting;
            // A run that waited and was woken as agreed is not re-driven; one whose owner died is, whatever it did.
            if row.epoch > Epoch(0) && (!waits || row.owner.is_some()) {
                row.redrives += 1;
            }
            if row.epoch == Epoch(0) || !planted(Plant::TakenOverUnraised) {
                row.epoch = Epoch(row.epoch.0 + 1);
            }
            row.owner = Some(request.claim.owner);
            row.lease_until = Some(request.claim.lease_until);
            // While the run still waits, the time stays: an owner that dies before it goes on must not strand it.
            row.wake_at = row.wake_at.filter(|_| waits);
            claimed.push(Claimed {
                run: at,
                epoch: row.epoch,
                redrives: row.redrives,
            });
        }
        claimed
    }

    fn append(&mut self, append: Append) -> Appended {
        let Append {
            run,
            epoch,
            after,
            at,
            active_ms,
            events,
            progress,
            advances,
            settle,
            top_up,
            consumed,
            release,
        } = append;
        let Some(kept) = self.runs.get_mut(&run) else {
            return Appended::Fenced;
        };
        let is_stale = kept.row.epoch != epoch && !planted(Plant::EpochUnchecked);
        if is_stale || kept.row.progress.status.is_terminal() {
            if is_stale && planted(Plant::SeqWithGaps) {
                kept.row.last_seq = kept.row.last_seq.next();
            }
            if is_stale && planted(Plant::ToldBeforeCommit) {
                // Readers see it until the next append takes its place.
                let committed = kept.row.last_seq;
                kept.push(events, at);
                kept.row.last_seq = committed;
            }
            return Appended::Fenced;
        }
        if after.is_some_and(|after| after != kept.row.last_seq) {
            return Appended::Elsewhere;
        }
        let waited = kept.row.progress.status == RunStatus::Waiting;
        let mut events = events;
        if progress.status.is_terminal() && planted(Plant::StatusWithoutEvent) {
            events.pop();
        }
        if progress.status.is_terminal() && planted(Plant::SecondTerminal) {
            events.extend(events.last().cloned());
        }
        if planted(Plant::ToldBeforeCommit) {
            let committed = kept.row.last_seq;
            kept.journal.retain(|event| event.seq <= committed);
        }
        kept.push(events, at);
        kept.inbox.retain(|entry| !consumed.contains(&entry.id));
        let row = &mut kept.row;
        row.progress = progress;
        row.active_ms = row.active_ms.max(active_ms);
        if advances {
            row.redrives = 0;
        }
        if let Some(settle) = settle {
            row.reserved = row.reserved.saturating_sub(settle.reserved);
            row.settled = row.settled.saturating_add(settle.actual);
        }
        let row = row.clone();
        let scopes = self.scopes_of(&row);
        let leaks = row.progress.status.is_terminal() && planted(Plant::ReservationLeaks);
        if let Some(settle) = settle {
            self.book(&scopes, |books| {
                if !leaks {
                    books.reserved = books.reserved.saturating_sub(settle.reserved);
                }
                books.settled = books.settled.saturating_add(settle.actual);
                if planted(Plant::SettledTwice) {
                    books.settled = books.settled.saturating_add(settle.actual);
                }
            });
        }
        let mut refused = None;
        if let Some(top_up) = top_up {
            refused = self
                .without_room(&scopes, top_up.amount)
                .filter(|_| top_up.amount > NanoUsd::ZERO);
            if refused.is_none() {
                self.book(&scopes, |books| {
                    books.reserved = books.reserved.saturating_add(top_up.amount)
                });
                let kept = self.kept(run);
                kept.row.reserved = kept.row.reserved.saturating_add(top_up.amount);
                kept.push(top_up.events, at);
                kept.row.progress = top_up.progress;
            }
        }
        let kept = self.kept(run);
        let ended = kept.row.progress.status.is_terminal();
        if ended || release.is_some() {
            kept.row.owner = None;
            kept.row.lease_until = None;
        }
        let still_waits = waited && kept.row.progress.status == RunStatus::Waiting;
        kept.row.wake_at = match release {
            Some(release) => release.wake_at,
            None => kept.row.wake_at.filter(|_| still_waits),
        };
        if ended {
            let usage = UsageRow::of(&kept.row);
            if usage.status == RunStatus::Succeeded || !planted(Plant::UsageOnlyOfSuccess) {
                self.usage.entry(run).or_default().push(usage);
            }
            let kept = self.kept(run);
            let held = std::mem::take(&mut kept.row.reserved);
            kept.inbox.clear();
            if !leaks {
                self.book(&scopes, |books| {
                    books.reserved = books.reserved.saturating_sub(held)
                });
            }
        }
        let kept = self.kept(run);
        kept.row.cancel_requested_at = kept.inbox.iter().map(|entry| entry.at).min();
        let (last_seq, inbox) = (kept.row.last_seq, kept.inbox.clone());
        match refused {
            Some(scope) => Appended::TopUpRefused {
                last_seq,
                inbox,
                scope,
            },
            None => Appended::Committed { last_seq, inbox },
        }
    }

    /// What the runs of a scope hold that have not ended. Books that open begin with it: each of those runs will take its
    /// part out again.
    fn held(&self, tenant: TenantId, scope: &ScopeKey) -> NanoUsd {
        let rows = self.runs.values().map(|run| &run.row);
        let within = rows.filter(|row| match scope {
            ScopeKey::Tenant => row.at.tenant == tenant,
            ScopeKey::Agent(agent) => row.at.tenant == tenant && row.agent == *agent,
        });
        within.fold(NanoUsd::ZERO, |sum, row| sum.saturating_add(row.reserved))
    }

    fn kept(&mut self, run: RunRef) -> &mut Run {
        self.runs
            .get_mut(&run)
            .expect("a run that was found under this lock stays")
    }
}

/// Whether a worker may take a run.
fn is_free(row: &RunRow, request: &ClaimRequest) -> bool {
    let owner_is_dead = match (row.owner, request.dead) {
        (None, _) => true,
        (Some(owner), DeadOwners::AllOthers) if owner != request.claim.owner => true,
        (Some(_), DeadOwners::AllOthers | DeadOwners::LeaseExpired) => {
            row.lease_until.is_none_or(|until| until <= request.now)
        }
    };
    let is_due = match row.progress.status {
        RunStatus::Queued => !planted(Plant::QueuedNotSwept),
        RunStatus::Running => true,
        RunStatus::Waiting => {
            row.cancel_requested_at.is_some()
                || row
                    .wake_at
                    .is_some_and(|wake_at| wake_at <= request.now && !planted(Plant::TimerForgotten))
        }
        RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => false,
    };
    owner_is_dead && is_due
}

impl MemoryJournal {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Alters what is stored behind everybody's back, as a damaged disk would. For tests; false if there is no such run.
    pub fn tamper(&self, run: RunRef, alter: impl FnOnce(&mut Vec<Recorded>)) -> bool {
        match self.state().runs.get_mut(&run) {
            Some(kept) => {
                alter(&mut kept.journal);
                true
            }
            None => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now<'a, T: Send + 'a>(value: T) -> Fut<'a, Result<T, JournalError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl JournalStore for MemoryJournal {
    fn admit(&self, admission: Admission) -> Fut<'_, Result<Admitted, JournalError>> {
        let run = admission.run;
        let admitted = self.state().admit(admission);
        if matches!(admitted, Admitted::Created { .. }) {
            self.hub.committed(run, Seq(1), false);
        }
        now(admitted)
    }

    fn idempotent(
        &self,
        tenant: TenantId,
        key: String,
        at: Timestamp,
    ) -> Fut<'_, Result<Option<(Digest, RunId)>, JournalError>> {
        let state = self.state();
        let held = state.keys.get(&(tenant, key));
        now(held
            .filter(|(_, _, expires)| *expires > at)
            .map(|(fingerprint, made, _)| (*fingerprint, made.run)))
    }

    fn claim(&self, request: ClaimRequest) -> Fut<'_, Result<Vec<Claimed>, JournalError>> {
        now(self.state().claim(&request))
    }

    fn import(&self, import: Import) -> Fut<'_, Result<Imported, JournalError>> {
        let run = import.row().at;
        let mut state = self.state();
        if state.runs.contains_key(&run) {
            return now(Imported::Exists);
        }
        let usage = UsageRow {
            is_imported: true,
            ..UsageRow::of(import.row())
        };
        state.usage.insert(run, vec![usage]);
        let kept = Run {
            row: import.row().clone(),
            journal: import.events().to_vec(),
            inbox: Vec::new(),
            next_inbox: 1,
        };
        self.hub.committed(run, kept.row.last_seq, true);
        state.runs.insert(run, kept);
        now(Imported::Done)
    }

    fn append(&self, append: Append) -> Fut<'_, Result<Appended, JournalError>> {
        let run = append.run;
        let mut state = self.state();
        let appended = state.append(append);
        if !matches!(appended, Appended::Fenced | Appended::Elsewhere) {
            let row = &state.kept(run).row;
            self.hub
                .committed(run, row.last_seq, row.progress.status.is_terminal());
        }
        now(appended)
    }

    fn renew(&self, request: RenewRequest) -> Fut<'_, Result<Renewed, JournalError>> {
        let mut state = self.state();
        let mut renewed = Renewed::default();
        for (run, epoch, active_ms) in request.runs {
            match state.runs.get_mut(&run) {
                Some(kept) if kept.row.epoch == epoch && kept.row.owner == Some(request.claim.owner) => {
                    kept.row.lease_until = Some(request.claim.lease_until);
                    kept.row.active_ms = kept.row.active_ms.max(active_ms);
                    if !kept.inbox.is_empty() {
                        renewed.commanded.push(run);
                    }
                }
                Some(_) | None => renewed.lost.push(run),
            }
        }
        now(renewed)
    }

    fn release(&self, runs: Vec<(RunRef, Epoch)>) -> Fut<'_, Result<(), JournalError>> {
        let mut state = self.state();
        for (run, epoch) in runs {
            if let Some(kept) = state.runs.get_mut(&run).filter(|kept| kept.row.epoch == epoch) {
                kept.row.owner = None;
                kept.row.lease_until = None;
            }
        }
        now(())
    }

    fn command(
        &self,
        run: RunRef,
        command: Command,
        at: Timestamp,
    ) -> Fut<'_, Result<Commanded, JournalError>> {
        let mut state = self.state();
        let Some(kept) = state.runs.get_mut(&run) else {
            return now(Commanded::NotFound);
        };
        if kept.row.progress.status.is_terminal() {
            return now(Commanded::AlreadyTerminal);
        }
        if !kept.inbox.iter().any(|entry| entry.command == command) {
            kept.inbox.push(InboxEntry {
                id: InboxId(kept.next_inbox),
                at,
                command,
            });
            kept.next_inbox += 1;
            kept.row.cancel_requested_at = kept.inbox.iter().map(|entry| entry.at).min();
        }
        drop(state);
        self.hub.commanded(run);
        now(Commanded::Accepted)
    }

    fn inbox(&self, run: RunRef) -> Fut<'_, Result<Vec<InboxEntry>, JournalError>> {
        now(self
            .state()
            .runs
            .get(&run)
            .map(|kept| kept.inbox.clone())
            .unwrap_or_default())
    }

    fn read(&self, run: RunRef, after: Seq, max: u32) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        self.read_page(run, after, max, usize::MAX)
    }

    fn read_page(
        &self,
        run: RunRef,
        after: Seq,
        max: u32,
        max_bytes: usize,
    ) -> Fut<'_, Result<Vec<Recorded>, JournalError>> {
        let state = self.state();
        let journal = state
            .runs
            .get(&run)
            .map(|kept| kept.journal.as_slice())
            .unwrap_or_default();
        let mut page = Vec::new();
        let mut bytes = 0_usize;
        for event in journal.iter().filter(|event| event.seq > after) {
            bytes = bytes.saturating_add(event.payload.len());
            let is_full = page.len() >= usize::try_from(max).unwrap_or(usize::MAX);
            let is_heavy = bytes > max_bytes && !planted(Plant::PageUnbounded);
            if is_full || (is_heavy && !page.is_empty()) {
                break;
            }
            page.push(event.clone());
        }
        now(page)
    }

    fn heads(&self, runs: Vec<RunRef>) -> Fut<'_, Result<Vec<Head>, JournalError>> {
        let state = self.state();
        let heads = runs.into_iter().filter_map(|at| {
            let row = &state.runs.get(&at)?.row;
            Some(Head {
                at,
                last_seq: row.last_seq,
                ended: row.progress.status.is_terminal(),
            })
        });
        now(heads.collect())
    }

    fn run(&self, run: RunRef) -> Fut<'_, Result<Option<RunRow>, JournalError>> {
        now(self.state().runs.get(&run).map(|kept| kept.row.clone()))
    }

    fn list(
        &self,
        tenant: TenantId,
        filter: RunFilter,
        max: u32,
    ) -> Fut<'_, Result<Vec<RunRow>, JournalError>> {
        let state = self.state();
        let rows = state.runs.values().rev().map(|kept| &kept.row);
        let matching = rows.filter(|row| row.at.tenant == tenant && matches_filter(row, &filter));
        now(matching
            .take(usize::try_from(max).unwrap_or(usize::MAX))
            .cloned()
            .collect())
    }

    fn set_scope_limit(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
        limit: Option<NanoUsd>,
    ) -> Fut<'_, Result<(), JournalError>> {
        let mut state = self.state();
        match limit {
            Some(limit) => {
                let held = state.held(tenant, &scope);
                let opened = state.scopes.entry((tenant, scope)).or_insert_with(|| ScopeBooks {
                    reserved: held,
                    ..ScopeBooks::default()
                });
                opened.limit = limit;
            }
            None => drop(state.scopes.remove(&(tenant, scope))),
        }
        now(())
    }

    fn scope_books(
        &self,
        tenant: TenantId,
        scope: ScopeKey,
    ) -> Fut<'_, Result<Option<ScopeBooks>, JournalError>> {
        now(self.state().scopes.get(&(tenant, scope)).copied())
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }
}

fn matches_filter(row: &RunRow, filter: &RunFilter) -> bool {
    filter.status.is_none_or(|status| row.progress.status == status)
        && filter.agent.as_ref().is_none_or(|agent| row.agent == *agent)
        && filter.tag.as_ref().is_none_or(|tag| row.tags.contains(tag))
        && filter.since.is_none_or(|since| row.created_at >= since)
        && filter.until.is_none_or(|until| row.created_at < until)
        && filter.before.is_none_or(|before| row.at.run < before)
}
impl AuditSource for MemoryJournal {
    fn runs(&self, after: Option<RunRef>, max: u32) -> Fut<'_, Result<Vec<RunRef>, JournalError>> {
        let state = self.state();
        let runs = state
            .runs
            .keys()
            .filter(|run| after.is_none_or(|after| **run > after));
        now(runs.take(max as usize).copied().collect())
    }

    fn dossier(&self, run: RunRef) -> Fut<'_, Result<Option<Dossier>, DossierError>> {
        let state = self.state();
        let dossier = state.runs.get(&run).map(|kept| Dossier {
            row: kept.row.clone(),
            events: kept.journal.clone(),
            usage: state.usage.get(&run).cloned().unwrap_or_default(),
            inbox: kept.inbox.len() as u64,
            inbox_count: kept.inbox.len() as u64,
        });
        Box::pin(std::future::ready(Ok(dossier)))
    }

    fn scopes(&self) -> Fut<'_, Result<Vec<AuditedScope>, JournalError>> {
        let state = self.state();
        let scopes = state.scopes.iter().map(|((tenant, scope), books)| AuditedScope {
            tenant: *tenant,
            scope: scope.clone(),
            books: *books,
            held_by_runs: state.held(*tenant, scope),
        });
        now(scopes.collect())
    }

    fn strays(&self, max: u32) -> Fut<'_, Result<Vec<Stray>, JournalError>> {
        let state = self.state();
        let keys = state.keys.values().map(|(_, run, _)| ("idempotency_keys", *run));
        let usage = state.usage.keys().map(|run| ("usage", *run));
        let strays = keys.chain(usage).filter(|(_, run)| !state.runs.contains_key(run));
        let strays = strays.map(|(table, run)| Stray { table, run });
        now(strays.take(max as usize).collect())
    }

    fn damage(&self) -> Fut<'_, Result<Vec<String>, JournalError>> {
        now(Vec::new())
    }
}
