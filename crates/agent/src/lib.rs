//! The bounded agent loop, for embedding: a task, a model, tools and a result type in; a value or an error with its
//! evidence out.

#![warn(missing_docs)]

pub mod machine;
