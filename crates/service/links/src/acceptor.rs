//! [`LinkAcceptor`]: a thread that lets other members in.

use crate::control_link::ControlLink;
use crate::half_open::{HalfOpen, Outcome};
use crate::handshake::{LinkTarget, MemberIdentity, Refusal};
use crate::inbox::{Arrival, CoreInboxes, LinkInbox};
use crate::socket;
use drover_base::{Cpu, Ns};
use drover_mem::NativeCpu;
use drover_rt::{StopFlag, WakeFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Time without accepting after the system had no descriptor left.
const PAUSE: Ns = Ns::from_ms(100);
/// Time after a warning about a connection that was refused in which further ones get no warning: some peers try again at
/// once.
const QUIET: Ns = Ns::from_s(1);

/// Options of a [`LinkAcceptor`].
#[derive(Clone, Debug)]
pub struct AcceptorOptions {
    /// Time that a handshake may take.
    pub handshake_timeout: Ns,
    /// Maximum number of connections in the handshake; a further one takes the place of the oldest. All cores of a member may
    /// connect to all of another at the same moment.
    pub half_open_max: usize,
    /// Maximum number of links from one member, which has up to two from each of its cores to each of this member's.
    pub links_per_member_max: usize,
    /// Maximum bytes of a message to the control thread.
    pub control_bytes_max: usize,
}

impl Default for AcceptorOptions {
    fn default() -> AcceptorOptions {
        AcceptorOptions {
            handshake_timeout: Ns::from_s(2),
            half_open_max: 512,
            links_per_member_max: 16 << 10,
            control_bytes_max: 2 << 20,
        }
    }
}

/// A thread that listens for other members, plays the server's part of the handshake, and hands out the links that pass it.
/// Dropping it ends the thread; links that were handed out stay.
#[derive(Debug)]
pub struct LinkAcceptor {
    addr: SocketAddr,
    stop: StopFlag,
    bell: WakeFd,
    thread: Option<JoinHandle<()>>,
}

impl LinkAcceptor {
    /// Starts the thread. Links to core n go to the nth of `inboxes` for their purpose, links to the control thread to
    /// `control`, which the thread calls and which must not block.
    ///
    /// # Errors
    /// The system refuses a descriptor or a thread.
    pub fn start(
        listener: TcpListener,
        identity: Arc<MemberIdentity>,
        inboxes: impl Into<CoreInboxes>,
        control: impl FnMut(ControlLink) + Send + 'static,
        options: AcceptorOptions,
    ) -> io::Result<LinkAcceptor> {
        listener.set_nonblocking(true)?;
        let (addr, stop, bell) = (listener.local_addr()?, StopFlag::new(), WakeFd::new()?);
        let mut reception = Reception {
            listener,
            identity,
            inboxes: inboxes.into(),
            control: Box::new(control),
            options,
            half_open: Vec::new(),
            places: BTreeMap::new(),
            paused_until: Ns::ZERO,
            quiet_until: Ns::ZERO,
        };
        let (stopped, woken) = (stop.clone(), bell.clone());
        let thread = std::thread::Builder::new().name("links".to_owned());
        let thread = thread.spawn(move || {
            let cpu = NativeCpu::new(0);
            while !stopped.is_set() {
                reception.wait(&woken, cpu.refresh());
                reception.step(cpu.refresh());
            }
        })?;
        Ok(LinkAcceptor {
            addr,
            stop,
            bell,
            thread: Some(thread),
        })
    }

    /// Address that it listens at.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for LinkAcceptor {
    fn drop(&mut self) {
        self.stop.set();
        self.bell.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Reception {
    listener: TcpListener,
    identity: Arc<MemberIdentity>,
    inboxes: CoreInboxes,
    control: Box<dyn FnMut(ControlLink) + Send>,
    options: AcceptorOptions,
    /// Connections in the handshake, oldest first.
    half_open: Vec<HalfOpen>,
    /// Each link of a member holds a clone.
    places: BTreeMap<String, Arc<()>>,
    /// Nothing is accepted before.
    paused_until: Ns,
    /// Refusals get no warning before.
    quiet_until: Ns,
}

impl Reception {
    /// Waits for input, a connection, a handshake that takes too long, or `bell`.
    fn wait(&self, bell: &WakeFd, now: Ns) {
        let bell_fd = bell.fd();
        let mut fds = vec![PollFd::new(&bell_fd, PollFlags::IN)];
        fds.extend(
            self.half_open
                .iter()
                .map(|one| PollFd::from_borrowed_fd(one.fd(), PollFlags::IN)),
        );
        let mut until = self.half_open.first().map_or(Ns::MAX, |oldest| oldest.until);
        match now < self.paused_until {
            true => until = until.min(self.paused_until),
            false => fds.push(PollFd::new(&self.listener, PollFlags::IN)),
        }
        let timeout = (until != Ns::MAX).then(|| {
            let left = until.since(now);
            Timespec {
                tv_sec: left.as_s() as i64,
                tv_nsec: (left.0 % 1_000_000_000) as i64,
            }
        });
        let _ = poll(&mut fds, timeout.as_ref());
    }

    fn step(&mut self, now: Ns) {
        for mut one in std::mem::take(&mut self.half_open) {
            match one.advance(&self.identity) {
                Outcome::Wait if now < one.until => self.half_open.push(one),
                Outcome::Wait => tracing::debug!("{}: the handshake took too long", one.addr),
                Outcome::Proved { from, target } => self.admit(one, from, target, now),
                Outcome::Refused(refusal) => self.warn(&one.addr, refusal, now),
                Outcome::Gone => tracing::debug!("{}: closed in the handshake", one.addr),
            }
        }
        while now >= self.paused_until {
            match self.listener.accept() {
                Ok((socket, addr)) => self.accept(OwnedFd::from(socket), addr, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!("links from other members cannot be accepted now: {error}");
                    self.paused_until = now + PAUSE;
                }
            }
        }
    }

    fn accept(&mut self, socket: OwnedFd, addr: SocketAddr, now: Ns) {
        socket::tune(socket.as_fd());
        if self.half_open.len() >= self.options.half_open_max {
            self.half_open.remove(0);
        }
        let until = now + self.options.handshake_timeout;
        self.half_open.push(HalfOpen::new(socket, addr, until));
    }

    /// Hands out a link that has passed the handshake, unless there are too many.
    fn admit(&mut self, one: HalfOpen, from: String, target: LinkTarget, now: Ns) {
        self.places.retain(|_, place| Arc::strong_count(place) > 1);
        let place = self.places.entry(from.clone()).or_default().clone();
        // The entry and this clone hold it, too.
        let others = Arc::strong_count(&place) - 2;
        let admitted = match others < self.options.links_per_member_max {
            true => self.inbox_of(target),
            false => Err(Refusal::TooMany),
        };
        let inbox = match admitted {
            Ok(inbox) => inbox,
            Err(refusal) => {
                self.warn(&format_args!("member {from} at {}", one.addr), refusal, now);
                let _ = one.conclude(Some(refusal));
                return;
            }
        };
        // A connection that broke meanwhile needs no reader.
        let Ok(socket) = one.conclude(None) else { return };
        let arrival = Arrival {
            socket,
            member: from.into(),
            _place: place,
        };
        match inbox {
            Some(inbox) => inbox.put(arrival),
            None => {
                let link = ControlLink::new(arrival, self.options.control_bytes_max);
                link.into_iter().for_each(&mut self.control);
            }
        }
    }

    /// Where links to `target` go; `None`: to the control thread.
    fn inbox_of(&self, target: LinkTarget) -> Result<Option<LinkInbox>, Refusal> {
        let inbox = match target {
            LinkTarget::Control => return Ok(None),
            LinkTarget::Core(core) => self.inboxes.requests.get(usize::from(core)),
            LinkTarget::Copies(core) => self.inboxes.copies.get(usize::from(core)),
        };
        inbox.cloned().map(Some).ok_or(Refusal::Target)
    }

    fn warn(&mut self, from: &dyn Display, refusal: Refusal, now: Ns) {
        if now < self.quiet_until {
            return tracing::debug!("a link from {from} was refused: {refusal}");
        }
        self.quiet_until = now + QUIET;
        tracing::warn!("a link from {from} was refused: {refusal}");
    }
}
