//! Hints between replicas: one notification for what this process committed in a while, and what others tell.
//!
//! A hint is never part of the transaction that it is about, may be lost, and says only where to look: whoever hears it reads the
//! store. Nothing depends on one but how soon a reader looks.

use super::{
    connect::{Reader, Target},
    fault::{Fault, said},
    read,
};
use portolan_core::ids::{RunId, Seq};
use portolan_journal::{Hub, JournalError, RunRef};
use std::{
    collections::BTreeSet,
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::sleep,
};
use tokio_postgres::AsyncMessage;

const CHANNEL: &str = "portolan";
/// What happens within that time is one notification.
const TOGETHER: Duration = Duration::from_millis(50);
/// How long a server that went away is left alone.
const REST: Duration = Duration::from_millis(500);
/// Runs that a notification names; if there are more it says to look at everything.
const NAMED: usize = 3;
/// What it says then.
const LOOK: &str = "look";
/// Runs whose heads are asked for at once.
const CHUNK: usize = 256;
/// Notifications that wait to be heard. More are one: look.
const HEARD: usize = 64;

/// Tells readers what is committed: those of this process at once, the others by a hint.
#[derive(Debug, Clone)]
pub(super) struct News {
    hub: Hub,
    /// `None` where nobody is told.
    outbox: Option<Arc<Outbox>>,
}

/// What the other replicas are to hear.
#[derive(Debug, Default)]
struct Outbox {
    news: Mutex<BTreeSet<RunId>>,
    some: Notify,
}

impl News {
    pub(super) fn committed(&self, run: RunRef, last_seq: Seq, ended: bool) {
        self.hub.committed(run, last_seq, ended);
        self.tell(run);
    }

    pub(super) fn commanded(&self, run: RunRef) {
        self.hub.commanded(run);
        self.tell(run);
    }

    /// The same for the readers of this process alone.
    pub(super) fn commanded_here(&self, run: RunRef) {
        self.hub.commanded(run);
    }

    fn tell(&self, run: RunRef) {
        if let Some(outbox) = &self.outbox {
            let mut news = outbox.news.lock().unwrap_or_else(PoisonError::into_inner);
            // One more than can be named is as good as many.
            if news.len() <= NAMED {
                news.insert(run.run);
            }
            drop(news);
            outbox.some.notify_one();
        }
    }
}

/// Starts telling and listening, if hints are wanted.
pub(super) fn start(
    target: Arc<Target>,
    hub: Hub,
    readers: Reader,
    wanted: bool,
) -> (News, Option<JoinHandle<()>>) {
    if !wanted {
        return (News { hub, outbox: None }, None);
    }
    let outbox = Arc::new(Outbox::default());
    let news = News {
        hub: hub.clone(),
        outbox: Some(Arc::clone(&outbox)),
    };
    let task = tokio::spawn(async move {
        loop {
            if let Err(fault) = exchange(&target, &hub, &readers, &outbox).await {
                tracing::debug!(%fault, "hints between replicas rest");
            }
            sleep(REST).await;
        }
    });
    (news, Some(task))
}

/// Tells and listens on one connection until it breaks.
async fn exchange(target: &Target, hub: &Hub, readers: &Reader, outbox: &Outbox) -> Result<(), Fault> {
    let (client, mut connection) = target.raw().await?;
    let (heard, mut ears) = mpsc::channel::<String>(HEARD);
    let own = &AtomicI32::new(0);
    // The connection moves only while it is polled, so it is polled beside whatever waits for it.
    let listens = async move {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            match message {
                // A full queue holds enough to look at; what does not fit is found by the poll.
                Ok(AsyncMessage::Notification(hint)) if hint.process_id() != own.load(Ordering::Relaxed) => {
                    let _ = heard.try_send(hint.payload().to_owned());
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(error = said(&error), "the connection for hints ended");
                    return;
                }
            }
        }
    };
    let tells = async {
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        let backend = client.query_one("SELECT pg_backend_pid()", &[]).await?;
        own.store(backend.try_get(0)?, Ordering::Relaxed);
        // What was said while nobody listened is unknown.
        look(hub, readers, hub.followed()).await;
        loop {
            outbox.some.notified().await;
            sleep(TOGETHER).await;
            let news = {
                let mut news = outbox.news.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *news)
            };
            let payload = payload(&news);
            client
                .execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &payload])
                .await?;
        }
    };
    let hears = async {
        while let Some(first) = ears.recv().await {
            let mut said = vec![first];
            while let Ok(more) = ears.try_recv() {
                said.push(more);
            }
            look(hub, readers, meant(&said, hub.followed())).await;
        }
    };
    tokio::select! {
        () = listens => Ok(()),
        told = tells => told,
        () = hears => Ok(()),
    }
}

/// Names the runs, or says to look at all of them. Always shorter than 128 bytes.
fn payload(news: &BTreeSet<RunId>) -> String {
    if news.len() > NAMED {
        return LOOK.to_owned();
    }
    let names: Vec<String> = news.iter().map(|run| run.to_string().split_off(4)).collect();
    names.join(",")
}

/// Those of the followed runs that a hint may be about.
fn meant(said: &[String], mut followed: Vec<RunRef>) -> Vec<RunRef> {
    if said.iter().any(|payload| payload == LOOK) {
        return followed;
    }
    let named: BTreeSet<RunId> = said
        .iter()
        .flat_map(|payload| payload.split(','))
        .filter_map(|name| format!("run_{name}").parse().ok())
        .collect();
    followed.retain(|run| named.contains(&run.run));
    followed
}

/// Looks at runs and tells the readers of this process what is new.
async fn look(hub: &Hub, readers: &Reader, runs: Vec<RunRef>) {
    for chunk in runs.chunks(CHUNK) {
        let heads = Reader::bounded(async {
            let client = readers.get().await?;
            read::heads(&client, chunk).await.map_err(Fault::not_committed)
        });
        match heads.await {
            Ok(heads) => {
                for (head, commands) in heads {
                    hub.seen(&head);
                    if commands > 0 {
                        hub.commanded(head.at);
                    }
                }
            }
            Err(
                JournalError::NotCommitted(why) | JournalError::Unknown(why) | JournalError::Corrupt(why),
            ) => {
                tracing::debug!(why, "a hint could not be followed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_core::ids::TenantId;

    fn run(number: u8) -> RunId {
        RunId::from_bytes([number; 16])
    }

    #[test]
    fn a_hint_is_short_and_means_what_it_names() {
        let followed: Vec<RunRef> = (1..=9)
            .map(|number| RunRef {
                tenant: TenantId::from_bytes([1; 16]),
                run: run(number),
            })
            .collect();
        for (named, meant_runs) in [(2, 2), (NAMED, NAMED), (NAMED + 1, 9)] {
            let news: BTreeSet<RunId> = (1..).take(named).map(run).collect();
            let payload = payload(&news);
            assert!(payload.len() < 128, "{payload}");
            assert_eq!(meant(&[payload], followed.clone()).len(), meant_runs);
        }
        assert_eq!(meant(&["nonsense".to_owned()], followed), []);
    }
}
