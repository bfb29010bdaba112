//! Hosts runs in this process: claims them, drives them, renews their leases, gives them back.

use crate::{
    active::ActiveTime,
    ambient::RuntimeSpawner,
    drive::{DriveEnd, Fresh, Launch as DriveLaunch, StopSwitch, drive},
    lease::Lease,
    ports::{Deps, Spawner},
};
use portolan_core::{
    agent::AgentVersion,
    event::RunQueued,
    faults::{self, Point},
    ids::{Epoch, OwnerId},
    time::Timestamp,
};
use portolan_journal::{Claim, ClaimRequest, Claimed, DeadOwners, RenewRequest, RunRef};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Moments that are remembered at most. What is due later is found by the sweep.
const MAX_DUE: usize = 10_000;

/// How a host works.
#[derive(Debug, Clone, Copy)]
pub struct HostOptions {
    /// Runs that are driven at once.
    pub max_concurrent_runs: usize,
    /// How long a claim holds without renewal, in milliseconds.
    pub lease_ms: u64,
    /// How often leases are renewed and free runs looked for, in milliseconds.
    pub sweep_ms: u64,
    /// Whose runs may be taken over.
    pub dead: DeadOwners,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            max_concurrent_runs: 256,
            lease_ms: 15_000,
            sweep_ms: 5_000,
            dead: DeadOwners::LeaseExpired,
        }
    }
}

/// A run that was admitted and claimed in one transaction.
#[derive(Debug)]
pub struct Launch {
    /// Which run.
    pub run: RunRef,
    /// The generation of the claim.
    pub epoch: Epoch,
    /// Its request.
    pub queued: RunQueued,
    /// Its agent.
    pub agent: Arc<AgentVersion>,
    /// When it was admitted.
    pub at: Timestamp,
}

/// A free place for one run.
#[derive(Debug)]
pub struct Slot {
    claim: Claim,
    lease: Lease,
    permit: OwnedSemaphorePermit,
}

impl Slot {
    /// What the admission has to claim for this place.
    pub const fn claim(&self) -> Claim {
        self.claim
    }
}

/// A run that is driven here.
#[derive(Debug)]
struct Driven {
    epoch: Epoch,
    lease: Lease,
    active: Option<ActiveTime>,
    abort: CancellationToken,
}

/// Drives the runs of this process.
#[derive(Debug)]
pub struct Host {
    deps: Deps,
    options: HostOptions,
    owner: OwnerId,
    places: Arc<Semaphore>,
    /// In order, so that the same runs are renewed in the same order: a simulation has to repeat itself.
    driven: Mutex<BTreeMap<RunRef, Driven>>,
    /// Runs whose drive was lost: owned by this process, driven by nobody.
    stranded: Mutex<Vec<(RunRef, Epoch)>>,
    /// When runs that wait are due, as far as this process let them wait. The sweep stands behind it.
    due: Mutex<BTreeSet<Timestamp>>,
    stop: StopSwitch,
    spawner: Arc<dyn Spawner>,
    tasks: TaskTracker,
    wake: Notify,
    /// Whether runs may be waiting for a place.
    backlog: AtomicBool,
    first_sweep_done: AtomicBool,
    /// When the leases of all that is driven here were last renewed.
    renewed_at: Mutex<Timestamp>,
    closed: CancellationToken,
}

impl Host {
    /// A host with an owner id of its own, whose tasks run on the runtime that it is called in.
    pub fn new(deps: Deps, options: HostOptions) -> Arc<Self> {
        Self::with_spawner(deps, options, Arc::new(RuntimeSpawner))
    }

    /// A host whose tasks run where the spawner puts them.
    pub fn with_spawner(deps: Deps, options: HostOptions, spawner: Arc<dyn Spawner>) -> Arc<Self> {
        let renewed_at = deps.clock.now();
        let owner = deps.entropy.owner_id(renewed_at);
        Arc::new(Self {
            deps,
            options,
            owner,
            places: Arc::new(Semaphore::new(options.max_concurrent_runs)),
            driven: Mutex::default(),
            stranded: Mutex::default(),
            due: Mutex::default(),
            stop: StopSwitch::default(),
            spawner,
            tasks: TaskTracker::new(),
            wake: Notify::new(),
            backlog: AtomicBool::new(false),
            first_sweep_done: AtomicBool::new(false),
            renewed_at: Mutex::new(renewed_at),
            closed: CancellationToken::new(),
        })
    }

