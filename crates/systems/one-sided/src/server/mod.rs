//! [`Server`]: one shard, an actor. It handles the control channels; its [`ShardLogic`] answers requests. GETs by READ
//! do not involve it.

mod client_conn;
mod last_updates;
mod logic;
mod shard;
mod staging;

pub use last_updates::LastUpdates;
pub use logic::{Clock, Membership, ShardLogic, WorkDone};
pub use shard::{CLIENTS, REPEATED};
pub use staging::Staging;

use crate::control::{Hello, Ready, ServerParams, Ticket};
use crate::error::PeerError;
use client_conn::ClientConn;
use drover_base::{Actor, Cpu, HashKind, HashSeed, Ns, Progress};
use drover_control::{ControlStream, Frame, Message, refusal};
use drover_kv::StartError;
use drover_kv::refused::{NO_RESOURCES, WRONG_SECRET, WRONG_SHARD, WRONG_VERSION};
use drover_kv::secret::{SECRET_BYTES_MAX, is_let_in};
use drover_verbs::{Context, Device, Provider};
use last_updates::Kept;
use std::rc::Rc;

/// Maximum number of frames handled per client and poll.
const FRAMES_PER_LOOK: usize = 8;

/// Maximum number of slots of one client.
const SLOTS_MAX: u16 = 1024;

/// A server of one shard: owns the shard's data, and the server's ends of the connections to its clients. It is an
/// [`Actor`] of one core.
pub struct Server<P: Provider, H: ShardLogic<P>> {
    /// Declared before `host`: queue pairs must be destroyed before the memory they can reach.
    peers: Vec<ClientConn<H::Connection>>,
    host: H,
    /// The last updates of sessions that have ended.
    kept: Kept,
    membership: Membership,
    hash_seed: HashSeed,
    secret: Vec<u8>,
    clock: Clock,
    next_look: Ns,
    /// Index of the client that is served first. It advances with every step, so that all clients share scarce
    /// resources.
    first: usize,
    /// Number of sessions so far, by which log lines name clients.
    served: u64,
    ctx: Rc<P::Context>,
}

impl<P: Provider, H: ShardLogic<P>> Server<P, H> {
    /// Creates a server without clients, on the calling core.
    ///
    /// # Errors
    /// [`StartError`] if the fabric cannot be opened, or the shard's memory cannot be allocated or registered.
    ///
    /// # Panics
    /// If the options are inconsistent.
    pub fn new(device: &P::Device, options: &H::Options) -> Result<Server<P, H>, StartError> {
        Server::with_common(device, options, &H::Common::default())
    }

    /// As [`new`](Server::new), for one of several shards that share `common`.
    pub(crate) fn with_common(
        device: &P::Device,
        options: &H::Options,
        common: &H::Common,
    ) -> Result<Server<P, H>, StartError> {
        let membership = H::membership(options);
        let (shard, shard_count) = (membership.shard, membership.shard_count);
        assert!(shard < shard_count, "shard {shard} of {shard_count}");
        let ctx = Rc::new(device.context()?);
        let (cpu, seed) = (ctx.cpu(), membership.hash_seed);
        let hash_seed = seed.unwrap_or_else(|| HashSeed::drawn(HashKind::default(), cpu));
        let clock = Clock(cpu.now());
        Ok(Server {
            peers: Vec::new(),
            host: H::new(&ctx, options, hash_seed.hasher(), clock, common)?,
            kept: Kept::default(),
            membership,
            hash_seed,
            secret: Vec::new(),
            clock,
            next_look: Ns::ZERO,
            first: 0,
            served: 0,
            ctx,
        })
    }

    /// The server's context of the fabric; the `Cpu` of this context must be the argument of [`step`](Actor::step).
    pub fn context(&self) -> Rc<P::Context> {
        self.ctx.clone()
    }

