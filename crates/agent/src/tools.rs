//! Tools that come with the loop.

pub mod function;
pub mod resource;
