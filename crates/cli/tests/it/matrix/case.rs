//! One case: a point, a way to fail, and what came of it.

use super::{judge::judge, provider::Provider, server::Supervisor, users::Users};
use crate::support::scratch;
use futures::FutureExt as _;
use portolan_core::faults::Point;
use portolan_testkit::postgres::Cluster;
use std::{
    fmt,
    panic::AssertUnwindSafe,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// A case that is not over by then hangs.
const MOST: Duration = Duration::from_secs(75);

/// How a point fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Kill,
    Error,
    Delay,
    Unknown,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Error => "error",
            Self::Delay => "delay",
            Self::Unknown => "unknown",
        }
    }

    /// The rule's action. The delay is longer than a lease.
    const fn action(self) -> &'static str {
        match self {
            Self::Kill => "die",
            Self::Error => "error",
            Self::Delay => "delay:900",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) point: Point,
    pub(super) kind: Kind,
    pub(super) nth: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} {}", self.point.name(), self.nth, self.kind.name())
    }
}

/// What came of a case.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) hits: usize,
    pub(super) deaths: u32,
    pub(super) took_ms: u128,
    /// What does not hold.
    pub(super) wrong: Option<String>,
}

impl Verdict {
    /// Each point is passed at least once, and then it kills; there may be no second time.
    pub(super) fn is_good(&self, case: Case) -> bool {
        let died = case.kind != Kind::Kill || self.hits == 0 || self.deaths > 0;
        self.wrong.is_none() && died && (self.hits > 0 || case.nth > 1)
    }

    pub(super) fn said(&self, case: Case) -> &str {
        match &self.wrong {
            Some(wrong) => wrong.lines().next().unwrap_or("wrong"),
            None if !self.is_good(case) => "never reached",
            None if self.hits == 0 => "holds; there is no second time",
            None => "holds",
        }
    }
}

impl Case {
    /// The rules under which the first life runs, or the second where a first one must have left something behind.
    pub(super) fn rules(self) -> String {
        let rule = format!("{}@{}={}", self.point.name(), self.nth, self.kind.action());
        match self.point {
            // Renewed too late, the lease has gone to somebody else.
            Point::LeaseLost => format!("lease.due@1=delay:1500;{rule}"),
            _ => rule,
        }
    }

    /// Whether the point is one of a server that finds the runs of another.
    pub(super) const fn needs_heritage(self) -> bool {
        matches!(self.point, Point::SweepHalf | Point::JournalRead)
    }

    /// Whether a run must be kept in flight until the point was passed.
    pub(super) const fn needs_patience(self) -> bool {
        matches!(self.point, Point::LeaseDue | Point::LeaseLost)
    }

    /// Whether the store comes by only where a budget is to be judged: several statements instead of one.
    const fn needs_budget(self) -> bool {
        matches!(self.point, Point::AdmitHalf | Point::AppendHalf | Point::KeyKept)
    }

    pub(super) async fn run(self, cluster: Option<Arc<Cluster>>) -> Verdict {
        let began = Instant::now();
        let folder = scratch();
        let report = folder.path().join("faults.txt");
        let played = AssertUnwindSafe(tokio::time::timeout(MOST, self.play(folder.path(), cluster)))
            .catch_unwind()
            .await;
        let (deaths, wrong) = match played {
            Ok(Ok(deaths)) => (deaths, None),
            Ok(Err(_)) => (0, Some("it hangs".to_owned())),
            Err(panic) => (0, Some(panic_text(&*panic))),
        };
        let name = self.point.name();
        let passed = std::fs::read_to_string(&report).unwrap_or_default();
        let verdict = Verdict {
            hits: passed.lines().filter(|line| *line == name).count(),
            deaths,
            took_ms: began.elapsed().as_millis(),
            wrong,
        };
        if !verdict.is_good(self) && std::env::var_os("PORTOLAN_MATRIX_KEEP").is_some() {
            let _ = folder.keep();
        }
        verdict
    }

    async fn play(self, folder: &Path, cluster: Option<Arc<Cluster>>) -> u32 {
        let provider = Provider::start(folder).await;
        let database = cluster.as_ref().map(|cluster| cluster.database());
        let supervisor = Supervisor::new(folder, &provider.url, database.clone(), self);
        let mut users = Users::new(folder, supervisor.servers(), Arc::clone(&provider), self);
        users.apply_agent().await;
        if let (Some(cluster), Some(database), true) = (&cluster, &database, self.needs_budget()) {
            let sql = "INSERT INTO budget_scopes (tenant_id, agent, bound) SELECT tenant_id, '', 1000000000000 FROM tenants";
            cluster.sql(database, sql);
        }
        let seen = users.live_through(&supervisor).await;
        let deaths = supervisor.end().await;
        judge(folder, database.as_deref(), &provider, &seen);
        deaths
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    said.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}
