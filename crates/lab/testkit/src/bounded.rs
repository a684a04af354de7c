//! A bound on tests with threads: they fail, they do not hang.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs `body` in a thread of its own; panics when it panics, or takes a minute.
pub fn within_a_minute(body: impl FnOnce() + Send + 'static) {
    let (done, waits) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let _done = done;
        body();
    });
    match waits.recv_timeout(Duration::from_secs(60)) {
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        // The sender is gone: the body has ended, one way or the other.
        _ => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
    }
}
