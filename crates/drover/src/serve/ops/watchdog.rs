//! Notifies the service manager while all workers answer. If a worker hangs, the notifications stop and the manager
//! restarts the service.

use super::notify::Notify;
use crate::admin::Source;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::PipeReader;
use std::time::Duration;

/// Runs until the other end of `stop` is closed. Each round asks the workers of `source` for their numbers, with a
/// patience of a quarter of `period`; notifies the service manager if all answer, otherwise logs an error; then pauses
/// for a quarter of `period`.
pub fn run(notify: &Notify, period: Duration, source: &dyn Source, stop: &PipeReader) {
    let quarter = period / 4;
    let pause = Timespec {
        tv_sec: quarter.as_secs() as i64,
        tv_nsec: quarter.subsec_nanos().into(),
    };
    loop {
        match source.snapshot(quarter) {
            Ok(_) => notify.alive(),
            Err(why) => tracing::error!("no watchdog notification to the service manager: {why}"),
        }
        match poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&pause)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::notify::tests::{heard, pair};
    use super::*;
    use crate::admin::Snapshot;
    use std::io::PipeWriter;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Answers this many times, then hangs; the last query ends the watchdog.
    struct Hangs {
        after: usize,
        asked: AtomicUsize,
        stop: Mutex<Option<PipeWriter>>,
    }

    impl Source for Hangs {
        fn snapshot(&self, _: Duration) -> Result<Snapshot, String> {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            if asked == 5 {
                drop(self.stop.lock().map(|mut stop| stop.take()));
            }
            match asked < self.after {
                true => Ok(Snapshot::Hosting(Box::default())),
                false => Err("no answer from worker 0".into()),
            }
        }
    }

    fn fed(name: &str, after: usize) -> usize {
        let (manager, notify) = pair(name, Some("4000"));
        let (stop, held) = std::io::pipe().expect("a pipe");
        let source = Hangs {
            after,
            asked: AtomicUsize::new(0),
            stop: Mutex::new(Some(held)),
        };
        run(&notify, notify.watchdog().expect("asked for"), &source, &stop);
        std::iter::from_fn(|| heard(&manager))
            .inspect(|text| assert_eq!(text, "WATCHDOG=1"))
            .count()
    }

    #[test]
    fn it_is_fed_while_workers_answer_and_no_longer() {
        assert_eq!(fed("answers", 6), 6);
        assert_eq!(fed("hangs", 3), 3);
        assert_eq!(fed("hung", 0), 0);
    }
}
