//! Panics of models, tools and other foreign code, caught where they enter the loop.

use futures::FutureExt as _;
use std::{any::Any, future::Future, panic::AssertUnwindSafe};

/// Runs foreign code; a panic is an error with its message. The state behind a panic belongs to that code: nothing of the
/// loop is shared with it mutably.
pub(crate) async fn caught<F: Future>(future: impl FnOnce() -> F) -> Result<F::Output, String> {
    let guarded = AssertUnwindSafe(async { future().await });
    guarded.catch_unwind().await.map_err(|payload| message(&*payload))
}

/// The same for code that is not asynchronous.
pub(crate) fn caught_now<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(code)).map_err(|payload| message(&*payload))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
