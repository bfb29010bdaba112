//! System tests of the stores.

#![expect(
    clippy::disallowed_methods,
    reason = "tests make directories, processes and damage"
)]

mod admin;
mod battery;
mod blobs;
mod damage;
mod kill;
mod postgres;
mod reopen;
mod streams;
mod work;
