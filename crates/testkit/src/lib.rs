//! What tests share: virtual time, seeded randomness, deaths in process, the battery of stores, conformance scenarios.
//!
//! Everything here is a fake behind a port, and says so; nothing of it is linked into the product.
#![allow(
    clippy::disallowed_methods,
    reason = "tests and their tools read scenario files and make folders"
)]

pub mod chaos;
pub mod clock;
pub mod conformance;
pub mod entropy;
pub mod faults;
pub mod kill;
pub mod matrix;
pub mod planted;
pub mod postgres;
pub mod random;
pub mod sim;
pub mod store_battery;
