//! One shard: all items in a map, the short ones that never expire in slots, too.

use super::layout::{Attach, INLINE_BYTES, REPLY_HEADER_BYTES, Reply, SLOT_BYTES, Slot, Welcome, seal};
use drover_base::{Cpu, HashSeed, KeyHash, KeyHasher, Ns};
use drover_kv::{ShardPlan, StartError};
use drover_mem::PageWish;
use drover_one_sided::{
    Clock, Hello, LastUpdates, Membership, PeerError, REQUEST_HEADER_BYTES, Request, RequestKind,
    ServerParams, ShardLogic, Status,
};
use drover_rt::{Depths, Queues, WHICH};
use drover_verbs::{Access, Context, MemoryRegion, Provider, QueuePair, SendOp, Wc, WcStatus};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// One shard and its clients.
pub type Server<P> = drover_one_sided::Server<P, State<P>>;

/// Longest item: requests and replies carry whole values.
const ITEM_BYTES_MAX: usize = 16 << 10;
/// What an item takes beside key and value.
const ITEM_OVERHEAD_BYTES: usize = 64;

/// What a work request was for, in its upper half.
const RECV: u64 = 0;
const REPLY: u64 = 1 << 32;

/// How a shard is set up.
pub struct Options {
    membership: Membership,
    slot_count: usize,
    memory_bytes: usize,
    item_bytes_max: usize,
    evicts: bool,
    pages: PageWish,
}

#[derive(Default)]
struct Counters {
    get_messages: u64,
    puts: u64,
    deletes: u64,
    evictions: u64,
}

struct Item {
    value: Vec<u8>,
    /// 0: never.
    expire_s: u32,
    /// When it was written, among all items.
    order: u64,
}

/// The shard.
pub struct State<P: Provider> {
    slots: P::Mr,
    items: BTreeMap<Vec<u8>, Item>,
    /// Keys in the order in which they were written: the first is evicted first.
    orders: BTreeMap<u64, Vec<u8>>,
    next_order: u64,
    used_bytes: usize,
    hasher: KeyHasher,
    clock: Clock,
    options: Options,
    counters: Counters,
}

impl<P: Provider> State<P> {
    fn write_slot(&self, hash: KeyHash, slot: &Slot) {
        let index = hash.bucket_index(self.options.slot_count as u64 - 1) as usize;
        self.slots.region().copy_in(index * SLOT_BYTES, slot);
    }

    /// Takes a key out of everything. Its slot may be another key's, which then is asked for.
    fn remove(&mut self, key: &[u8]) -> Option<Item> {
        let item = self.items.remove(key)?;
        self.orders.remove(&item.order);
        self.used_bytes -= bytes(key, &item.value);
        self.write_slot(self.hasher.hash(key), &[0; SLOT_BYTES]);
        Some(item)
    }

    fn is_alive(item: &Item, now_s: u32) -> bool {
        item.expire_s == 0 || item.expire_s > now_s
    }

    fn put(&mut self, key: &[u8], value: &[u8], ttl_s: u32, now: Ns) -> Status {
        self.counters.puts += 1;
        if key.len() + value.len() > self.options.item_bytes_max {
            return Status::TooLarge;
        }
        let old = self.items.get(key).map_or(0, |item| bytes(key, &item.value));
        let (wanted, memory) = (bytes(key, value), self.options.memory_bytes);
        if wanted > memory || (!self.options.evicts && self.used_bytes - old + wanted > memory) {
            return Status::Full;
        }
        self.remove(key);
        while self.used_bytes + wanted > memory {
            let (_, oldest) = self.orders.first_key_value().expect("something uses the memory");
            let oldest = oldest.clone();
            self.remove(&oldest);
            self.counters.evictions += 1;
        }
        let order = self.next_order;
        self.next_order += 1;
        self.used_bytes += wanted;
        self.orders.insert(order, key.to_vec());
        let item = Item {
            value: value.to_vec(),
            expire_s: self.clock.expire_s(ttl_s, now),
            order,
        };
        if ttl_s == 0 && value.len() <= INLINE_BYTES {
            let hash = self.hasher.hash(key);
            self.write_slot(hash, &seal(hash, value));
        }
        self.items.insert(key.to_vec(), item);
        Status::Stored
    }

