//! [`Server`]: one shard, an actor that minds its control channels and polls its clients' rings. GETs pass it by.

mod desk;
mod inbox;
mod peer;
mod places;
mod shard;
mod wire;

use crate::control::{
    Attach, Hello, NO_RESOURCES, PROTOCOL_VERSION, Ready, WRONG_SHARD, WRONG_VERSION, Welcome,
};
use crate::layout::{REPLY_TRAILER_BYTES, REQUEST_HEADER_BYTES, record_bytes};
use crate::logic::RING_BYTES;
use desk::{Desk, STAGES, Staging};
use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_index::hopscotch::{Geometry, HopscotchTable, SlotKind, TableOptions};
use drover_kv::KEY_BYTES_MAX;
use drover_mem::{AllocError, PageWish, round_up};
use drover_rt::control::{ControlStream, Frame, Message, refusal};
use drover_verbs::{Access, Context, Device, MemoryRegion, OpenError, Provider, RegisterError};
use peer::{Peer, PeerError};
use shard::Shard;
use std::rc::Rc;
use wire::WireOptions;

/// Frames of one client per look.
const FRAMES_PER_LOOK: usize = 8;

/// Most slots that one client gets.
const SLOTS_MAX: u16 = 1024;

/// Longest item, bytes: an object's length has 24 bits.
const ITEM_BYTES_MAX: usize = 8 << 20;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Which shard it is.
    pub shard: u16,
    /// Of how many.
    pub shard_count: u16,
    /// Which slots are whose.
    pub geometry: Geometry,
    /// Wide: values of up to 32 bytes are in the table. Narrow: none is.
    pub kind: SlotKind,
    /// Homes of the table, a power of two: in a classic geometry four for three keys.
    pub home_count: usize,
    /// Blocks of overflow, two keys each.
    pub block_count: usize,
    /// Bytes for objects.
    pub memory_bytes: usize,
    /// Longest item (20 bytes, key, value), bytes.
    pub item_bytes_max: usize,
    /// Longest request, and place of a reply, bytes: longer values are fetched by READ and handed over by WRITE.
    pub message_bytes: usize,
    /// Of each client's ring; a multiple of 64, and four requests at least.
    pub ring_bytes: usize,
    /// Forgets something instead of refusing a new key.
    pub evicts: bool,
    /// How long the place of an object that was given up is not used again.
    pub grace: Ns,
    /// How often control channels are looked at: a system call for every client, which costs a core that sleeps its
    /// sleep.
    pub look_every: Ns,
    /// Which pages.
    pub pages: PageWish,
    /// Keys the hash of keys; `None`: random. All shards of a service have one.
    pub hash_seed: Option<HashSeed>,
}

