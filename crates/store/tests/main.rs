//! System tests of the stores.

mod battery;
