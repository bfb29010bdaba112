//! The port behind which randomness stands.

use crate::{ids::*, time::Timestamp};
use uuid::Uuid;

/// A source of random bytes. Tests pass a seeded one.
pub trait Entropy: Send + Sync + std::fmt::Debug {
    /// Fills the buffer with random bytes.
    fn fill(&self, buffer: &mut [u8]);
}

/// Makes time-sortable ids out of a moment and an entropy source.
fn uuid_at(entropy: &dyn Entropy, at: Timestamp) -> Uuid {
    let mut random = [0_u8; 10];
    entropy.fill(&mut random);
    let millis = u64::try_from(at.0.max(0) / 1_000).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

macro_rules! draw {
    ($($(#[$doc:meta])* $name:ident -> $id:ident;)*) => {
        impl dyn Entropy + '_ {$(
            $(#[$doc])*
            pub fn $name(&self, at: Timestamp) -> $id {
                $id::from_uuid(uuid_at(self, at))
            }
        )*}
    };
}

draw! {
    /// Draws a tenant id.
    tenant_id -> TenantId;
    /// Draws a run id.
    run_id -> RunId;
    /// Draws an agent id.
    agent_id -> AgentId;
    /// Draws an API key id.
    key_id -> KeyId;
    /// Draws an execution id.
    execution_id -> ExecutionId;
    /// Draws an owner id.
    owner_id -> OwnerId;
}
