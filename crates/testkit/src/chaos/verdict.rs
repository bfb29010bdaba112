//! The verdict: the history of what users were told, against what servers, provider and store say once it is quiet.

use super::{ChaosError, fleet::Fleet, history::History, reader::is_terminal};
use portolan_core::digest::Digest;
use serde_json::{Value, value::RawValue};
use std::collections::{BTreeMap, BTreeSet};

/// Requests in calm water that have to succeed, of a hundred. A system that refuses everything breaks no promise.
const LEAST_PROGRESS: u64 = 90;

/// The journal of a run, as a server shows it.
#[derive(Debug, PartialEq, Eq)]
struct Journal {
    status: String,
    /// Why it failed, if it did.
    error: String,
    events: Vec<(u64, String, String)>,
    recoveries: u64,
}

/// What is asked.
pub(super) struct Judge<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) http: &'a reqwest::Client,
    pub(super) key: &'a str,
    pub(super) history: &'a History,
    pub(super) provider_url: &'a str,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) violations: Vec<String>,
    pub(super) runs: usize,
    pub(super) recoveries: u64,
    pub(super) charged_keys: usize,
    pub(super) sends: usize,
    pub(super) events_read: usize,
    pub(super) connections: u64,
}

#[derive(serde::Deserialize)]
struct EventList<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

