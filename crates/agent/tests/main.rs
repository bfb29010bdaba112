//! Tests of the crate as an embedding program uses it.

mod embedding;
#[expect(
    clippy::disallowed_methods,
    reason = "a test of commands looks at processes and waits for them"
)]
mod shell;
#[expect(
    clippy::disallowed_methods,
    reason = "a test of directories sets them up directly"
)]
mod support;
#[expect(
    clippy::disallowed_methods,
    reason = "a test of directories sets them up directly"
)]
mod workspaces;
