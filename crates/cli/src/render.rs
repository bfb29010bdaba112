//! How things look in a terminal.

mod diff;
mod event;
mod table;
mod units;
mod waterfall;

pub(crate) use diff::diff;
pub(crate) use event::{event_line, failure_line};
pub(crate) use table::Table;
pub(crate) use units::{clock_time, fit, span};
pub(crate) use waterfall::waterfall;
