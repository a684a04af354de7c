//! [`Node`]: a memory node. It lets clients in, watches their leases and shuts them out; requests go to its memory and
//! never to it.

mod load;
mod options;
mod process;
mod table;

pub use load::{LoadError, Loader};
pub use options::{FenceMode, NodeOptions};
pub use table::NodeCounters;

use crate::chunks::{ChunkEntry, ChunkKind, ChunkStack, Supply};
use crate::client::ClientId;
use crate::clients::{ClientInfo, ClientState, encode_infos};
use crate::control::{
    Attach, Connect, Create, Fence, Hello, Leave, PROTOCOL_VERSION, Recovered, Stopped, Told, Verdict,
    Welcome,
};
use crate::header::{
    BUMP_AT, CLOCK_AT, EPOCH_AT, Geometry, HEADER_BYTES, Header, PoolMembership, ROOT_COUNT, SWEEP_AT,
    VERSIONS_AT,
};
use drover_base::{Cpu, HashSeed, KeyHasher, Ns};
use drover_control::{Frame, Message, PeerCred};
use drover_kv::{ShardPlan, StartError};
use drover_mem::Region;
use drover_one_sided::{Clock, LastUpdates, Membership, PeerError, ServerParams, ShardLogic, WorkDone};
use drover_verbs::{
    Access, Atomics, Context, Export, Fenced, MemoryRegion, Provider, QpKind, QpOptions, QueuePair,
};
use rustix::fs::FlockOperation;
use std::collections::VecDeque;
use std::fs::File;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use table::ClientTable;

/// A memory node: an actor, mostly idle.
pub type Node<P> = drover_one_sided::Server<P, NodeState<P>>;

/// Time between two questions whether a peer's last requests have ended.
const FENCE_EVERY: Ns = Ns::from_ms(1);
/// Time between two looks at the clock of a node without clients.
const IDLE_EVERY: Ns = Ns::from_s(1);
/// Most connections of one client.
const CONNECTIONS_MAX: usize = 1024;

/// The node's ends of the connections to one client.
pub struct Connection<P: Provider> {
    /// Each with its tag; 0: of the lease.
    qps: Vec<(u32, P::Qp)>,
    client: ClientId,
    left: bool,
    /// Number of the client's process, if that is one of this machine.
    pid: Option<u32>,
    told: VecDeque<Told>,
    updates: LastUpdates,
}

/// A client that is being shut out: queue pairs through which its requests may still land.
struct Fencing<P: Provider> {
    client: ClientId,
    left: bool,
    qps: Vec<P::Qp>,
    /// When its process is ended, if it is still inside a request then.
    kill_at: Option<Ns>,
}

/// A node's memory and clients.
pub struct NodeState<P: Provider> {
    /// Queue pairs before the memory that they reach.
    fencing: Vec<Fencing<P>>,
    cq: P::Cq,
    mr: P::Mr,
    region: Region,
    geometry: Geometry,
    place: Option<PoolMembership>,
    table: ClientTable,
    options: NodeOptions,
    /// Answers that wait to be sent.
    untold: usize,
    clock: Clock,
    /// The pool's clock when this process began.
    clock_base_s: u64,
    next_scan: Ns,
    /// Keeps other nodes off the file.
    _lock: Option<File>,
    ctx: Rc<P::Context>,
}

impl<P: Provider> NodeState<P> {
    /// The node's memory.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// A copy of the node's header.
    pub fn header(&self) -> Header {
        let header = Header::decode(&self.header_bytes(), self.region.len() as u64);
        header.expect("the node's own header")
    }

