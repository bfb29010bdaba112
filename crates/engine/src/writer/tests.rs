use super::*;
use portolan_core::{
    Fut,
    event::{RunEnded, RunRecovered},
    failure::{FailureKind, RunFailure},
    ids::{OwnerId, RunId, TenantId},
};
use portolan_journal::{Admission, Admitted, Claim, memory::MemoryJournal};
use std::sync::atomic::{AtomicI64, Ordering};

/// A clock that is later at every look.
#[derive(Debug, Default)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1_000, Ordering::Relaxed))
    }

    fn monotonic_us(&self) -> u64 {
        0
    }

    fn sleep_ms(&self, _ms: u64) -> Fut<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

const QUEUED: &str = r#"{"agentName":"a","agentVersion":1,"input":null}"#;

#[tokio::test]
async fn the_fold_of_an_append_names_the_moment_of_its_rows() {
    let journal: Arc<dyn JournalStore> = Arc::new(MemoryJournal::new());
    let clock: Arc<dyn Clock> = Arc::new(Ticking::default());
    let run = RunRef {
        tenant: TenantId::from_bytes([1; 16]),
        run: RunId::from_bytes([2; 16]),
    };
    let queued = Event::decode("run_queued", QUEUED.as_bytes()).expect("a request");
    let admission = Admission {
        run,
        agent: "a".parse().expect("a name"),
        agent_version: 1,
        tags: Vec::new(),
        queued: NewEvent::encode(&queued, None).expect("encodes"),
        reserve: NanoUsd::ZERO,
        idempotency: None,
        claim: Some(Claim {
            owner: OwnerId::from_bytes([3; 16]),
            lease_until: Timestamp(i64::MAX),
        }),
        at: clock.now(),
    };
    let Ok(Admitted::Created { epoch: Some(epoch) }) = journal.admit(admission).await else {
        panic!("not admitted");
    };
    let active = ActiveTime::resume(Arc::clone(&clock), 0);
    let begun = (Progress::default(), Seq(1));
    let mut writer = Writer::new(Arc::clone(&journal), clock, active, (run, epoch), begun);
    // Two events within one append, looked at two moments.
    let recovered = RunRecovered { epoch, recoveries: 1 };
    writer.push(&Event::RunRecovered(recovered), None).expect("fits");
    let ended = RunEnded {
        error: RunFailure::new(FailureKind::Internal, "x"),
        artifacts_unknown: None,
    };
    writer.push(&Event::RunFailed(ended), None).expect("fits");
    writer.flush(None, None).await.expect("committed");

    let mut folded = Progress::default();
    for record in journal.read(run, Seq::ZERO, 10).await.expect("readable") {
        let event = record.event().expect("decodes");
        folded.apply(&event, record.at, record.step).expect("fits");
    }
    let row = journal.run(run).await.expect("readable").expect("there");
    assert!(folded.finished_at.is_some());
    assert_eq!(row.progress, folded);
}
