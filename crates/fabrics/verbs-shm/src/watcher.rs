//! [`Watcher`]: a thread that wakes a context when a descriptor becomes readable, for cores that also wait for sockets.
//!
//! A context sleeps on a word of memory, because peers can change it without a system call, and no system call waits
//! for both a word and a descriptor. So a separate thread waits for the descriptor and rings the context's bell.
//! Re-arming the descriptor in its epoll set starts one wait, which reports once: while the context is awake, readable
//! sockets wake no thread.

use drover_base::sync::{Ordering, fence};
use drover_verbs::Waker;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

const WATCHED: u64 = 0;
const STOP: u64 = 1;

/// A watcher thread; it ends with its context.
pub(crate) struct Watcher {
    set: Arc<OwnedFd>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts a thread that calls `waker` for each descriptor that becomes readable after [`watch`](Watcher::watch).
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub(crate) fn start(waker: Waker) -> io::Result<Watcher> {
        let set = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(
            &*set,
            &stop,
            epoll::EventData::new_u64(STOP),
            epoll::EventFlags::IN,
        )?;
        let theirs = set.clone();
        let thread = std::thread::Builder::new()
            .name("drover-watcher".to_owned())
            .spawn(move || run(&theirs, &waker))?;
        Ok(Watcher {
            set,
            stop,
            thread: Some(thread),
        })
    }

    /// Reports once, when `fd` is next readable or if it is now.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let data = epoll::EventData::new_u64(WATCHED);
        match epoll::modify(&*self.set, fd, data, flags) {
            Err(Errno::NOENT) => Ok(epoll::add(&*self.set, fd, data, flags)?),
            result => Ok(result?),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes()); // the counter never overflows
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it does not panic
        }
    }
}

fn run(set: &OwnedFd, waker: &Waker) {
    let mut events = Vec::with_capacity(2);
    loop {
        events.clear();
        match epoll::wait(set.as_fd(), rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if events.iter().any(|event| event.data.u64() == STOP) {
            return;
        }
        if !events.is_empty() {
            // The sleeper announced its sleep before it called `watch`.
            fence(Ordering::SeqCst);
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Shm, ShmDevice};
    use drover_base::{Cpu, Ns};
    use drover_verbs::{Context, Device};
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsFd;

    /// Longer than any wake-up takes: a park of this length was not ended by a wake.
    const LONG: Ns = Ns::from_s(10);

    fn context() -> <Shm as drover_verbs::Provider>::Context {
        ShmDevice::default().context().expect("a context")
    }

    #[test]
    fn a_descriptor_ends_the_park_whether_it_was_ready_before_or_becomes_so() {
        let ctx = context();
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        let deadline = ctx.cpu().refresh() + LONG;
        for early in [true, false, true, false] {
            ctx.arm();
            let write = || rustix::io::write(&event, &1u64.to_ne_bytes()).expect("space");
            std::thread::scope(|scope| {
                if early {
                    write();
                } else {
                    scope.spawn(write);
                }
                ctx.park_beside(deadline, event.as_fd());
            });
            assert!(
                ctx.cpu().refresh() < deadline,
                "the descriptor did not end the park"
            );
            rustix::io::read(&event, &mut [0; 8]).expect("it was written");
        }
    }

    #[test]
    fn a_waker_ends_the_park_too_and_so_does_time() {
        let ctx = context();
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        let deadline = ctx.cpu().refresh() + LONG;
        ctx.arm();
        ctx.waker().wake();
        ctx.park_beside(deadline, event.as_fd());
        assert!(ctx.cpu().refresh() < deadline, "the waker did not end the park");
        let soon = ctx.cpu().refresh() + Ns::from_ms(1);
        while ctx.cpu().refresh() < soon {
            ctx.arm();
            ctx.park_beside(soon, event.as_fd());
        }
    }

    #[test]
    fn an_awake_context_is_not_rung() {
        let ctx = context();
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        let deadline = ctx.cpu().refresh() + LONG;
        ctx.arm();
        ctx.waker().wake();
        ctx.park_beside(deadline, event.as_fd());
        // The descriptor became ready between two sleeps and was served: the second sleep must last.
        rustix::io::write(&event, &1u64.to_ne_bytes()).expect("space");
        rustix::io::read(&event, &mut [0; 8]).expect("it was written");
        let until = ctx.cpu().refresh() + Ns::from_ms(20);
        let mut parks = 0;
        while ctx.cpu().refresh() < until {
            ctx.arm();
            ctx.park_beside(until, event.as_fd());
            parks += 1;
        }
        assert!(parks <= 3, "{parks} parks in 20 ms of quiet");
    }
}