    fn header_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        self.region.copy_out(0, &mut bytes);
        bytes
    }

    /// Writes structures into the node's memory before clients come. See [`Loader`].
    pub fn loader(&mut self) -> Loader<'_> {
        Loader::new(
            &self.region,
            self.geometry,
            self.place.map_or(0, |place| place.index),
        )
    }

    /// Makes the node part of a pool; false if it is part of another.
    pub fn join(&mut self, place: PoolMembership) -> bool {
        if self.place.is_some_and(|own| own != place) {
            return false;
        }
        self.place = Some(place);
        let header = Header {
            place: self.place,
            ..self.header()
        };
        // The words before the epoch change only here.
        self.region.copy_in(8, &header.encode()[8..EPOCH_AT]);
        true
    }

    /// Number of clients that are being shut out.
    pub fn fencing_count(&self) -> usize {
        self.fencing.len()
    }

    fn connect(&mut self, conn: &mut Connection<P>, tag: u32, replaces: u32, qp: &Export) {
        if replaces != 0 {
            // Its client has nothing outstanding there, so there is nothing to fence.
            conn.qps.retain(|(tag, _)| *tag != replaces);
        }
        let made = self.make_qp(qp).filter(|_| conn.qps.len() < CONNECTIONS_MAX);
        let told = match made {
            Some((qp, export)) => {
                conn.qps.push((tag, qp));
                self.answer(conn.client, tag, Verdict::Done, export)
            }
            None => self.answer(conn.client, tag, Verdict::NoQueuePair, Export::default()),
        };
        conn.told.push_back(told);
    }

    fn make_qp(&self, peer: &Export) -> Option<(P::Qp, Export)> {
        let options = QpOptions::<P> {
            send_depth: 1,
            recv_depth: 1,
            inline_bytes: 0,
            ..QpOptions::new(QpKind::Rc, &self.cq, self.ctx.caps())
        };
        let mut qp = self.ctx.create_qp(&options).ok()?;
        let export = qp.export().ok()?;
        qp.connect(peer).ok()?;
        Some((qp, export))
    }

    fn answer(&mut self, client: ClientId, tag: u32, outcome: Verdict, qp: Export) -> Told {
        self.untold += 1;
        Told {
            tag,
            outcome,
            client,
            qp,
        }
    }

    /// What the node has done about its clients since it began.
    pub fn client_counters(&self) -> NodeCounters {
        self.table.counters
    }

    /// What the node knows of its clients.
    pub fn clients(&self) -> impl Iterator<Item = ClientInfo> {
        self.table.infos()
    }

    /// Asks whether the requests of clients that are being shut out have ended.
    fn fence(&mut self, now: Ns) -> bool {
        let before = self.fencing.len();
        let mut index = 0;
        while index < self.fencing.len() {
            let fencing = &mut self.fencing[index];
            fencing.qps.retain_mut(|qp| qp.fence() == Fenced::Pending);
            if !fencing.qps.is_empty() {
                let kill_at = *fencing
                    .kill_at
                    .get_or_insert(now + self.options.times.suspect_after);
                if now >= kill_at {
                    fencing.kill_at = Some(Ns::MAX);
                    self.table.stuck(fencing.client, self.options.fence);
                }
                index += 1;
                continue;
            }
            let done = self.fencing.swap_remove(index);
            self.table.fenced(done.client, done.left);
        }
        self.fencing.len() < before
    }
}

/// The node's memory, and the lock on its file, if that is one.
fn memory<P: Provider>(
    ctx: &P::Context,
    options: &NodeOptions,
) -> Result<(Region, Option<File>), StartError> {
    let Some(path) = &options.file else {
        return Ok((ctx.alloc(options.bytes, options.pages)?, None));
    };
    let system = |source| StartError::System {
        what: "opening the node's file",
        source,
    };
    let mut open = File::options();
    open.read(true).write(true).create(true).truncate(false);
    let file = open.open(path).map_err(system)?;
    // Of an opening of its own: that of the region lives as long as any client's mapping.
    let lock = open.open(path).map_err(system)?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(StartError::Options {
            what: "file",
            why: "another memory node uses it",
        });
    }
    if file.metadata().map_err(system)?.len() < options.bytes as u64 {
        file.set_len(options.bytes as u64).map_err(system)?;
    }
    Ok((Region::file(&file, 0, options.bytes)?, Some(lock)))
}

/// The header that a region begins with, if it does, for a node of these options; else it gets a new one.
fn open_header(region: &Region, options: &NodeOptions, incarnation: u64) -> Result<Header, StartError> {
    let wanted = Geometry::new(options.bytes as u64, options.client_count);
    let geometry = wanted.ok_or(StartError::Options {
        what: "memory",
        why: "not enough for header, tables and data, or more than 256 GiB, or too many clients",
    })?;
    let mut bytes = vec![0; HEADER_BYTES];
    region.copy_out(0, &mut bytes);
    let first = geometry.first_data_chunk();
    match Header::decode(&bytes, region.len() as u64) {
        Ok(found) if found.geometry == geometry => {
            let header = Header {
                place: found.place.or(options.place),
                incarnation,
                ..found
            };
            // What clients change stays as it is.
            region.copy_in(0, &header.encode()[..BUMP_AT]);
            return Ok(header);
        }
        Ok(_) => {
            return Err(StartError::Options {
                what: "memory",
                why: "the file holds a node of another size",
            });
        }
        Err(_) if bytes.iter().any(|&byte| byte != 0) => {
            return Err(StartError::Options {
                what: "file",
                why: "it holds something else than a memory node, or one of another version",
            });
        }
        Err(_) => {}
    }
    for chunk in 0..first {
        let entry = ChunkEntry {
            kind: ChunkKind::System,
            ..ChunkEntry::FRESH
        };
        region.store_u64(geometry.chunk_entry(chunk), entry.encode(), Ordering::Relaxed);
    }
    let header = Header {
        place: options.place,
        incarnation,
        geometry,
        // Lock words of other nodes may name clients of an earlier life of this one.
        epoch: incarnation >> 32,
        reclaim: 1,
        // Some clients come before the node's processor looks at its clock. 0 would mean never.
        clock_s: 1,
        clients: 0,
        sweep: 0,
        supply: Supply {
            chunk_count: geometry.chunk_count(),
            bump: u64::from(first),
            stack: ChunkStack::default(),
        },
        roots: [0; ROOT_COUNT],
    };
    region.copy_in(0, &header.encode());
    // Versions that clients remember of an earlier life of this node must not come again.
    region.store_u64(VERSIONS_AT, (incarnation & 0xffff) << 28, Ordering::Relaxed);
    Ok(header)
}

