//! [`Poller`]: learns which sockets are ready; [`Epoll`] is the one there is.
//!
//! io_uring was measured beside it and does not win: docs/decisions/0012-epoll.md.

use rustix::event::epoll;
use rustix::fs::Timespec;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What happened, and to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// As given to [`Poller::add`].
    pub token: u64,
    /// There is something to read, or the end.
    pub readable: bool,
    /// There is space to write.
    pub writable: bool,
    /// The peer writes no more, or the connection broke: what is still to be read ends with an end or an error.
    pub hung_up: bool,
}

/// What to tell of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// New data, once per arrival: who leaves some must remember that there is more.
    Arrivals,
    /// The same and, once each time there is some again, space to write.
    ArrivalsAndSpace,
    /// Connections to accept, as long as there are some.
    Accepts,
    /// Nothing for now.
    Nothing,
}

/// Learns which of many sockets are ready. One per core.
pub trait Poller: Sized {
    /// Without sockets. Errors: no descriptors left.
    fn new() -> io::Result<Self>;

    /// Begins to watch `fd`. What is there already is told. It ends when the last descriptor of the socket is closed.
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Another interest in the same socket. What is there already is told, perhaps again.
    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Takes what happened so far into `events`, which is emptied first and not grown beyond its capacity. Never waits.
    fn poll(&mut self, events: &mut Vec<Event>);

    /// Becomes readable when there is something to [`poll`](Poller::poll).
    fn fd(&self) -> BorrowedFd<'_>;
}

/// Readiness by epoll: a call per batch of sockets that are ready, none to begin or end reading.
pub struct Epoll {
    fd: OwnedFd,
    raw: Vec<epoll::Event>,
}

impl Poller for Epoll {
    fn new() -> io::Result<Epoll> {
        Ok(Epoll {
            fd: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            raw: Vec::new(),
        })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(
            &self.fd,
            fd,
            epoll::EventData::new_u64(token),
            flags(interest),
        )?)
    }

    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(
            &self.fd,
            fd,
            epoll::EventData::new_u64(token),
            flags(interest),
        )?)
    }

    fn poll(&mut self, events: &mut Vec<Event>) {
        const NOW: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        events.clear();
        self.raw.clear();
        self.raw.reserve(events.capacity());
        // An interrupted look found nothing.
        if epoll::wait(
            &self.fd,
            rustix::buffer::spare_capacity(&mut self.raw),
            Some(&NOW),
        )
        .is_err()
        {
            return;
        }
        for raw in &self.raw {
            let (flags, data) = (raw.flags, raw.data);
            let broken = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
            events.push(Event {
                token: data.u64(),
                readable: broken || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
                writable: broken || flags.contains(epoll::EventFlags::OUT),
                hung_up: broken || flags.contains(epoll::EventFlags::RDHUP),
            });
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    use epoll::EventFlags as F;
    match interest {
        Interest::Arrivals => F::IN | F::RDHUP | F::ET,
        Interest::ArrivalsAndSpace => F::IN | F::RDHUP | F::OUT | F::ET,
        Interest::Accepts => F::IN,
        Interest::Nothing => F::empty(),
    }
}
