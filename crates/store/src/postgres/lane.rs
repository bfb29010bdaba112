//! A task that writes: it owns a connection, drains what waits, and answers each caller about its own.

use super::{
    connect::{ANSWER, Doubts, Link, Target, bounded},
    fault::{Fault, is_rolled_back, said},
    hint::News,
    write::{admit, append},
};
use crate::judge::PreparedAppend;
use deadpool_postgres::ClientWrapper;
use portolan_core::Fut;
use portolan_journal::{Admitted, Appended, JournalError};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Writes that share a statement at most, and what they may weigh together.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 8 << 20;
/// Tries of a transaction that others are in the way of.
const ATTEMPTS: u32 = 5;
/// Admissions after which expired keys are cleared away.
const CLEAR_EVERY: usize = 16;
/// How long a server that could not be reached is left alone. Whoever asks meanwhile hears so at once.
const REST: Duration = Duration::from_millis(100);
/// How long a lost statement is looked after before its callers are answered. Readers look after it again.
const SETTLE: Duration = Duration::from_millis(500);

/// Every transaction of several statements begins by announcing that it writes runs. A limit is set under a lock that excludes
/// this one, so a transaction sees all scopes or the new scope sees all that it did; and nobody waits for it halfway.
const BEGIN: &str = "BEGIN; LOCK TABLE runs IN ROW EXCLUSIVE MODE";

/// A request with the caller that waits for it.
pub(super) struct Waiting<R, T> {
    pub(super) request: R,
    caller: oneshot::Sender<Result<T, JournalError>>,
}

/// Where a caller hears its answer.
pub(super) type Answer<T> = oneshot::Receiver<Result<T, JournalError>>;

impl<R, T> Waiting<R, T> {
    pub(super) fn new(request: R) -> (Self, Answer<T>) {
        let (caller, answer) = oneshot::channel();
        (Self { request, caller }, answer)
    }

    fn answer(self, answer: Result<T, JournalError>) {
        // A caller that went away does not need the answer; what it asked for happened all the same.
        let _ = self.caller.send(answer);
    }
}

/// What waits in a queue.
pub(super) enum Job {
    Append(Waiting<PreparedAppend, Appended>),
    Admit(Waiting<admit::Admit, Admitted>),
    Other(Box<dyn Other>),
}

/// How a write is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    /// It is one statement.
    Itself,
    /// It is several, in a transaction.
    Transaction,
}

/// A write that shares its commit with nobody. It may be applied several times, each but the last rolled back.
pub(super) trait Write: Send + Sync + 'static {
    /// What the caller hears.
    type Answer: Send + 'static;

    /// How it is committed.
    const COMMIT: Commit;

    /// Decides and writes.
    fn apply<'a>(&'a self, client: &'a ClientWrapper) -> Fut<'a, Result<Self::Answer, Fault>>;

    /// Tells the readers what is committed now.
    fn announce(&self, _answer: &Self::Answer, _news: &News) {}
}

/// A write of any kind.
pub(super) trait Other: Send {
    /// Does it and answers.
    fn run<'a>(self: Box<Self>, lane: &'a mut Lane) -> Fut<'a, ()>
    where
        Self: 'a;
}

/// A write with the caller that waits for it.
pub(super) struct Pending<W: Write>(Waiting<W, W::Answer>);

impl<W: Write> Pending<W> {
    pub(super) fn new(write: W) -> (Self, Answer<W::Answer>) {
        let (waiting, answer) = Waiting::new(write);
        (Self(waiting), answer)
    }
}

impl<W: Write> Other for Pending<W> {
    fn run<'a>(self: Box<Self>, lane: &'a mut Lane) -> Fut<'a, ()>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let answer = lane.one(&self.0.request).await;
            self.0.answer(answer);
        })
    }
}

/// How a statement of its own ended.
pub(super) enum Ran<T> {
    Committed(T),
    NotCommitted(Fault),
    Unknown(String),
}

/// The task.
pub(super) struct Lane {
    target: Arc<Target>,
    doubts: Arc<Doubts>,
    news: News,
    link: Option<Arc<Link>>,
    /// When the server could last not be reached, and why.
    away: Option<(Instant, String)>,
    /// Admissions since expired keys were last cleared away.
    admitted: usize,
}