impl<P: Provider> ShardLogic<P> for NodeState<P> {
    type Options = NodeOptions;
    type Common = ();
    type Stats = Header;
    type Connection = Connection<P>;
    type ClientParams = ();
    type Welcome = Welcome;
    type Attach = Attach;
    type Notification = Told;

    const VERSION: u16 = PROTOCOL_VERSION;
    const HAS_EVERY_KEY: bool = true;

    fn options(plan: &ShardPlan, _: usize, _: HashSeed) -> NodeOptions {
        NodeOptions {
            pages: plan.pages,
            look_every: plan.look_every,
            ..NodeOptions::new(plan.record_bytes)
        }
    }

    fn counters(&self) -> Vec<u64> {
        let supply = self.header().supply;
        vec![
            u64::from(supply.chunk_count),
            u64::from(supply.used()),
            self.table.live(),
            self.fencing.len() as u64,
        ]
    }

    fn membership(options: &NodeOptions) -> Membership {
        options.membership()
    }

    fn new(
        ctx: &Rc<P::Context>,
        options: &NodeOptions,
        _: KeyHasher,
        clock: Clock,
        (): &(),
    ) -> Result<NodeState<P>, StartError> {
        if !options.times.are_consistent() {
            return Err(StartError::Options {
                what: "times of leases",
                why: "clients must be able to renew before they stop, and stop before they are suspected",
            });
        }
        if options.place.is_some_and(|place| !place.is_consistent()) {
            return Err(StartError::Options {
                what: "place in the pool",
                why: "a pool has 1 to 256 nodes and a name",
            });
        }
        if ctx.caps().supports.atomics == Atomics::None {
            return Err(StartError::Fabric {
                system: crate::control::SYSTEM,
                what: "CAS and FAA",
                fabric: P::NAME,
            });
        }
        let (region, lock) = memory::<P>(ctx, options)?;
        let header = open_header(&region, options, ctx.cpu().random().max(1))?;
        let mr = ctx.register(&region, Access::ALL)?;
        // Refused here rather than when the first client comes.
        mr.export(&[])?;
        Ok(NodeState {
            fencing: Vec::new(),
            cq: ctx.create_cq(1)?,
            mr,
            geometry: header.geometry,
            place: header.place,
            table: ClientTable::open(&region, header.geometry),
            region,
            options: options.clone(),
            untold: 0,
            clock,
            clock_base_s: header.clock_s,
            next_scan: Ns::ZERO,
            _lock: lock,
            ctx: ctx.clone(),
        })
    }

    fn limits(&self) -> (usize, usize) {
        (0, 0)
    }

    fn len(&self) -> usize {
        self.header().supply.used() as usize
    }

    fn used_bytes(&self) -> usize {
        self.len() * crate::chunks::CHUNK_BYTES
    }

    fn stats(&self) -> Header {
        self.header()
    }

    fn open(
        &mut self,
        _: &Rc<P::Context>,
        _: &Hello,
        _: ServerParams,
    ) -> Result<(Connection<P>, Welcome), PeerError> {
        let conn = Connection {
            qps: Vec::new(),
            client: ClientId::NONE,
            left: false,
            pid: None,
            told: VecDeque::new(),
            updates: LastUpdates::default(),
        };
        let welcome = Welcome {
            header: self.header_bytes(),
            memory: self.mr.export(&[])?,
            quota_chunks: self.options.quota_chunks,
            times: self.options.times,
            clients: encode_infos(self.table.infos()),
        };
        Ok((conn, welcome))
    }

    fn opened_by(&mut self, conn: &mut Connection<P>, process: Option<PeerCred>) {
        conn.pid = process.map(|process| process.pid);
    }