    fn execute(&mut self, request: &Request, key: &[u8], value: &[u8], now: Ns) -> (Status, Vec<u8>) {
        let now_s = self.clock.now_s(now);
        let status = match request.kind {
            // Not offered.
            RequestKind::Touch => Status::BadRequest,
            _ if request.extension.is_some() => Status::BadRequest,
            RequestKind::Put => self.put(key, value, request.ttl_s, now),
            RequestKind::Delete => {
                self.counters.deletes += 1;
                match self.remove(key) {
                    Some(item) if Self::is_alive(&item, now_s) => Status::Deleted,
                    _ => Status::NotFound,
                }
            }
            RequestKind::Get => {
                self.counters.get_messages += 1;
                match self.items.get(key) {
                    Some(item) if Self::is_alive(item, now_s) => {
                        return (Status::Value, item.value.clone());
                    }
                    _ => Status::NotFound,
                }
            }
            RequestKind::PutLarge => Status::BadRequest,
        };
        (status, Vec::new())
    }
}

fn bytes(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + ITEM_OVERHEAD_BYTES
}

/// Queues and buffers of a client.
pub struct Connection<P: Provider> {
    queues: Queues<P>,
    requests: P::Mr,
    replies: P::Mr,
    free_replies: Vec<u32>,
    /// Requests that arrived while no buffer for a reply was free, with their lengths.
    waiting: VecDeque<(u32, u32)>,
    message_bytes: usize,
    is_attached: bool,
    updates: LastUpdates,
}

impl<P: Provider> Connection<P> {
    fn expect(&mut self, at: u32) {
        let sge = self
            .requests
            .sge(at as usize * self.message_bytes, self.message_bytes);
        self.queues.expect(RECV | u64::from(at), sge);
    }

    fn answer(&mut self, state: &mut State<P>, reply_index: u32, at: u32, len: usize, now: Ns) {
        let mut message = vec![0; len];
        let offset = at as usize * self.message_bytes;
        self.requests.region().copy_out(offset, &mut message);
        self.expect(at);
        let (mut reply, mut value) = (
            Reply {
                status: Status::BadRequest,
                slot: 0,
                sequence: 0,
            },
            Vec::new(),
        );
        if let Some((request, key, wanted)) = Request::decode(&message) {
            (reply.slot, reply.sequence) = (request.slot, request.sequence);
            let is_update = request.kind != RequestKind::Get;
            (reply.status, value) = match self.updates.answer(&request) {
                Some(status) if is_update => (status, Vec::new()),
                _ => state.execute(&request, key, wanted, now),
            };
            if is_update {
                self.updates.note(&request, reply.status);
            }
        }
        let at = reply_index as usize * self.message_bytes;
        self.replies.region().copy_in(at, &reply.encode());
        self.replies.region().copy_in(at + REPLY_HEADER_BYTES, &value);
        let sge = self.replies.sge(at, REPLY_HEADER_BYTES + value.len());
        let op = SendOp::Send {
            dest: None,
            imm: None,
        };
        self.queues.stage(REPLY | u64::from(reply_index), op, sge, true);
    }
}

impl<P: Provider> ShardLogic<P> for State<P> {
    type Options = Options;
    type Common = ();
    type Stats = ();
    type Connection = Connection<P>;
    type ClientParams = ();
    type Welcome = Welcome;
    type Attach = Attach;
    type Notification = Attach;

    const VERSION: u16 = 1;

    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> Options {
        Options {
            membership: Membership::of(plan, index, seed),
            slot_count: plan.table.entry_count,
            memory_bytes: plan.record_bytes,
            item_bytes_max: plan.item_bytes_max.min(ITEM_BYTES_MAX),
            evicts: plan.evicts,
            pages: plan.pages,
        }
    }

