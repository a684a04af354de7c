//! A time limit for tests with threads, so that they fail instead of hanging.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs `body` in a new thread and waits for its end, at most a minute.
///
/// # Panics
/// If `body` panics, or has not ended after a minute; its thread then keeps running.
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
