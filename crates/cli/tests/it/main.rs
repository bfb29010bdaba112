//! System tests of the binary: each starts it as a user does, in a directory and on ports of its own.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests start processes and read files, as their subject does"
)]

mod agents_and_runs;
mod crowd;
mod demo;
mod embedded;
mod export;
mod kill;
mod matrix;
mod migrate;
mod operation;
mod random;
mod replicas;
mod serve;
mod storm;
mod support;
mod tails;
mod verify;
mod verify_postgres;
