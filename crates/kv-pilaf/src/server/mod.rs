//! [`Server`]: one shard, an actor that minds its control channels and answers messages. GETs pass it by.

mod desk;
mod growth;
mod options;
mod peer;
mod shard;
mod wire;

pub use options::{ServerOptions, ServerStats, StartError};

use crate::control::{
    Adopted, Attach, Grown, Hello, NO_RESOURCES, PROTOCOL_VERSION, Ready, TableDescriptor, WRONG_SHARD,
    WRONG_VERSION, Welcome,
};
use crate::layout::MESSAGE_HEADER_BYTES;
use desk::Desk;
use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_mem::AllocError;
use drover_rt::control::{ControlStream, Frame, Message, refusal};
use drover_store::ExtentsOptions;
use drover_verbs::{Access, Context, Device, MemoryRegion, Provider};
use growth::{Growth, GrowthOptions, Slice};
use peer::{Peer, PeerError};
use shard::Shard;
use std::rc::Rc;

/// Frames of one client per look.
const FRAMES_PER_LOOK: usize = 8;

/// Most slots that one client gets.
const SLOTS_MAX: u16 = 1024;

/// One shard and its clients.
pub struct Server<P: Provider> {
    /// Before what their queue pairs reach.
    peers: Vec<Peer<P>>,
    desk: Desk<P>,
    options: ServerOptions,
    hash_seed: HashSeed,
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
        let growth_options = GrowthOptions {
            entry_count_max: options.entry_count_max,
            lease: options.lease,
            pages: options.pages,
        };
        // Of the first table; every further one counts from there and never gets to the end.
        let epoch = (cpu.random() >> 1).max(1);
        let (growth, table) = Growth::<P>::new(&ctx, growth_options, options.entry_count, epoch)?;
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
            table,
            extents.region().clone(),
            extents_options,
            item_bytes_max,
            options.evicts,
        );
        Ok(Server {
            peers: Vec::new(),
            desk: Desk::new(shard, growth, hash_seed.hasher(), extents, cpu.now()),
            options: ServerOptions {
                message_bytes: options.message_bytes.min(ctx.caps().send_bytes_max),
                item_bytes_max,
                ..options.clone()
            },
            hash_seed,
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

    /// Places of the table that clients READ.
    pub fn entry_count(&self) -> usize {
        self.desk.shard.table.table().entry_count()
    }

    /// Tables that were replaced and are still registered, because a client may be reading them.
    pub fn retired_count(&self) -> usize {
        self.desk.growth.retired_count()
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
        let peers = &self.peers;
        self.desk
            .growth
            .let_go(now, |epoch| peers.iter().any(|peer| peer.holds(epoch)));
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
                Ok(attach) => peer.attach(&self.ctx, &attach).map_err(drop),
                Err(_) => Err(()),
            },
            Adopted::KIND => match frame.decode::<Adopted>() {
                Ok(adopted) => peer.adopted(adopted.epoch).map_err(drop),
                Err(_) => Err(()),
            },
            _ => Err(()),
        };
        match done {
            Ok(()) if frame.kind == Attach::KIND => {
                peer.send(&Ready);
                // The table may have grown since it was welcomed.
                self.tell_all();
            }
            Ok(()) => {}
            Err(()) => peer.refuse(refusal::BAD_MESSAGE, "not a message that belongs here"),
        }
    }

    /// Tells whoever has not heard of the table.
    fn tell_all(&mut self) {
        let epoch = self.desk.shard.table.table().epoch();
        for index in 0..self.peers.len() {
            if !self.peers[index].wants(epoch) {
                continue;
            }
            match self.table() {
                Ok(table) => self.peers[index].tell(&Grown { table }),
                Err(error) => {
                    tracing::debug!(%error, "a client cannot be told of the new table");
                    self.peers[index].close();
                }
            }
        }
    }

    /// What a client needs to know of the table.
    fn table(&self) -> Result<TableDescriptor, AllocError> {
        let table = self.desk.shard.table.table();
        Ok(TableDescriptor {
            epoch: table.epoch(),
            entry_count: table.entry_count() as u64,
            memory: self.desk.growth.table().export(&[])?,
        })
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
        let (message_bytes, item_bytes_max) = (self.options.message_bytes, self.options.item_bytes_max);
        let sizes = (message_bytes, item_bytes_max);
        let table = self.table()?;
        let qp = self.peers[index].open(&self.ctx, session, usize::from(slots), sizes, table.epoch)?;
        let (hash_k0, hash_k1) = self.hash_seed.halves();
        Ok(Welcome {
            session,
            hash_k0,
            hash_k1,
            item_bytes_max: item_bytes_max as u32,
            message_bytes: message_bytes as u32,
            now_s: self.desk.now_s(now),
            table,
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
        match self.desk.grow(now) {
            Slice::Idle => {}
            Slice::Busy => busy = true,
            Slice::GoneOver => {
                busy = true;
                self.tell_all();
            }
        }
        match busy {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: self.next_look,
            },
        }
    }
}