impl Judge<'_> {
    /// Asks everybody and compares.
    pub(super) async fn judge(&self) -> Result<Verdict, ChaosError> {
        let mut verdict = Verdict::default();
        verdict.violations.append(&mut self.history.inner().surprises);
        let runs = self.acknowledged(&mut verdict);
        verdict.runs = runs.len();
        let mut journals = BTreeMap::new();
        for run in &runs {
            let journal = self.journal(run, 0).await?;
            if self.fleet.len() > 1 {
                let other = self.journal(run, 1).await?;
                if other != journal {
                    verdict
                        .violations
                        .push(format!("{run} is another one at another server"));
                }
            }
            check_journal(run, &journal, &mut verdict);
            journals.insert(run.clone(), journal);
        }
        self.check_ends(&journals, &mut verdict);
        self.check_streams(&journals, &mut verdict);
        self.check_strangers(&runs, &mut verdict).await?;
        self.check_ledger(&journals, &mut verdict).await?;
        self.check_progress(&mut verdict);
        if let Err(error) = self.fleet.verify().await {
            verdict.violations.push(error.to_string());
        }
        Ok(verdict)
    }

    /// One key, one run.
    fn acknowledged(&self, verdict: &mut Verdict) -> BTreeSet<String> {
        let inner = self.history.inner();
        let mut runs = BTreeSet::new();
        for (key, made) in &inner.acknowledged {
            if made.len() != 1 {
                verdict
                    .violations
                    .push(format!("{key} made {} runs: {made:?}", made.len()));
            }
            for run in made {
                if !runs.insert(run.clone()) {
                    verdict.violations.push(format!("{run} was made for two keys"));
                }
            }
        }
        for key in &inner.begun {
            if !inner.acknowledged.contains_key(key) {
                verdict.violations.push(format!("{key} was never acknowledged"));
            }
        }
        runs
    }

    async fn get(&self, path: &str, server: usize) -> Result<Vec<u8>, ChaosError> {
        let url = self.fleet.url(server).ok_or("no server is up")?;
        let request = self.http.get(format!("{url}{path}")).bearer_auth(self.key);
        let answer = request.header("accept", "application/json").send().await?;
        let (status, body) = (answer.status(), answer.bytes().await?);
        match status.as_u16() {
            200 => Ok(body.to_vec()),
            404 => Err(format!("{path} was acknowledged and is not there").into()),
            _ => Err(format!("{path} was answered {status}: {}", String::from_utf8_lossy(&body)).into()),
        }
    }

    async fn journal(&self, run: &str, server: usize) -> Result<Journal, ChaosError> {
        let shown: Value = serde_json::from_slice(&self.get(&format!("/v1/runs/{run}"), server).await?)?;
        let body = self
            .get(&format!("/v1/runs/{run}/events?limit=1000"), server)
            .await?;
        let list: EventList<'_> = serde_json::from_slice(&body)?;
        let mut events = Vec::new();
        for raw in list.data {
            let event: Value = serde_json::from_str(raw.get())?;
            let kind = event["kind"].as_str().unwrap_or_default().to_owned();
            let data = Digest::of(raw.get().as_bytes()).to_string();
            events.push((event["seq"].as_u64().unwrap_or_default(), kind, data));
        }
        Ok(Journal {
            status: shown["run"]["status"].as_str().unwrap_or_default().to_owned(),
            error: shown["run"]["error"].to_string(),
            recoveries: shown["run"]["recoveries"].as_u64().unwrap_or_default(),
            events,
        })
    }

    /// What a user saw a run end as stays so, and a cancel that was taken leads to an end.
    fn check_ends(&self, journals: &BTreeMap<String, Journal>, verdict: &mut Verdict) {
        let inner = self.history.inner();
        for (run, seen) in &inner.ended {
            let status = journals.get(run).map(|journal| journal.status.as_str());
            if seen.len() != 1 || seen.iter().next().map(String::as_str) != status {
                verdict
                    .violations
                    .push(format!("{run} was seen to end as {seen:?} and is {status:?}"));
            }
        }
        for (run, journal) in journals {
            let may_be_cancelled = inner.cancel_asked.contains(run);
            let expected = match journal.status.as_str() {
                "succeeded" => true,
                "cancelled" => may_be_cancelled,
                _ => false,
            };
            if !expected {
                verdict.violations.push(format!(
                    "{run} ended as {} (cancel asked: {may_be_cancelled}): {}",
                    journal.status, journal.error
                ));
            }
        }
    }

    /// Each reader saw the journal from the first event to the last, each event once.
    fn check_streams(&self, journals: &BTreeMap<String, Journal>, verdict: &mut Verdict) {
        let inner = self.history.inner();
        for stream in &inner.streams {
            verdict.connections += u64::from(stream.connections);
            verdict.events_read += stream.events.len();
            let Some(journal) = journals.get(&stream.run) else {
                verdict
                    .violations
                    .push(format!("a stream of {} without a run", stream.run));
                continue;
            };
            let seen: Vec<(u64, &str)> = stream
                .events
                .iter()
                .map(|event| (event.seq, event.kind.as_str()))
                .collect();
            let kept: Vec<(u64, &str)> = journal
                .events
                .iter()
                .map(|(seq, kind, _)| (*seq, kind.as_str()))
                .collect();
            let data_differs = stream
                .events
                .iter()
                .zip(&journal.events)
                .any(|(seen, (_, _, data))| seen.data != *data);
            if seen != kept || data_differs || !stream.ended {
                verdict.violations.push(format!(
                    "a reader of {} saw {seen:?} (ended: {}, other data: {data_differs}), the journal is {kept:?}",
                    stream.run, stream.ended
                ));
            }
        }
    }

    /// No run exists that nobody asked for.
    async fn check_strangers(
        &self,
        runs: &BTreeSet<String>,
        verdict: &mut Verdict,
    ) -> Result<(), ChaosError> {
        let mut path = "/v1/runs?limit=100".to_owned();
        loop {
            let page: Value = serde_json::from_slice(&self.get(&path, 0).await?)?;
            let listed = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
            for run in listed {
                let id = run["id"].as_str().unwrap_or_default();
                if !runs.contains(id) {
                    verdict
                        .violations
                        .push(format!("{id} exists and nobody was told of it"));
                }
            }
            match page["nextCursor"].as_str() {
                Some(cursor) => path = format!("/v1/runs?limit=100&cursor={cursor}"),
                None => return Ok(()),
            }
        }
    }

    /// No key is charged twice, and none is charged that no journal knows.
    async fn check_ledger(
        &self,
        journals: &BTreeMap<String, Journal>,
        verdict: &mut Verdict,
    ) -> Result<(), ChaosError> {
        let answer = self
            .http
            .get(format!("{}/control/ledger", self.provider_url))
            .send()
            .await?;
        let ledger: Value = serde_json::from_slice(&answer.bytes().await?)?;
        let mut charges: BTreeMap<&str, usize> = BTreeMap::new();
        let mut digests: BTreeMap<&str, &str> = BTreeMap::new();
        let sends = ledger["sends"].as_array().map(Vec::as_slice).unwrap_or_default();
        verdict.sends = sends.len();
        for send in sends {
            let Some(key) = send["key"].as_str() else {
                verdict.violations.push(format!("a send without a key: {send}"));
                continue;
            };
            *charges.entry(key).or_default() += usize::from(send["answered"] == "charged");
            let digest = send["digest"].as_str().unwrap_or_default();
            if *digests.entry(key).or_insert(digest) != digest {
                verdict
                    .violations
                    .push(format!("{key} was sent with other bytes"));
            }
        }
        verdict.charged_keys = charges.len();
        for (key, count) in charges {
            if count != 1 {
                verdict
                    .violations
                    .push(format!("{key} was charged {count} times"));
            }
            let run = key.split(':').next().unwrap_or_default();
            if !journals.contains_key(run) {
                verdict
                    .violations
                    .push(format!("{key} was charged for a run that nobody knows"));
            }
        }
        Ok(())
    }

    fn check_progress(&self, verdict: &mut Verdict) {
        let calm = self.history.inner().calm;
        if calm.succeeded * 100 < calm.tried * LEAST_PROGRESS || calm.tried == 0 {
            verdict.violations.push(format!(
                "only {} of {} requests succeeded while nothing was wrong",
                calm.succeeded, calm.tried
            ));
        }
    }
}

/// Dense from one, with one end, which is the last event and is what the status says.
fn check_journal(run: &str, journal: &Journal, verdict: &mut Verdict) {
    verdict.recoveries += journal.recoveries;
    let is_dense = journal
        .events
        .iter()
        .map(|(seq, ..)| *seq)
        .eq(1..=journal.events.len() as u64);
    let ends: Vec<&str> = journal
        .events
        .iter()
        .map(|(_, kind, _)| kind.as_str())
        .filter(|kind| is_terminal(kind))
        .collect();
    let last = journal.events.last().map(|(_, kind, _)| kind.as_str());
    let expected = format!("run_{}", journal.status);
    if !is_dense || ends != [expected.as_str()] || last != Some(expected.as_str()) {
        verdict.violations.push(format!(
            "{run} is {} with a journal that is none: {:?}",
            journal.status, journal.events
        ));
    }
}
