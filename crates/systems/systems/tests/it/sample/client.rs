//! A client: a GET READs a slot; whatever that does not tell, and every update, is a message.

use super::layout::{Attach, REPLY_HEADER_BYTES, Reply, SLOT_BYTES, Slot, Trust, Welcome, open};
use drover_base::{KeyHash, Ns};
use drover_kv::{EXTENSION_BYTES, ItemInfo, OpKind, Outcome, Reads, Refusal, ResultTransfer, SetupError};
use drover_mem::PageWish;
use drover_one_sided::{Agreed, ConnResources, REQUEST_HEADER_BYTES, Reader as _, Request, Sink, Status};
use drover_rt::WHICH;
use drover_verbs::{
    Access, Context, MemoryRegion, Provider, QueuePair, RemoteRegion, SendOp, SendWr, Wc, WrId,
};
use std::rc::Rc;

/// A client of all shards.
pub type Client<P> = drover_one_sided::Client<P, Reader>;
type Operations<P> = drover_one_sided::Operations<P, Reader>;

/// What a work request was for, in its upper half.
const RECV: u64 = 0;
const SENT: u64 = 1 << 32;
const SLOT: u64 = 2 << 32;

/// One client at one shard. Each place has a request, a reply and a slot in the buffers.
pub struct Session<P: Provider> {
    resources: ConnResources<P>,
    buffers: P::Mr,
    slots: RemoteRegion,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Session<P> {
    fn message_bytes(&self) -> usize {
        self.resources.agreed.message_bytes
    }

    fn request_at(&self, at: usize) -> usize {
        at * (2 * self.message_bytes() + SLOT_BYTES)
    }

    fn reply_at(&self, at: usize) -> usize {
        self.request_at(at) + self.message_bytes()
    }

    fn slot_at(&self, at: usize) -> usize {
        self.reply_at(at) + self.message_bytes()
    }

    fn expect(&mut self, at: usize) {
        let sge = self.buffers.sge(self.reply_at(at), self.message_bytes());
        self.resources.queues.expect(RECV | at as u64, sge);
    }

    fn read_slot(&mut self, at: usize, hash: KeyHash) {
        let mask = self.slots.len / SLOT_BYTES as u64 - 1;
        let remote = self.slots.at(hash.bucket_index(mask) as usize * SLOT_BYTES);
        let sge = self.buffers.sge(self.slot_at(at), SLOT_BYTES);
        let read = SendWr::read(remote, sge).signaled(WrId(SLOT | at as u64));
        self.resources.queues.push(read);
    }
}

impl<P: Provider> drover_one_sided::Session<P> for Session<P> {
    type ClientParams = ();
    type Welcome = Welcome;
    type Attach = Attach;

    const VERSION: u16 = 1;

    fn client_params(_: &P::Context, _: ResultTransfer) {}

    fn new(
        ctx: &Rc<P::Context>,
        places: usize,
        welcome: &Welcome,
        since: Ns,
    ) -> Result<Session<P>, SetupError> {
        let agreed = Agreed::new(&welcome.terms, since)?;
        let place_bytes = 2 * agreed.message_bytes + SLOT_BYTES;
        let memory = ctx.alloc(places * place_bytes, PageWish::Small)?;
        let values = (SLOT_BYTES, Access::LOCAL);
        let mut session: Session<P> = Session {
            resources: ConnResources::<P>::new(ctx, agreed, (2 * places, places), values)?,
            buffers: ctx.register(&memory, Access::LOCAL)?,
            slots: ctx.import_region(&welcome.slots)?,
            ctx: ctx.clone(),
        };
        session.resources.queues.qp.connect(&welcome.qp)?;
        (0..places).for_each(|at| session.expect(at));
        session.resources.queues.post(ctx.cpu())?;
        Ok(session)
    }

    fn attach(&self) -> Result<Attach, SetupError> {
        Ok(Attach {
            qp: self.resources.queues.qp.export()?,
        })
    }

    fn resources(&self) -> &ConnResources<P> {
        &self.resources
    }

    fn resources_mut(&mut self) -> &mut ConnResources<P> {
        &mut self.resources
    }