    fn attach(
        &mut self,
        _: &Rc<P::Context>,
        conn: &mut Connection<P>,
        attach: &Attach,
    ) -> Result<(), PeerError> {
        if !conn.client.is_none() {
            return Err(PeerError::OutOfOrder);
        }
        match self.table.register(attach.client, attach.above, conn.pid) {
            Ok(client) => {
                conn.client = client;
                self.next_scan = Ns::ZERO;
                self.connect(conn, 0, 0, &attach.qp);
            }
            Err(verdict) => {
                let told = self.answer(ClientId::NONE, 0, verdict, Export::default());
                conn.told.push_back(told);
            }
        }
        Ok(())
    }

    fn receive(&mut self, conn: &mut Connection<P>, frame: &Frame) -> Result<(), PeerError> {
        match frame.kind {
            Connect::KIND if !conn.client.is_none() => {
                let Connect { tag, replaces, qp } = frame.decode()?;
                self.connect(conn, tag, replaces, &qp);
            }
            Create::KIND => {
                let Create { place } = frame.decode()?;
                let outcome = match self.join(place) {
                    true => Verdict::Done,
                    false => Verdict::OtherPool,
                };
                let told = self.answer(conn.client, 0, outcome, Export::default());
                conn.told.push_back(told);
            }
            Fence::KIND => {
                let Fence { client } = frame.decode()?;
                // The client's session ends in a later step.
                let outcome = match self.table.suspect(client) || self.table.has_stopped(client) {
                    true => Verdict::Done,
                    false => Verdict::NoSuchClient,
                };
                let told = self.answer(conn.client, 0, outcome, Export::default());
                conn.told.push_back(told);
            }
            Stopped::KIND => {
                self.table.has_stopped(frame.decode::<Stopped>()?.client);
            }
            Recovered::KIND if !conn.client.is_none() => {
                self.table.recovered(frame.decode::<Recovered>()?.client);
            }
            Leave::KIND if !conn.client.is_none() => {
                frame.decode::<Leave>()?;
                conn.left = true;
            }
            _ => return Err(PeerError::OutOfOrder),
        }
        Ok(())
    }

    fn notification(&mut self, conn: &mut Connection<P>) -> Result<Option<Told>, PeerError> {
        let told = conn.told.pop_front();
        self.untold -= usize::from(told.is_some());
        Ok(told)
    }

    fn serve(&mut self, _: &P::Cpu, conn: &mut Connection<P>) -> Result<bool, PeerError> {
        let is_shut_out = !conn.client.is_none() && self.table.state(conn.client) != ClientState::Live;
        match is_shut_out || conn.left {
            // Ends the session, which fences it.
            true => Err(PeerError::OutOfOrder),
            false => Ok(false),
        }
    }

    fn last_updates(conn: &mut Connection<P>) -> &mut LastUpdates {
        &mut conn.updates
    }

    fn close(&mut self, _: &Rc<P::Context>, conn: Connection<P>) {
        self.untold -= conn.told.len();
        if conn.client.is_none() {
            return;
        }
        self.table.suspect(conn.client);
        self.fencing.push(Fencing {
            client: conn.client,
            left: conn.left,
            qps: conn.qps.into_iter().map(|(_, qp)| qp).collect(),
            kill_at: None,
        });
    }

    fn next_timer(&self) -> Ns {
        self.next_scan
    }

    fn advance(&mut self, now: Ns) -> WorkDone {
        let mut is_busy = !self.fencing.is_empty() && self.fence(now);
        if now >= self.next_scan {
            is_busy |= self.table.scan(now, &self.options.times) > 0;
            if self.table.any_earlier() {
                is_busy |= self.table.look_for_ends(&self.options) > 0;
            }
            let clock_s = self.clock_base_s.saturating_add(u64::from(self.clock.now_s(now)));
            self.region.store_u64(CLOCK_AT, clock_s, Ordering::Relaxed);
            let is_swept = self.region.load_u64(SWEEP_AT, Ordering::Relaxed) % 2 == 1;
            let pause = match (self.fencing.len(), self.table.live()) {
                // The sweep waits for epochs.
                (0, 1..) if is_swept => FENCE_EVERY.min(self.options.times.renew_every),
                (0, 0) => IDLE_EVERY,
                (0, _) => self.options.times.renew_every,
                _ => FENCE_EVERY.min(self.options.times.renew_every),
            };
            self.next_scan = now + pause;
        }
        match (self.untold, is_busy) {
            (1.., _) => WorkDone::Notify,
            (0, true) => WorkDone::Busy,
            (0, false) => WorkDone::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_mem::PageWish;

    #[test]
    fn a_new_node_shows_a_time_before_its_processor_looks_at_the_clock() {
        let options = NodeOptions::new(4 << 20);
        let region = Region::private(options.bytes, PageWish::Small).expect("memory");
        open_header(&region, &options, 1).expect("a header");
        assert_ne!(region.load_u64(CLOCK_AT, Ordering::Relaxed), 0);
    }
}
