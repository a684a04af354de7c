//! [`Poller`]: reports which sockets are ready; [`Epoll`] is its one implementation.
//!
//! io_uring was measured too and is not faster: docs/decisions/0012-epoll.md.

use rustix::event::epoll;
use rustix::fs::Timespec;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Readiness of one socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Token given to [`Poller::add`].
    pub token: u64,
    /// Whether there is input, the end of input or an error to read.
    pub readable: bool,
    /// Whether there is space for output, or the connection broke.
    pub writable: bool,
    /// Whether the peer has stopped writing, or the connection broke: after the remaining input comes its end or an
    /// error.
    pub hung_up: bool,
}

/// Events to report for a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// New input, once per arrival (edge-triggered): a reader that leaves some must remember it.
    Arrivals,
    /// New input, and space for output once whenever there is some again.
    ArrivalsAndSpace,
    /// Connections to accept: every poll reports the listener while connections wait (level-triggered).
    Accepts,
    /// No events, except that the connection broke.
    Nothing,
}

/// Reports which of many sockets are ready. One per core.
pub trait Poller: Sized {
    /// Creates a poller that watches no sockets.
    ///
    /// # Errors
    /// No file descriptor or memory is left.
    fn new() -> io::Result<Self>;

    /// Watches `fd` for `interest` until the last descriptor of the socket is closed; its events carry `token`. A
    /// socket that is ready already is reported by the next poll.
    ///
    /// # Errors
    /// The system refuses: no memory, or too many watches.
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Replaces token and interest of a watched socket. A socket that is ready already is reported by the next poll,
    /// perhaps again.
    ///
    /// # Errors
    /// The socket is not watched, or the system is out of memory.
    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Clears `events` and fills it with the sockets that are ready, up to its capacity. Never waits.
    fn poll(&mut self, events: &mut Vec<Event>);

    /// Descriptor that becomes readable when there is something to [`poll`](Poller::poll).
    fn fd(&self) -> BorrowedFd<'_>;
}

/// A [`Poller`] over epoll. Cost: a system call per batch of ready sockets, and none to start or stop reading from one.
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
        // An interrupted call found nothing.
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
