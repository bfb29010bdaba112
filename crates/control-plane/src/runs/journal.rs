//! The whole journal of a run, for what is shown of all of it.

use super::not_found;
use crate::{api::Api, problem::Problem};
use portolan_core::{event::Recorded, ids::Seq};
use portolan_journal::RunRef;

const BATCH_EVENTS: u32 = 256;
/// A journal beyond this is not held in memory for one answer.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// Reads all events of a run of the tenant.
pub(crate) async fn read_all(api: &Api, run: RunRef) -> Result<Vec<Recorded>, Problem> {
    let mut records: Vec<Recorded> = Vec::new();
    let mut bytes = 0;
    loop {
        let after = records.last().map_or(Seq::ZERO, |event| event.seq);
        let batch = api.journal.read(run, after, BATCH_EVENTS).await?;
        if batch.is_empty() && records.is_empty() {
            // Every run has a first event: without one there is no run of this tenant.
            return Err(not_found());
        }
        let is_last_batch = u32::try_from(batch.len()).is_ok_and(|count| count < BATCH_EVENTS);
        bytes += batch.iter().map(|event| event.payload.len()).sum::<usize>();
        records.extend(batch);
        if is_last_batch {
            return Ok(records);
        }
        if bytes > MOST_BYTES {
            return Err(Problem::internal(&format_args!(
                "the journal of {} has more than {MOST_BYTES} bytes",
                run.run
            )));
        }
    }
}