    /// What the runs are driven with.
    pub const fn deps(&self) -> &Deps {
        &self.deps
    }

    fn claim(&self) -> Claim {
        Claim {
            owner: self.owner,
            lease_until: self.deps.clock.now().plus_ms(self.options.lease_ms),
        }
    }

    /// What a claim that is made now holds for, by the clock of this process.
    fn lease(&self) -> Lease {
        self.lease_until(self.lease_end_us())
    }

    /// The owner of an embedded store is the only one, and its lease is none.
    fn lease_until(&self, end_us: u64) -> Lease {
        match self.options.dead {
            DeadOwners::AllOthers => Lease::forever(),
            DeadOwners::LeaseExpired => Lease::until(end_us),
        }
    }

    fn lease_end_us(&self) -> u64 {
        let now_us = self.deps.clock.monotonic_us();
        now_us.saturating_add(self.options.lease_ms.saturating_mul(1_000))
    }

    /// A free place, if there is one and older runs are not waiting for it.
    pub fn reserve(&self) -> Option<Slot> {
        if self.is_draining() || self.backlog.load(Ordering::Relaxed) {
            return None;
        }
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(Slot {
            lease: self.lease(),
            claim: self.claim(),
            permit,
        })
    }

    /// Drives a run that was admitted with the claim of a place.
    pub fn launch(self: &Arc<Self>, slot: Slot, launch: Launch) {
        let Launch {
            run,
            epoch,
            queued,
            agent,
            at,
        } = launch;
        let fresh = Fresh {
            queued: Box::new(queued),
            agent,
            at,
        };
        self.start(
            DriveLaunch {
                run,
                epoch,
                redrives: 0,
                lease: slot.lease,
                fresh: Some(fresh),
            },
            slot.permit,
        );
    }

    /// Looks for free runs soon: after an admission without a place, or a command.
    pub fn poke(&self) {
        self.backlog.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Whether free runs were looked for at least once.
    pub fn first_sweep_done(&self) -> bool {
        self.first_sweep_done.load(Ordering::Relaxed)
    }

    /// Whether the host gives its runs back.
    pub fn is_draining(&self) -> bool {
        self.stop.is_draining()
    }

    /// How many runs are driven here now.
    pub fn driven_runs(&self) -> usize {
        self.driven().len()
    }

    fn driven(&self) -> MutexGuard<'_, BTreeMap<RunRef, Driven>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, launch: DriveLaunch, permit: OwnedSemaphorePermit) {
        let (run, epoch, is_fresh) = (launch.run, launch.epoch, launch.fresh.is_some());
        let abort = CancellationToken::new();
        let driven = Driven {
            epoch,
            lease: launch.lease.clone(),
            active: None,
            abort: abort.clone(),
        };
        if let Some(earlier) = self.driven().insert(run, driven) {
            // Claimed again while it was driven here: the earlier drive is fenced and stops.
            earlier.abort.cancel();
        }
        let host = Arc::clone(self);
        let task = async move {
            let share = |active: ActiveTime| {
                if let Some(driven) = host.driven().get_mut(&run).filter(|driven| driven.epoch == epoch) {
                    driven.active = Some(active);
                }
            };
            let guard = Guard {
                host: &host,
                run,
                epoch,
            };
            if is_fresh {
                faults::at(Point::Launched).await;
            }
            let end = tokio::select! {
                biased;
                end = drive(&host.deps, launch, &host.stop, share) => end,
                () = abort.cancelled() => DriveEnd::Fenced,
            };
            guard.ended(end);
            drop(permit);
            if host.backlog.load(Ordering::Relaxed) {
                host.wake.notify_one();
            }
        };
        self.spawner.spawn(Box::pin(self.tasks.track_future(task)));
    }

