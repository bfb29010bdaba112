//! The vocabulary of Portolan: what every other crate speaks, and the ports that stand beside the words they need.
//!
//! This crate owns ids, money, limits, usage, events, the words of models and tools, and the traits behind which models,
//! tools, workspaces, agents, keys, prices, clocks and entropy stand. It does no I/O: it reads no clock, no random source,
//! no file and no environment, so whatever is built on it alone can be replayed.

#![warn(missing_docs)]

pub mod agent;
pub mod artifact;
pub mod blocking;
pub mod call;
pub mod cancel;
pub mod digest;
pub mod entropy;
pub mod event;
pub mod failure;
pub mod faults;
pub mod ids;
pub mod key;
pub mod limits;
pub mod manifest;
pub mod model;
pub mod money;
pub mod price;
pub mod time;
pub mod tool;
pub mod trace;
pub mod usage;
pub mod workspace;

use std::{future::Future, pin::Pin};

/// A boxed future that may cross threads: the return type of every asynchronous port.
pub type Fut<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The name under which a model submits its result. No tool may take it.
pub const RESULT_TOOL: &str = "final_result";
