//! [`Progress`]: a progress bar on a terminal, drawn by a thread that mostly sleeps; no output elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between redraws.
const REDRAW: Duration = Duration::from_millis(200);

/// A progress bar on the terminal, which shows a counter that other threads add to. Dropping it removes the bar.
pub struct Progress {
    bar: Option<ProgressBar>,
    counter: Arc<AtomicU64>,
    painter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Shows a bar on standard error, if that is a terminal and `wanted`; else phases only count.
    pub fn new(wanted: bool) -> Progress {
        let bar = (wanted && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg:<34} {wide_bar} {percent:>3} %  {elapsed}");
            bar.set_style(style.expect("a constant template"));
            bar
        });
        let counter = Arc::new(AtomicU64::new(0));
        let painter = bar.clone().map(|bar| paint(bar, counter.clone()));
        Progress {
            bar,
            counter,
            painter,
        }
    }

    /// Ends the previous phase and starts one called `what` with `total` steps. Returns the counter to add finished
    /// steps to, reset to 0. All phases share this counter, so nothing may add to it for an earlier phase any more.
    pub fn phase(&self, what: impl Into<String>, total: u64) -> Arc<AtomicU64> {
        self.counter.store(0, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.set_length(total.max(1));
            bar.set_message(what.into());
        }
        self.counter.clone()
    }
}

fn paint(bar: ProgressBar, counter: Arc<AtomicU64>) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = channel::<()>();
    let thread = std::thread::spawn(move || {
        while stopped.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
            bar.set_position(counter.load(Ordering::Relaxed));
        }
        bar.finish_and_clear();
    });
    (stop, thread)
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.painter.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}