    fn counters(&self) -> Vec<u64> {
        let counters = &self.counters;
        vec![
            counters.get_messages,
            counters.puts,
            counters.deletes,
            self.items.len() as u64,
            counters.evictions,
        ]
    }

    fn membership(options: &Options) -> Membership {
        options.membership
    }

    fn new(
        ctx: &Rc<P::Context>,
        options: &Options,
        hasher: KeyHasher,
        clock: Clock,
        (): &(),
    ) -> Result<State<P>, StartError> {
        let memory = ctx.alloc(options.slot_count * SLOT_BYTES, options.pages)?;
        Ok(State {
            slots: ctx.register(&memory, Access::REMOTE_READ)?,
            items: BTreeMap::new(),
            orders: BTreeMap::new(),
            next_order: 0,
            used_bytes: 0,
            hasher,
            clock,
            options: Options { ..*options },
            counters: Counters::default(),
        })
    }

    fn limits(&self) -> (usize, usize) {
        let item_bytes_max = self.options.item_bytes_max;
        (item_bytes_max, REQUEST_HEADER_BYTES + item_bytes_max)
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    fn stats(&self) {}

    fn open(
        &mut self,
        ctx: &Rc<P::Context>,
        hello: &Hello,
        terms: ServerParams,
    ) -> Result<(Connection<P>, Welcome), PeerError> {
        let slots = usize::from(hello.slots);
        let (_, message_bytes) = self.limits();
        let depths = Depths {
            sends: slots,
            recvs: slots,
            longs: 0,
            long_bytes_max: message_bytes,
        };
        let buffers = |access| -> Result<P::Mr, PeerError> {
            Ok(ctx.register(&ctx.alloc(slots * message_bytes, PageWish::Small)?, access)?)
        };
        let mut conn: Connection<P> = Connection {
            queues: Queues::<P>::new(ctx, depths)?,
            requests: buffers(Access::LOCAL)?,
            replies: buffers(Access::LOCAL_READ)?,
            free_replies: (0..slots as u32).collect(),
            waiting: VecDeque::new(),
            message_bytes,
            is_attached: false,
            updates: LastUpdates::default(),
        };
        (0..slots as u32).for_each(|at| conn.expect(at));
        conn.queues.post(ctx.cpu())?;
        let welcome = Welcome {
            terms,
            slots: self.slots.export(&[])?,
            qp: conn.queues.qp.export()?,
        };
        Ok((conn, welcome))
    }

    fn attach(
        &mut self,
        _: &Rc<P::Context>,
        conn: &mut Connection<P>,
        attach: &Attach,
    ) -> Result<(), PeerError> {
        if std::mem::replace(&mut conn.is_attached, true) {
            return Err(PeerError::OutOfOrder);
        }
        Ok(conn.queues.qp.connect(&attach.qp)?)
    }

    fn serve(&mut self, cpu: &P::Cpu, conn: &mut Connection<P>) -> Result<bool, PeerError> {
        let mut wcs = [Wc::default(); 32];
        let count = conn.queues.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            if wc.status != WcStatus::Success {
                return Err(PeerError::Failed { status: wc.status });
            }
            let which = (wc.wr_id.0 & WHICH) as u32;
            match wc.wr_id.0 & !WHICH {
                REPLY => conn.free_replies.push(which),
                _ => conn.waiting.push_back((which, wc.byte_len)),
            }
        }
        while let (Some(reply), false) = (conn.free_replies.last().copied(), conn.waiting.is_empty()) {
            conn.free_replies.pop();
            let (at, len) = conn.waiting.pop_front().expect("one waits");
            conn.answer(self, reply, at, len as usize, cpu.now());
        }
        conn.queues.post(cpu)?;
        Ok(count > 0)
    }

    fn last_updates(conn: &mut Connection<P>) -> &mut LastUpdates {
        &mut conn.updates
    }

    fn close(&mut self, _: &Rc<P::Context>, conn: Connection<P>) {
        drop(conn);
    }
}