    fn send(&mut self, at: usize, request: &Request, key: &[u8], value: &[u8]) -> Option<u64> {
        let offset = self.request_at(at);
        let region = self.buffers.region();
        region.copy_in(offset, &request.encode());
        let mut lead = REQUEST_HEADER_BYTES;
        if let Some(extension) = request.extension {
            // The server refuses it.
            region.copy_in(offset + lead, &extension.encode());
            lead += EXTENSION_BYTES;
        }
        region.copy_in(offset + lead, key);
        region.copy_in(offset + lead + key.len(), value);
        let len = lead + key.len() + value.len();
        let op = SendOp::Send {
            dest: None,
            imm: None,
        };
        let sge = self.buffers.sge(offset, len);
        self.resources.queues.stage(SENT | at as u64, op, sge, true);
        Some(0)
    }
}

impl<P: Provider> Drop for Session<P> {
    fn drop(&mut self) {
        self.resources.queues.qp.to_error();
        self.ctx.forget_region(&self.slots);
    }
}

/// What is the sample's own in a client.
pub struct Reader {
    trust: Trust,
    reads: Reads,
}

impl Reader {
    fn slot_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let get = ops.view(at).expect("the session whose queue pair was polled");
        get.read_ended();
        let mut slot: Slot = [0; SLOT_BYTES];
        let offset = get.session.slot_at(at);
        get.session.buffers.region().copy_out(offset, &mut slot);
        match open(&slot, get.hash, self.trust) {
            Some(value) => {
                self.reads.hits += 1;
                ops.finish_found(at, value, ItemInfo::default(), sink);
            }
            None => self.ask(ops, at, false),
        }
    }

    fn reply_came<P: Provider>(
        &mut self,
        ops: &mut Operations<P>,
        shard: usize,
        message: &[u8],
        sink: Sink<'_>,
    ) {
        let Some((reply, value)) = Reply::decode(message) else {
            return;
        };
        let at = usize::from(reply.slot);
        if !ops.is_awaited(shard, at, reply.sequence) {
            return;
        }
        let kind = ops.kind(at);
        if kind == OpKind::Get {
            self.reads.hits += u64::from(reply.status == Status::Value);
            self.reads.misses += u64::from(reply.status == Status::NotFound);
        }
        let outcome = match (reply.status.outcome(kind), reply.status) {
            (Some(outcome), _) => outcome,
            (None, Status::Value) => return ops.finish_found(at, value, ItemInfo::default(), sink),
            (None, _) => Outcome::Refused(Refusal::BadRequest),
        };
        ops.finish(at, outcome, sink);
    }
}

impl<P: Provider> drover_one_sided::Reader<P> for Reader {
    type Session = Session<P>;
    type Wait = ();
    type GetState = ();
    type Miss = Trust;
    type Stats = Reads;

    fn operations_for(depth: usize) -> usize {
        (depth / 4).max(1)
    }

    fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        key_bytes + value_bytes
    }

    fn new(_: usize, trust: Trust) -> Reader {
        let reads = Reads::default();
        Reader { trust, reads }
    }

    fn stats(&self) -> Reads {
        self.reads
    }

    fn reads(stats: &Reads) -> Reads {
        *stats
    }

    fn begin(&mut self, ops: &mut Operations<P>, at: usize) {
        if let Some(get) = ops.view(at) {
            self.reads.probes += 1;
            get.session.read_slot(at, get.hash);
            get.reading((), None);
        }
    }

    fn again(&mut self, ops: &mut Operations<P>, at: usize) {
        self.begin(ops, at);
    }

    fn read_long(&mut self, _: &mut Operations<P>, _: usize, (): ()) {
        unreachable!("values are in slots or in replies");
    }

    fn sent(&mut self, ops: &mut Operations<P>, at: usize, _: u64) {
        self.reads.asked += u64::from(ops.kind(at) == OpKind::Get);
    }

    fn completed(&mut self, ops: &mut Operations<P>, shard: usize, wc: &Wc, sink: Sink<'_>) {
        let at = (wc.wr_id.0 & WHICH) as usize;
        match wc.wr_id.0 & !WHICH {
            SENT => ops.carried(at),
            SLOT => self.slot_came(ops, at, sink),
            _ => {
                let session = ops
                    .session_with(shard)
                    .expect("the session whose queue pair was polled");
                let len = (wc.byte_len as usize).max(REPLY_HEADER_BYTES);
                let mut message = vec![0; len];
                let offset = session.reply_at(at);
                session.buffers.region().copy_out(offset, &mut message);
                session.expect(at);
                self.reply_came(ops, shard, &message, sink);
            }
        }
    }
}