    /// The system's part of the server: table and records.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Changes the system's part of the server, and sends clients the notifications that follow from that.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut H) -> R) -> R {
        let done = change(&mut self.host);
        self.tell_all();
        done
    }

    /// Refuses new sessions of clients without `secret` from now on; an empty secret lets all in.
    ///
    /// # Panics
    /// If `secret` is longer than [`SECRET_BYTES_MAX`].
    pub fn require_secret(&mut self, secret: &[u8]) {
        assert!(
            secret.len() <= SECRET_BYTES_MAX,
            "a secret of {} bytes",
            secret.len()
        );
        self.secret = secret.to_vec();
    }

    /// Takes over the control channel of a client, and serves that client from the next step on.
    pub fn adopt(&mut self, stream: ControlStream) {
        self.peers.push(ClientConn::new(stream));
        self.next_look = Ns::ZERO;
    }

    /// Number of clients adopted and not gone, including those without a session yet.
    pub fn client_count(&self) -> usize {
        self.peers.len()
    }

    /// Number of keys, expired ones that were not removed yet included.
    pub fn len(&self) -> usize {
        self.host.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.host.is_empty()
    }

    /// Bytes of the records or objects in use: see [`ShardLogic::used_bytes`].
    pub fn used_bytes(&self) -> usize {
        self.host.used_bytes()
    }

    /// The system's counters of this shard since its start.
    pub fn stats(&self) -> H::Stats {
        self.host.stats()
    }

    /// Polls the control channels; returns whether there was anything to do.
    fn poll(&mut self, now: Ns) -> bool {
        let mut frames = Vec::new();
        for (index, peer) in self.peers.iter_mut().enumerate() {
            frames.extend(
                (0..FRAMES_PER_LOOK)
                    .map_while(|_| peer.receive(now))
                    .map(|frame| (index, frame)),
            );
        }
        for (index, frame) in &frames {
            self.take(*index, frame, now);
        }
        let before = self.peers.len();
        for index in 0..before {
            if self.peers[index].is_gone() {
                self.give_up(index, now);
            }
        }
        self.peers.retain(|peer| !peer.is_gone());
        self.kept.expire(now);
        let conns = self.peers.iter().filter_map(|peer| peer.conn.as_ref());
        self.host.control_polled(now, conns);
        !frames.is_empty() || self.peers.len() < before
    }

    /// Releases a client's resources and destroys its queue pair; only its last updates are kept for a while.
    fn give_up(&mut self, index: usize, now: Ns) {
        let peer = &mut self.peers[index];
        peer.close();
        if let Some(mut conn) = peer.conn.take() {
            let updates = std::mem::take(H::last_updates(&mut conn));
            self.kept.keep(peer.ticket, updates, now);
            self.host.close(&self.ctx, conn);
        }
    }

    fn take(&mut self, index: usize, frame: &Frame, now: Ns) {
        let done = match frame.kind {
            kind if kind == Hello::<H::ClientParams>::KIND => match self.decode_hello(index, frame) {
                Ok(Some(hello)) => return self.greet(index, hello, now),
                Ok(None) => return,
                Err(error) => Err(error),
            },
            kind if kind == H::Attach::KIND => self.attach(index, frame),
            _ => match &mut self.peers[index].conn {
                Some(conn) => self.host.receive(conn, frame),
                None => Err(PeerError::OutOfOrder),
            },
        };
        if let Err(error) = done {
            let (peer, kind) = (&mut self.peers[index], frame.kind);
            tracing::debug!("{}: message of kind {kind}: {error}", peer.name());
            peer.refuse(refusal::BAD_MESSAGE, "malformed or unexpected message");
        }
    }

    /// `None`: a client of another version, whose Hello may have other fields, was refused.
    fn decode_hello(
        &mut self,
        index: usize,
        frame: &Frame,
    ) -> Result<Option<Hello<H::ClientParams>>, PeerError> {
        if Hello::<H::ClientParams>::version_of(frame).is_some_and(|version| version != H::VERSION) {
            let text = format!("the server speaks version {}", H::VERSION);
            self.peers[index].refuse(WRONG_VERSION, &text);
            return Ok(None);
        }
        Ok(Some(frame.decode()?))
    }

    fn attach(&mut self, index: usize, frame: &Frame) -> Result<(), PeerError> {
        let peer = &mut self.peers[index];
        let conn = peer.conn.as_mut().ok_or(PeerError::OutOfOrder)?;
        self.host.attach(&self.ctx, conn, &frame.decode()?)?;
        peer.send(&Ready);
        // The table may have changed since the Welcome.
        self.tell_all();
        Ok(())
    }

    fn greet(&mut self, index: usize, hello: Hello<H::ClientParams>, now: Ns) {
        let (shard, shard_count) = (self.membership.shard, self.membership.shard_count);
        if !is_let_in(&self.secret, &hello.secret) {
            return self.peers[index].refuse(WRONG_SECRET, "not authorised");
        }
        if !H::HAS_EVERY_KEY && (hello.shard, hello.shard_count) != (shard, shard_count) {
            let text = format!("this is shard {shard} of {shard_count}");
            return self.peers[index].refuse(WRONG_SHARD, &text);
        }
        // The client has reported some of the previous session's unread requests as indeterminate, and sends the others
        // again; none of them may execute later.
        for other in 0..self.peers.len() {
            if hello.previous != Ticket::NONE && self.peers[other].ticket == hello.previous {
                self.give_up(other, now);
            }
        }
        match self.welcome(index, hello, now) {
            Ok(welcome) => self.peers[index].send(&welcome),
            Err(error) => self.peers[index].refuse(NO_RESOURCES, &error.to_string()),
        }
    }

    fn welcome(
        &mut self,
        index: usize,
        mut hello: Hello<H::ClientParams>,
        now: Ns,
    ) -> Result<H::Welcome, PeerError> {
        if self.peers[index].conn.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        hello.slots = hello.slots.clamp(1, SLOTS_MAX);
        let (item_bytes_max, message_bytes) = self.host.limits();
        let session = self.ctx.cpu().random().max(1);
        let ticket = match self.kept.has(hello.previous, hello.slots) {
            true => hello.previous,
            false => Ticket {
                session,
                secret: self.ctx.cpu().secret(),
            },
        };
        let terms = ServerParams {
            session,
            ticket,
            hash_seed: self.hash_seed,
            item_bytes_max: item_bytes_max as u32,
            message_bytes: message_bytes as u32,
            now_s: self.clock.now_s(now),
        };
        let (mut conn, welcome) = self.host.open(&self.ctx, &hello, terms)?;
        self.host.opened_by(&mut conn, self.peers[index].process());
        let updates = self.kept.take(ticket);
        *H::last_updates(&mut conn) = updates.unwrap_or_else(|| LastUpdates::new(hello.slots));
        let peer = &mut self.peers[index];
        (peer.conn, peer.session, peer.ticket) = (Some(conn), session, ticket);
        self.served += 1;
        peer.identify(&format!(
            "client {} of shard {}",
            self.served, self.membership.shard
        ));
        Ok(welcome)
    }

    /// Sends the notification to all clients that have not received it.
    fn tell_all(&mut self) {
        for peer in self.peers.iter_mut().filter(|peer| !peer.is_gone()) {
            let Some(conn) = &mut peer.conn else { continue };
            match self.host.notification(conn) {
                Ok(Some(notification)) => peer.send(&notification),
                Ok(None) => {}
                Err(error) => {
                    tracing::info!("{} dropped: no memory for a message: {error}", peer.name());
                    peer.close();
                }
            }
        }
    }

    fn serve(&mut self, cpu: &P::Cpu) -> bool {
        self.first += 1;
        if self.first >= self.peers.len() {
            self.first = 0;
        }
        let mut is_busy = false;
        let (back, ops) = self.peers.split_at_mut(self.first);
        for peer in ops.iter_mut().chain(back) {
            let Some(conn) = peer.conn.as_mut().filter(|_| !peer.broken) else {
                continue;
            };
            is_busy |= self.host.serve(cpu, conn).unwrap_or_else(|error| {
                tracing::info!("{} dropped: {error}", peer.name());
                peer.broken = true;
                true
            });
        }
        is_busy
    }
}

impl<P: Provider, H: ShardLogic<P>> Actor<P::Cpu> for Server<P, H> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let now = cpu.now();
        let mut is_busy = false;
        if now >= self.next_look {
            is_busy = self.poll(now);
            self.next_look = now + self.membership.look_every;
        }
        is_busy |= self.serve(cpu);
        let advance = self.host.advance(now);
        if advance == WorkDone::Notify {
            self.tell_all();
        }
        match is_busy || advance != WorkDone::Idle {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: self.next_look.min(self.host.next_timer()),
            },
        }
    }
}
