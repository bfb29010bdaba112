//! Pauses between attempts: short ones in place, long ones as a durable timer that holds no worker.

use super::{Drive, Interrupt};
use portolan_agent::machine::Stop;
use portolan_core::{
    agent::RetryPolicy,
    event::{Event, RunWaiting, WaitReason},
    time::Timestamp,
};
use portolan_journal::Release;

/// The longest pause that a worker sits out, in milliseconds.
const LONGEST_PAUSE_IN_PLACE_MS: u64 = 5_000;

/// How long to wait before the next send: doubling, at most the policy's longest pause; a provider may ask for more.
pub(super) fn delay_ms(policy: &RetryPolicy, sends: u32, retry_after_ms: Option<u64>) -> u64 {
    let doublings = sends.saturating_sub(1).min(32);
    let ours = policy
        .initial_ms
        .saturating_mul(1_u64 << doublings)
        .min(policy.max_ms);
    retry_after_ms.map_or(ours, |asked| asked.max(ours))
}

impl Drive<'_> {
    /// Waits until a moment. The run may be cancelled meanwhile, or given back to be claimed when it is due.
    pub(super) async fn pause_until(&mut self, until: Timestamp) -> Result<Option<Stop>, Interrupt> {
        let left_ms = until.ms_since(self.deps.clock.now());
        if left_ms == 0 {
            return Ok(None);
        }
        self.signals.take_inbox(&self.writer.inbox);
        self.signals.look().await;
        if self.signals.is_cancelled() {
            return Ok(Some(Stop::Cancelled));
        }
        if left_ms > LONGEST_PAUSE_IN_PLACE_MS || self.signals.is_draining() {
            let waiting = RunWaiting {
                reason: WaitReason::Timer,
                until: Some(until),
            };
            self.writer.push(&Event::RunWaiting(waiting), None)?;
            self.writer
                .flush(None, Some(Release { wake_at: Some(until) }))
                .await?;
            return Err(Interrupt::Waiting(until));
        }
        let began_us = self.deps.clock.monotonic_us();
        let sleep = self.deps.clock.sleep_ms(left_ms);
        let cancelled = tokio::select! {
            biased;
            () = sleep => false,
            () = self.signals.cancelled() => true,
        };
        self.active.forgive_since(began_us);
        Ok(cancelled.then_some(Stop::Cancelled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_a_provider_may_ask_for_more() {
        let policy = RetryPolicy {
            initial_ms: 500,
            max_ms: 3_000,
            ..RetryPolicy::default()
        };
        let ours: Vec<u64> = (1..=5).map(|sends| delay_ms(&policy, sends, None)).collect();
        assert_eq!(ours, [500, 1_000, 2_000, 3_000, 3_000]);
        assert_eq!(delay_ms(&policy, 1, Some(60_000)), 60_000);
        assert_eq!(delay_ms(&policy, 3, Some(1)), 2_000);
        assert_eq!(delay_ms(&policy, u32::MAX, None), 3_000);
    }
}