impl Lane {
    pub(super) fn new(target: Arc<Target>, doubts: Arc<Doubts>, news: News) -> Self {
        Self {
            target,
            doubts,
            news,
            link: None,
            away: None,
            admitted: 0,
        }
    }

    /// Runs until the queue is closed and drained.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut waiting = Vec::with_capacity(BATCH);
        while queue.recv_many(&mut waiting, BATCH).await > 0 {
            let (mut appends, mut admissions, mut others) = (Vec::new(), Vec::new(), Vec::new());
            for job in waiting.drain(..) {
                match job {
                    Job::Append(append) => appends.push(append),
                    Job::Admit(admit) => admissions.push(admit),
                    Job::Other(other) => others.push(other),
                }
            }
            self.admissions(admissions).await;
            self.appends(appends).await;
            for other in others {
                other.run(&mut self).await;
            }
        }
    }

    /// A connection on which nothing is in doubt.
    async fn link(&mut self) -> Result<Arc<Link>, JournalError> {
        let away = |why: &str| JournalError::NotCommitted(format!("the database cannot be reached: {why}"));
        let kept = self.link.take().filter(|link| link.is_good());
        let link = match kept {
            Some(link) => link,
            None => {
                if let Some((since, why)) = &self.away
                    && since.elapsed() < REST
                {
                    return Err(away(why));
                }
                match self.target.connect().await {
                    Ok(link) => Arc::new(link),
                    Err(fault) => {
                        let why = fault.to_string();
                        self.away = Some((Instant::now(), why.clone()));
                        return Err(away(&why));
                    }
                }
            }
        };
        self.away = None;
        self.doubts
            .settle(&link.client)
            .await
            .map_err(Fault::not_committed)?;
        self.link = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Notes that the outcome of what was sent is unknown, and sees to it that it has one.
    async fn doubt(&mut self, link: &Link, why: &str) -> JournalError {
        tracing::warn!(why, "the outcome of a commit is unknown");
        self.link = None;
        self.doubts.add(link.backend());
        // Whoever fails here leaves the doubt to the next who reads or writes.
        if timeout(SETTLE, self.link()).await.is_err() {
            // Whoever waits behind this hears so at once, and does not wait for a connection too.
            self.away = Some((Instant::now(), why.to_owned()));
        }
        JournalError::Unknown(why.to_owned())
    }

    /// A write that shares its commit with nobody.
    async fn one<W: Write>(&mut self, write: &W) -> Result<W::Answer, JournalError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let link = self.link().await?;
            let ran = match W::COMMIT {
                Commit::Itself => autocommit(write.apply(&link.client)).await,
                Commit::Transaction => self.transaction(&link, write).await,
            };
            match ran {
                Ran::Committed(answer) => {
                    write.announce(&answer, &self.news);
                    return Ok(answer);
                }
                Ran::NotCommitted(fault) if attempt < ATTEMPTS && fault.is_worth_a_repeat() => {}
                Ran::NotCommitted(fault) => return Err(fault.not_committed()),
                Ran::Unknown(why) => return Err(self.doubt(&link, &why).await),
            }
        }
    }

    /// A transaction of several statements. Until its commit is sent nothing is in doubt.
    async fn transaction<W: Write>(&mut self, link: &Link, write: &W) -> Ran<W::Answer> {
        let client = &link.client;
        let applied = bounded(async {
            client.batch_execute(BEGIN).await?;
            write.apply(client).await
        })
        .await;
        let answer = match applied {
            Ok(answer) => answer,
            Err(fault) => {
                let is_ended = fault.is_definite() && bounded(roll_back(client)).await.is_ok();
                if !is_ended {
                    // The server rolls back what a connection that is gone has not committed.
                    self.link = None;
                }
                return Ran::NotCommitted(fault);
            }
        };
        match timeout(ANSWER, client.batch_execute("COMMIT")).await {
            Ok(Ok(())) => Ran::Committed(answer),
            Ok(Err(error)) if is_rolled_back(&error) => Ran::NotCommitted(error.into()),
            Ok(Err(error)) => Ran::Unknown(said(&error)),
            Err(_) => Ran::Unknown("the commit was not answered".to_owned()),
        }
    }

    /// Admissions: those without limits in one statement, the others one by one.
    async fn admissions(&mut self, admissions: Vec<Waiting<admit::Admit, Admitted>>) {
        if admissions.is_empty() {
            return;
        }
        let requests: Vec<&admit::Admit> = admissions.iter().map(|waiting| &waiting.request).collect();
        let ran = match self.link().await {
            Ok(link) => (autocommit(admit::group(&link.client, &requests)).await, link),
            Err(error) => {
                for waiting in admissions {
                    waiting.answer(Err(error.clone()));
                }
                return;
            }
        };
        match ran {
            (Ran::Committed(made), link) => {
                self.admitted = self.admitted.saturating_add(made.len());
                if self.admitted >= CLEAR_EVERY {
                    self.admitted = 0;
                    // What is left lies longer, and that is all.
                    if let Err(fault) = bounded(admit::clear_keys(&link.client, &requests)).await {
                        tracing::debug!(%fault, "expired keys could not be cleared away");
                    }
                }
                for (waiting, made) in admissions.into_iter().zip(made) {
                    let answer = match made {
                        Some(answer) => {
                            waiting.request.announce(&answer, &self.news);
                            Ok(answer)
                        }
                        None => self.one(&waiting.request).await,
                    };
                    waiting.answer(answer);
                }
            }
            (Ran::NotCommitted(_), _) => {
                for waiting in admissions {
                    let answer = self.one(&waiting.request).await;
                    waiting.answer(answer);
                }
            }
            (Ran::Unknown(why), link) => {
                let error = self.doubt(&link, &why).await;
                for waiting in admissions {
                    waiting.answer(Err(error.clone()));
                }
            }
        }
    }

    /// Appends, in groups in which no run occurs twice and which are not too heavy.
    async fn appends(&mut self, mut appends: Vec<Waiting<PreparedAppend, Appended>>) {
        while !appends.is_empty() {
            let (mut group, mut later) = (Vec::new(), Vec::new());
            let (mut runs, mut bytes) = (BTreeSet::new(), 0_usize);
            for waiting in appends {
                let append = &waiting.request.append;
                let is_first = runs.insert(append.run);
                bytes = bytes.saturating_add(append.events.iter().map(|event| event.payload.len()).sum());
                if is_first && (group.is_empty() || bytes <= BATCH_BYTES) {
                    group.push(waiting);
                } else {
                    later.push(waiting);
                }
            }
            self.group(group).await;
            appends = later;
        }
    }

    /// A group: one statement, and one by one what it did not decide.
    async fn group(&mut self, appends: Vec<Waiting<PreparedAppend, Appended>>) {
        let link = match self.link().await {
            Ok(link) => link,
            Err(error) => {
                for waiting in appends {
                    waiting.answer(Err(error.clone()));
                }
                return;
            }
        };
        let requests: Vec<&PreparedAppend> = appends.iter().map(|waiting| &waiting.request).collect();
        match autocommit(append::group(&link.client, &requests)).await {
            Ran::Committed(landed) => {
                for (waiting, landed) in appends.into_iter().zip(landed) {
                    let answer = match landed {
                        Some(landed) => {
                            let appended =
                                append::answer(&link.client, &waiting.request, landed, &self.news).await;
                            waiting.request.announce(&appended, &self.news);
                            Ok(appended)
                        }
                        None => self.one(&waiting.request).await,
                    };
                    waiting.answer(answer);
                }
            }
            // One of them spoiled it, or two groups were in each other's way: each is tried by itself.
            Ran::NotCommitted(_) => {
                for waiting in appends {
                    let answer = self.one(&waiting.request).await;
                    waiting.answer(answer);
                }
            }
            Ran::Unknown(why) => {
                let error = self.doubt(&link, &why).await;
                for waiting in appends {
                    waiting.answer(Err(error.clone()));
                }
            }
        }
    }
}

async fn roll_back(client: &ClientWrapper) -> Result<(), Fault> {
    Ok(client.batch_execute("ROLLBACK").await?)
}

/// One statement, which commits itself.
async fn autocommit<T>(work: impl Future<Output = Result<T, Fault>> + Send) -> Ran<T> {
    match bounded(work).await {
        Ok(answer) => Ran::Committed(answer),
        Err(fault) if fault.is_definite() => Ran::NotCommitted(fault),
        Err(fault) => Ran::Unknown(fault.to_string()),
    }
}
