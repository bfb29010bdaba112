//! What models cost: a built-in table with overrides on top.

mod table;

pub use table::{PriceEntry, PriceTable, PriceTableError};
