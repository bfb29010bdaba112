//! The durable driver against a journal in memory, virtual time and a provider that remembers what it was sent.
#![allow(clippy::disallowed_methods, reason = "tests")]

mod world;

mod bounds;
mod cancel;
mod doubt;
mod failures;
mod files;
mod host;
mod kth;
mod recovery;
mod replay;
mod tampering;
