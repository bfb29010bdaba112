//! The API from outside: over its router, and over sockets where framing and time matter.
#![expect(
    clippy::disallowed_methods,
    reason = "tests open sockets on loopback, drive tasks and compare files of the repository"
)]

mod agents;
mod auth;
mod bodies;
mod cancel;
mod events;
mod faults;
mod idempotency;
mod live;
mod openapi;
mod paths;
mod runs;
mod socket;
mod streams;
mod support;
