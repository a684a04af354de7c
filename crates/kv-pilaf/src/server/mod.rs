//! [`Server`]: one shard, an actor that minds its control channels and answers messages. GETs pass it by.

mod peer;
mod shard;

use crate::control::{
    Attach, Hello, NO_RESOURCES, PROTOCOL_VERSION, Ready, WRONG_SHARD, WRONG_VERSION, Welcome,
};
use crate::layout::MESSAGE_HEADER_BYTES;
use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_index::cuckoo::CuckooTable;
use drover_mem::{AllocError, PageWish};
use drover_rt::control::{ControlStream, Frame, Message, refusal};
use drover_store::ExtentsOptions;
use drover_verbs::{Access, Context, Device, MemoryRegion, OpenError, Provider, RegisterError};
use peer::{Desk, Peer, PeerError};
use shard::Shard;
use std::rc::Rc;

/// Frames of one client per look.
const FRAMES_PER_LOOK: usize = 8;

/// Most slots that one client gets.
const SLOTS_MAX: u16 = 1024;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Which shard it is.
    pub shard: u16,
    /// Of how many.
    pub shard_count: u16,
    /// Places of the table, a power of two: four for three keys.
    pub entry_count: usize,
    /// Bytes for records.
    pub memory_bytes: usize,
    /// Longest record (24 bytes, key, value), bytes.
    pub item_bytes_max: usize,
    /// Longest request and reply, bytes: longer values are fetched by READ.
    pub message_bytes: usize,
    /// Forgets the oldest record instead of refusing a new one.
    pub evicts: bool,
    /// How long a record that was replaced stays readable.
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
    /// One shard: 64 MiB of records, 2^20 places.
    fn default() -> ServerOptions {
        ServerOptions {
            shard: 0,
            shard_count: 1,
            entry_count: 1 << 20,
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            message_bytes: 1024,
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
    /// Keys forgotten to make room.
    pub evictions: u64,
}

/// One shard and its clients.
pub struct Server<P: Provider> {
    /// Before what their queue pairs reach.
    peers: Vec<Peer<P>>,
    desk: Desk<P>,
    table: P::Mr,
    options: ServerOptions,
    hash_seed: HashSeed,
    epoch: u64,
    next_look: Ns,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Server<P> {
    /// A server without clients, on the core that calls this.
    ///
    /// # Panics
    /// If the options contradict themselves.
    pub fn new(device: &P::Device, options: &ServerOptions) -> Result<Server<P>, StartError> {
        assert!(options.shard < options.shard_count && options.message_bytes > MESSAGE_HEADER_BYTES);
        let ctx = Rc::new(device.context()?);
        let cpu = ctx.cpu();
        let epoch = cpu.random().max(1);
        let table_bytes = CuckooTable::<drover_mem::Region>::bytes_for(options.entry_count);
        let table = ctx.register(&ctx.alloc(table_bytes, options.pages)?, Access::REMOTE_READ)?;
        let extents = ctx.register(
            &ctx.alloc(options.memory_bytes, options.pages)?,
            Access::REMOTE_READ,
        )?;
        let hash_seed = options.hash_seed;
        let hash_seed = hash_seed.unwrap_or_else(|| HashSeed::new(cpu.random(), cpu.random()));
        let extents_options = ExtentsOptions {
            grace: options.grace,
            ..ExtentsOptions::for_bytes(options.memory_bytes)
        };
        let item_bytes_max = options.item_bytes_max.min(drover_index::cuckoo::RECORD_BYTES_MAX);
        let shard = Shard::new(
            CuckooTable::new(table.region().clone(), options.entry_count, epoch),
            extents.region().clone(),
            extents_options,
            item_bytes_max,
            options.evicts,
        );
        Ok(Server {
            peers: Vec::new(),
            desk: Desk::new(shard, hash_seed.hasher(), extents, cpu.now()),
            table,
            options: ServerOptions {
                message_bytes: options.message_bytes.min(ctx.caps().send_bytes_max),
                item_bytes_max,
                ..options.clone()
            },
            hash_seed,
            epoch,
            next_look: Ns::ZERO,
            ctx,
        })
    }

    /// Its view of the fabric; its core is what [`step`](Actor::step) wants.
    pub fn context(&self) -> Rc<P::Context> {
        self.ctx.clone()
    }

    /// Serves the client at the other end of `stream`.
    pub fn adopt(&mut self, stream: ControlStream) {
        self.peers.push(Peer::new(stream));
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

    /// Bytes of records, those that wait in quarantine included.
    pub fn used_bytes(&self) -> usize {
        self.desk.shard.used_bytes()
    }

    /// Places of the table.
    pub fn entry_count(&self) -> usize {
        self.options.entry_count
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
        let done = match frame.kind {
            Hello::KIND => match frame.decode::<Hello>() {
                Ok(hello) => return self.greet(index, &hello, now),
                Err(_) => Err(()),
            },
            Attach::KIND => match frame.decode::<Attach>() {
                Ok(attach) => self.peers[index].attach(&self.ctx, &attach).map_err(drop),
                Err(_) => Err(()),
            },
            _ => Err(()),
        };
        match done {
            Ok(()) => self.peers[index].send(&Ready),
            Err(()) => self.peers[index].refuse(refusal::BAD_MESSAGE, "not a message that belongs here"),
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
        // What its last session sent and we have not read yet was reported as unknown: it must not happen later.
        for peer in &mut self.peers {
            if hello.previous != 0 && peer.session() == hello.previous {
                peer.close();
            }
        }
        let session = self.ctx.cpu().random().max(1);
        let slots = hello.slots.clamp(1, SLOTS_MAX);
        match self.welcome(index, session, slots, now) {
            Ok(welcome) => self.peers[index].send(&welcome),
            Err(error) => self.peers[index].refuse(NO_RESOURCES, &error.to_string()),
        }
    }

    fn welcome(&mut self, index: usize, session: u64, slots: u16, now: Ns) -> Result<Welcome, PeerError> {
        let message_bytes = self.options.message_bytes;
        let qp = self.peers[index].open(&self.ctx, session, usize::from(slots), message_bytes)?;
        let (hash_k0, hash_k1) = self.hash_seed.halves();
        Ok(Welcome {
            session,
            hash_k0,
            hash_k1,
            epoch: self.epoch,
            entry_count: self.options.entry_count as u64,
            item_bytes_max: self.options.item_bytes_max as u32,
            message_bytes: message_bytes as u32,
            now_s: self.desk.now_s(now),
            table: self.table.export(&[])?,
            extents: self.desk.extents.export(&[])?,
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
        for peer in &mut self.peers {
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
