//! The writes: each decides on what it reads, then writes, and gives the hub its news.

pub(super) mod admit;
pub(super) mod agents;
pub(super) mod append;
pub(super) mod budget;
pub(super) mod claim;
mod events;
pub(super) mod import;
pub(super) mod inbox;
pub(super) mod keys;
pub(super) mod lease;
mod usage;

pub(super) use budget::Scopes;
