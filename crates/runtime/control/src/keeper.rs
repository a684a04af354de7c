//! [`Keeper`]: heartbeats for applications that do not poll for some time.

use super::heartbeat::BEAT_EVERY;
use super::outbound::Outbound;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Owns a thread that sends a ping whenever a [`ControlStream`](crate::ControlStream) has sent nothing for a second, so
/// that the peer does not consider this end dead while the owner of the stream does not poll it (a blocking client
/// between calls, an async one whose executor is late). The thread receives nothing: it neither answers pings nor
/// notices that the peer is dead. Dropping the keeper stops it; it also ends within a second after the stream is
/// dropped.
#[derive(Debug)]
pub struct Keeper {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Keeper {
    /// Sends a ping on `out` whenever no frame was sent for a second.
    pub(crate) fn start(out: &Arc<Outbound>) -> io::Result<Keeper> {
        Keeper::start_every(out, BEAT_EVERY.to_duration())
    }

    pub(crate) fn start_every(out: &Arc<Outbound>, period: Duration) -> io::Result<Keeper> {
        let stop = Arc::new(Stop::default());
        let (out, stop_too) = (Arc::downgrade(out), stop.clone());
        let thread = std::thread::Builder::new()
            .name("drover-keeper".to_owned())
            .spawn(move || keep(&out, &stop_too, period))?;
        Ok(Keeper {
            stop,
            thread: Some(thread),
        })
    }
}

fn keep(out: &Weak<Outbound>, stop: &Stop, period: Duration) {
    let mut frames_sent = 0;
    let mut stopped = stop.stopped.lock().unwrap_or_else(PoisonError::into_inner);
    while !*stopped {
        let Some(out) = out.upgrade() else { return };
        frames_sent = out.ping_if_silent_since(frames_sent);
        drop(out);
        let waited = stop.changed.wait_timeout(stopped, period);
        stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.stop.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It holds no lock while running code that could panic.
            let _ = thread.join();
        }
    }
}
