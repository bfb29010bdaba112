//! A thread per command.

use futures::channel::oneshot;
use std::{io, thread};

/// Runs blocking work on a thread of its own. Its result is lost if nobody waits for it any more; the work is not.
#[expect(
    clippy::disallowed_methods,
    reason = "a command must be waited for without an executor's help, and the thread ends with the command, which has a bounded time"
)]
pub(super) fn start<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, receiver) = oneshot::channel();
    let thread = thread::Builder::new().name("shell".to_owned());
    thread.spawn(move || {
        // An error means that the call was dropped.
        let _ = sender.send(work());
    })?;
    Ok(receiver)
}