impl Default for ServerOptions {
    /// One shard: 64 MiB of objects, 2^20 slots with small values inside.
    fn default() -> ServerOptions {
        ServerOptions {
            shard: 0,
            shard_count: 1,
            geometry: Geometry::CLASSIC,
            kind: SlotKind::Wide,
            home_count: 1 << 20,
            block_count: 1 << 16,
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            message_bytes: 1024,
            ring_bytes: RING_BYTES,
            evicts: false,
            grace: Ns::from_ms(1),
            look_every: Ns::from_us(20),
            pages: PageWish::HugeIfAny,
            hash_seed: None,
        }
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The fabric could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerStats {
    /// PUT messages.
    pub puts: u64,
    /// DELETE messages.
    pub deletes: u64,
    /// GET messages: misses to confirm, and readers who gave up. Other GETs are not seen.
    pub gets: u64,
    /// Values fetched from clients.
    pub pulls: u64,
    /// Values WRITTEN to clients.
    pub pushes: u64,
    /// Keys forgotten to make room.
    pub evictions: u64,
}

/// One shard and its clients.
pub struct Server<P: Provider> {
    /// Before what their queue pairs reach.
    peers: Vec<Peer<P>>,
    desk: Desk<P>,
    slots: P::Mr,
    objects: P::Mr,
    table: TableOptions,
    options: ServerOptions,
    hash_seed: HashSeed,
    next_look: Ns,
    /// Who is served first; another one each time, since stages are few.
    first: usize,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Server<P> {
    /// A server without clients, on the core that calls this.
    ///
    /// # Panics
    /// If the options contradict themselves.
    pub fn new(device: &P::Device, options: &ServerOptions) -> Result<Server<P>, StartError> {
        assert!(
            options.shard < options.shard_count,
            "shard {} of {}",
            options.shard,
            options.shard_count
        );
        assert!(options.message_bytes >= REQUEST_HEADER_BYTES.max(REPLY_TRAILER_BYTES) + KEY_BYTES_MAX);
        assert!(record_bytes(options.message_bytes) <= options.ring_bytes / 4);
        let ctx = Rc::new(device.context()?);
        let cpu = ctx.cpu();
        let table = TableOptions {
            geometry: options.geometry,
            kind: options.kind,
            home_count: options.home_count,
            block_count: options.block_count,
            epoch: cpu.random().max(1),
        };
        let readable = |bytes| -> Result<P::Mr, StartError> {
            Ok(ctx.register(&ctx.alloc(bytes, options.pages)?, Access::REMOTE_READ)?)
        };
        let slots = readable(table.bytes())?;
        let objects = readable(options.memory_bytes)?;
        let item_bytes_max = options.item_bytes_max.min(ITEM_BYTES_MAX);
        let stages = ctx.alloc(STAGES * round_up(item_bytes_max, 4096), options.pages)?;
        let staging = Staging::new(ctx.register(&stages, Access::LOCAL)?);
        let hash_seed = options.hash_seed;
        let hash_seed = hash_seed.unwrap_or_else(|| HashSeed::new(cpu.random(), cpu.random()));
        let shard = Shard::new(
            HopscotchTable::new(slots.region().clone(), &table),
            objects.region().clone(),
            options.memory_bytes,
            options.grace,
            item_bytes_max,
            options.evicts,
        );
        Ok(Server {
            peers: Vec::new(),
            desk: Desk::new(shard, hash_seed.hasher(), staging, cpu.now()),
            slots,
            objects,
            table,
            options: ServerOptions {
                item_bytes_max,
                ..options.clone()
            },
            hash_seed,
            next_look: Ns::ZERO,
            first: 0,
            ctx,
        })
    }

    /// Its view of the fabric; its core is what [`step`](Actor::step) wants.
    pub fn context(&self) -> Rc<P::Context> {
        self.ctx.clone()
    }

    /// Serves the client at the other end of `stream`.
    pub fn adopt(&mut self, stream: ControlStream) {
        self.peers.push(Peer::new(&self.ctx, stream));
        self.next_look = Ns::ZERO;
    }

    /// Clients.
    pub fn client_count(&self) -> usize {
        self.peers.len()
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.desk.shard.len()
    }

    /// No keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys in overflow: each costs its readers a READ more, or several.
    pub fn overflow_len(&self) -> usize {
        self.desk.shard.overflow_len()
    }

    /// Bytes of objects.
    pub fn used_bytes(&self) -> usize {
        self.desk.shard.used_bytes()
    }

    /// Slots of the table, overflow not counted.
    pub fn slot_count(&self) -> usize {
        self.table.slot_count()
    }

    /// Counters.
    pub fn stats(&self) -> ServerStats {
        ServerStats {
            evictions: self.desk.shard.evictions(),
            ..self.desk.stats
        }
    }

    /// What has come over the control channels. Who has gone is dropped before anybody is let in.
    fn look(&mut self, now: Ns) -> bool {
        let mut frames = Vec::new();
        for (index, peer) in self.peers.iter_mut().enumerate() {
            frames.extend(
                (0..FRAMES_PER_LOOK)
                    .map_while(|_| peer.hear(now))
                    .map(|frame| (index, frame)),
            );
        }
        for (index, frame) in &frames {
            self.take(*index, frame, now);
        }
        let before = self.peers.len();
        for peer in &mut self.peers {
            if peer.is_gone() {
                peer.give_up(&mut self.desk);
            }
        }
        self.peers.retain(|peer| !peer.is_gone());
        !frames.is_empty() || self.peers.len() < before
    }

    fn take(&mut self, index: usize, frame: &Frame, now: Ns) {
        let peer = &mut self.peers[index];
        let done = match frame.kind {
            Hello::KIND => match frame.decode::<Hello>() {
                Ok(hello) => return self.greet(index, &hello, now),
                Err(_) => Err(()),
            },
            Attach::KIND => match frame.decode::<Attach>() {
                Ok(attach) => peer.attach(&attach).map_err(drop),
                Err(_) => Err(()),
            },
            _ => Err(()),
        };
        match done {
            Ok(()) => peer.send(&Ready),
            Err(()) => peer.refuse(refusal::BAD_MESSAGE, "not a message that belongs here"),
        }
    }

    fn greet(&mut self, index: usize, hello: &Hello, now: Ns) {
        let options = &self.options;
        if hello.version != PROTOCOL_VERSION {
            let text = format!("the server speaks version {PROTOCOL_VERSION}");
            return self.peers[index].refuse(WRONG_VERSION, &text);
        }
        if (hello.shard, hello.shard_count) != (options.shard, options.shard_count) {
            let text = format!("this is shard {} of {}", options.shard, options.shard_count);
            return self.peers[index].refuse(WRONG_SHARD, &text);
        }
        // What its last session wrote and we have not read yet was reported as unknown: it must not happen later.
        for peer in &mut self.peers {
            if hello.previous != 0 && peer.session() == hello.previous {
                peer.close();
                peer.give_up(&mut self.desk);
            }
        }
        match self.welcome(index, hello, now) {
            Ok(welcome) => self.peers[index].send(&welcome),
            Err(error) => self.peers[index].refuse(NO_RESOURCES, &error.to_string()),
        }
    }

    fn welcome(&mut self, index: usize, hello: &Hello, now: Ns) -> Result<Welcome, PeerError> {
        let (session, options) = (self.ctx.cpu().random().max(1), &self.options);
        let wire = WireOptions {
            slots: usize::from(hello.slots.clamp(1, SLOTS_MAX)),
            value_bytes_max: options.item_bytes_max.min(ITEM_BYTES_MAX),
            message_bytes: options.message_bytes,
            reply_bytes: round_up(options.message_bytes, 64),
            ring_bytes: options.ring_bytes,
            sums: hello.sums || !self.ctx.caps().ordered_writes,
        };
        let (ring, qp) = self.peers[index].open(session, wire)?;
        let (hash_k0, hash_k1) = self.hash_seed.halves();
        Ok(Welcome {
            session,
            hash_k0,
            hash_k1,
            table: self.table,
            item_bytes_max: options.item_bytes_max as u32,
            message_bytes: options.message_bytes as u32,
            reply_bytes: wire.reply_bytes as u32,
            ring_bytes: options.ring_bytes as u32,
            now_s: self.desk.now_s(now),
            sums: wire.sums,
            slots: self.slots.export(&[])?,
            objects: self.objects.export(&[])?,
            ring,
            qp,
        })
    }
}

impl<P: Provider> Actor<P::Cpu> for Server<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let now = cpu.now();
        let mut busy = false;
        if now >= self.next_look {
            busy = self.look(now);
            self.next_look = now + self.options.look_every;
        }
        let count = self.peers.len();
        self.first = (self.first + 1) % count.max(1);
        let (back, front) = self.peers.split_at_mut(self.first);
        for peer in front.iter_mut().chain(back) {
            busy |= peer.serve(cpu, &mut self.desk);
        }
        match busy {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: self.next_look,
            },
        }
    }
}