    /// Sweeps at boot, whenever it is poked, and at its interval, until the host is closed.
    pub async fn run(self: &Arc<Self>) {
        loop {
            self.sweep().await;
            let pause = self.deps.clock.sleep_ms(self.pause_ms());
            tokio::select! {
                biased;
                () = pause => {}
                () = self.wake.notified() => {}
                () = self.closed.cancelled() => return,
            }
        }
    }

    /// How long to sleep before the next sweep: its interval, or less if a run is due earlier.
    fn pause_ms(&self) -> u64 {
        let now = self.deps.clock.now();
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        while due.first().is_some_and(|first| *first <= now) {
            due.pop_first();
        }
        // Rounded up, so that the run is due when the sweep looks.
        let until_first = due
            .first()
            .map_or(u64::MAX, |first| first.ms_since(now).saturating_add(1));
        until_first.min(self.options.sweep_ms)
    }

    /// Takes note of when a run is due, so that it need not wait for the interval of the sweep.
    fn look_again_at(&self, until: Timestamp) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.insert(until);
        if due.len() > MAX_DUE {
            due.pop_last();
        }
        drop(due);
        self.wake.notify_one();
    }

    /// Renews leases at a third of their length, until the host is closed. Runs apart from the sweep.
    pub async fn renew_leases(self: &Arc<Self>) {
        loop {
            let pause = self.deps.clock.sleep_ms(self.options.lease_ms / 3);
            tokio::select! {
                biased;
                () = self.closed.cancelled() => return,
                () = pause => {}
            }
            self.renew().await;
        }
    }

    /// Renews the leases of all that is driven here. Whether that is done.
    async fn renew(self: &Arc<Self>) -> bool {
        let at = self.deps.clock.now();
        let runs: Vec<(RunRef, Epoch, u64)> = self
            .driven()
            .iter()
            .map(|(run, driven)| {
                (
                    *run,
                    driven.epoch,
                    driven.active.as_ref().map_or(0, ActiveTime::used_ms),
                )
            })
            .collect();
        if runs.is_empty() {
            self.note_renewal(at);
            return true;
        }
        let lease_end_us = self.lease_end_us();
        let asked: Vec<(RunRef, Epoch)> = runs.iter().map(|(run, epoch, _)| (*run, *epoch)).collect();
        if faults::at(Point::LeaseDue).await.is_some() {
            return false;
        }
        match self
            .deps
            .journal
            .renew(RenewRequest {
                claim: self.claim(),
                runs,
            })
            .await
        {
            Ok(renewed) => {
                for run in renewed.commanded {
                    self.deps.journal.hub().commanded(run);
                }
                if !renewed.lost.is_empty() {
                    faults::at(Point::LeaseLost).await;
                }
                let driven = self.driven();
                for run in &renewed.lost {
                    if let Some(driven) = driven.get(run) {
                        driven.abort.cancel();
                    }
                }
                for (run, epoch) in asked {
                    if let Some(driven) = driven.get(&run)
                        && driven.epoch == epoch
                        && !renewed.lost.contains(&run)
                    {
                        driven.lease.extend_to(lease_end_us);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "leases could not be renewed");
                return false;
            }
        }
        self.note_renewal(at);
        true
    }

    fn note_renewal(&self, at: Timestamp) {
        *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Whether a run of this owner whose lease is over is one that nobody drives here. On an embedded store such runs are
    /// claimed: their claim was committed and its answer was lost. What is driven is renewed before that, however long this
    /// process was stopped.
    async fn is_renewed(self: &Arc<Self>) -> bool {
        let renewed_at = *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_late = self.deps.clock.now().ms_since(renewed_at) > self.options.lease_ms / 2;
        self.options.dead == DeadOwners::LeaseExpired || !is_late || self.renew().await
    }

    /// Takes free runs while there are places. One bad run never stops it.
    async fn sweep(self: &Arc<Self>) {
        self.deps.journal.hub().forget_unfollowed();
        self.give_back_stranded().await;
        while !self.is_draining() {
            self.backlog.store(false, Ordering::Relaxed);
            let free = self.places.available_permits();
            if free == 0 {
                self.backlog.store(true, Ordering::Relaxed);
                break;
            }
            let mut permits = Vec::new();
            while permits.len() < free.min(128) {
                match Arc::clone(&self.places).try_acquire_owned() {
                    Ok(permit) => permits.push(permit),
                    Err(_) => break,
                }
            }
            // Before the request, so that it ends no later than the one in the store.
            let lease_end_us = self.lease_end_us();
            let request = ClaimRequest {
                claim: self.claim(),
                now: self.deps.clock.now(),
                max: u32::try_from(permits.len()).unwrap_or(u32::MAX),
                dead: self.options.dead,
            };
            if !self.is_renewed().await || faults::at(Point::SweepBeforeClaim).await.is_some() {
                return;
            }
            let asked = permits.len();
            let claimed = match self.deps.journal.claim(request).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    tracing::warn!(%error, "free runs could not be claimed");
                    return;
                }
            };
            let got = claimed.len();
            if got > 0 && faults::at(Point::ClaimCommitted).await.is_some() {
                tracing::warn!("the answer to a claim is lost");
                return;
            }
            for (started, (Claimed { run, epoch, redrives }, permit)) in
                claimed.into_iter().zip(permits).enumerate()
            {
                if started == 1 && faults::at(Point::SweepHalf).await.is_some() {
                    return;
                }
                self.start(
                    DriveLaunch {
                        run,
                        epoch,
                        redrives,
                        lease: self.lease_until(lease_end_us),
                        fresh: None,
                    },
                    permit,
                );
            }
            if got < asked {
                break;
            }
        }
        self.first_sweep_done.store(true, Ordering::Relaxed);
    }

    async fn give_back_stranded(&self) {
        let stranded = std::mem::take(&mut *self.stranded.lock().unwrap_or_else(PoisonError::into_inner));
        if stranded.is_empty() {
            return;
        }
        if let Err(error) = self.deps.journal.release(stranded.clone()).await {
            tracing::warn!(%error, "runs could not be given back");
            self.stranded
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(stranded);
        }
    }

    /// Stops claiming, lets the steps in flight finish for a while, gives every run back.
    pub async fn drain(self: &Arc<Self>, grace_ms: u64) {
        self.stop.drain();
        faults::at(Point::DrainBegun).await;
        self.tasks.close();
        let grace = self.deps.clock.sleep_ms(grace_ms);
        let finished = tokio::select! {
            biased;
            () = self.tasks.wait() => true,
            () = grace => false,
        };
        if !finished {
            for driven in self.driven().values() {
                driven.abort.cancel();
            }
            self.tasks.wait().await;
        }
        self.give_back_stranded().await;
        self.closed.cancel();
    }
}

