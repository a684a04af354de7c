//! A panic of the control thread, which is a bug of ours, ends the server and is reported to the thread that waits for it. The
//! bug is planted from outside: a log that panics. It is the log of the whole process, hence a process of its own.

use drover_control::ControlStream;
use drover_kv_herd::server::{Server, ServerOptions};
use drover_store::PartitionOptions;
use drover_testkit::alone::alone;
use drover_verbs_shm::{Shm, ShmDevice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Panics at every line of the control thread, without a word on standard error.
struct PanickingLog;

impl Subscriber for PanickingLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        std::thread::current().name() == Some("drover-control")
    }

    fn event(&self, _: &Event<'_>) {
        std::panic::resume_unwind(Box::new("on purpose"));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_panic_of_the_control_thread_ends_the_server_and_is_told() {
    alone(
        "control_panics::a_panic_of_the_control_thread_ends_the_server_and_is_told",
        || {
            tracing::subscriber::set_global_default(PanickingLog).expect("nobody else logs");
            let options = ServerOptions {
                partition_count: 2,
                partition: PartitionOptions {
                    log_bytes: 1 << 16,
                    bucket_count: 1 << 8,
                    ..PartitionOptions::default()
                },
                ..ServerOptions::default()
            };
            let server =
                Server::<Shm>::start(&ShmDevice::default(), None, &options, |_| {}).expect("it starts");
            let (ours, theirs) = ControlStream::pair();
            server.adopt(theirs);
            drop(ours); // a line in the log
            let mut ended = [PollFd::from_borrowed_fd(server.ended(), PollFlags::IN)];
            let watchdog = Timespec {
                tv_sec: 60,
                tv_nsec: 0,
            };
            assert_eq!(poll(&mut ended, Some(&watchdog)), Ok(1), "the end is announced");
            // It waits for the workers, too, so they were told.
            assert_eq!(server.why().as_deref(), Some("drover-control panicked"));
        },
    );
}