/// Takes a run out of the table however its drive ends, also by a panic.
struct Guard<'a> {
    host: &'a Host,
    run: RunRef,
    epoch: Epoch,
}

impl Guard<'_> {
    fn ended(self, end: DriveEnd) {
        let Self { host, run, epoch } = &self;
        let strand = match end {
            DriveEnd::Ended | DriveEnd::Released | DriveEnd::Missing => false,
            DriveEnd::Waiting { until } => {
                host.look_again_at(until);
                false
            }
            DriveEnd::Fenced => true,
            DriveEnd::Lost(error) => {
                tracing::warn!(run = %run.run, %error, "a run is given back: its journal cannot be used");
                true
            }
            DriveEnd::Defect(message) => {
                tracing::error!(run = %run.run, message, "a run is given back after a defect");
                true
            }
        };
        host.take_out(*run, *epoch, strand);
        std::mem::forget(self);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        tracing::error!(run = %self.run.run, "the drive of a run panicked");
        self.host.take_out(self.run, self.epoch, true);
    }
}

impl Host {
    fn take_out(&self, run: RunRef, epoch: Epoch, strand: bool) {
        let mut driven = self.driven();
        if driven.get(&run).is_some_and(|driven| driven.epoch == epoch) {
            driven.remove(&run);
        }
        drop(driven);
        if strand {
            // Releasing with a stale epoch changes nothing, so it is always safe to ask for it.
            self.stranded
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((run, epoch));
            self.backlog.store(true, Ordering::Relaxed);
            self.wake.notify_one();
        }
    }
}
