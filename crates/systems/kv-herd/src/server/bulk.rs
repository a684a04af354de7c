//! Values too long for a slot or a reply: they move through the client's bulk memory, which it READs and WRITEs over
//! RC.
//!
//! Both directions go through a private copy, so that the checksum covers the very bytes that are stored or sent,
//! whatever the client does meanwhile. Cost: two copies and a checksum. The first copy waits for memory if the item is
//! not cached, so the next item is requested before it.

use super::execute::put_status;
use super::extended::{extra_put, extra_status, info_of};
use super::variant::Variant;
use super::worker::Worker;
use crate::layout::{BULK_BYTES, Bulk, ITEM_INFO_BYTES, ItemInfo, SlotOp, Status};
use drover_base::crc32c;
use drover_slots::server::Act;
use drover_store::Key;
use drover_verbs::Provider;

/// Bytes of a long item that are requested ahead: by then the processor itself reads ahead.
const PREFETCHED_BYTES: usize = 2048;

/// Private buffer for one value on its way to or from bulk memory.
pub(super) struct Scratch {
    bytes: Vec<u8>,
    /// Longest value that may be stored, bytes.
    value_bytes_max: usize,
}

impl Scratch {
    pub(super) fn new(value_bytes_max: usize) -> Scratch {
        Scratch {
            bytes: Vec::new(),
            value_bytes_max,
        }
    }

    /// Whether a value of this length may be stored.
    fn may_be_stored(&self, len: usize) -> bool {
        len <= self.value_bytes_max
    }

    /// Space for a value of `len` bytes.
    fn space(&mut self, len: usize) -> &mut [u8] {
        self.bytes.resize(self.bytes.len().max(len), 0);
        &mut self.bytes[..len]
    }

    /// The value of `len` bytes that was put into the [space](Scratch::space).
    fn filled(&self, len: usize) -> &[u8] {
        &self.bytes[..len]
    }
}

/// Where the value of a GET that names a chunk is.
enum Loaded {
    /// It is in the scratch buffer, behind version and flags if they are asked for, and has this length with them: it fits
    /// a reply.
    Short(usize),
    InChunk(Bulk, ItemInfo),
    /// Nowhere: it has this length, and the chunk is shorter.
    TooLong(usize),
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Executes request `k` of intake `at`, a PUT of the value in a chunk, and adds the reply.
    #[cold]
    #[inline(never)]
    pub(super) fn put_bulk(&mut self, cpu: &P::Cpu, at: usize, k: usize, op: SlotOp) {
        let status = match self.load_chunk(at, k) {
            Ok(len) => {
                let request = &self.intakes[at].requests.all()[k];
                let key = Key {
                    hash: request.hash(),
                    bytes: request.key(),
                };
                let (now_s, expire_s) = (self.clock.now_s(), self.clock.expire_s(request.ttl_s()));
                let value = self.scratch.filled(len);
                self.counters.operations.puts += 1;
                self.counters.operations.bulk_ops += 1;
                match op.has_extension().then(|| request.extension(op)) {
                    None => put_status(self.partition.put(cpu, key, value, expire_s, now_s)),
                    Some(Some(extension)) => {
                        let value = [value];
                        let put = extra_put(&value, expire_s, extension);
                        extra_status(self.partition.put_extra(cpu, key, &put, now_s))
                    }
                    Some(None) => Status::BadRequest,
                }
            }
            Err(status) => status,
        };
        self.answer(self.intakes[at].requests.all()[k].about, status, &[], true);
    }

    /// Copies the value in the chunk that a request names to the scratch buffer; returns its length. Errors are the
    /// status with which to answer.
    fn load_chunk(&mut self, at: usize, k: usize) -> Result<usize, Status> {
        let bulk = self.named_chunk(at, k).ok_or(Status::BadRequest)?;
        let client = self.clients.get(self.intakes[at].requests.all()[k].about.client);
        let memory = client
            .and_then(|client| client.bulk.as_ref())
            .ok_or(Status::BadRequest)?;
        let (chunk_at, chunk_bytes) = memory.map.place(bulk.chunk).ok_or(Status::BadRequest)?;
        let len = bulk.len as usize;
        if !self.scratch.may_be_stored(len) {
            return Err(Status::TooLarge);
        }
        if len > chunk_bytes {
            return Err(Status::BadRequest);
        }
        let space = self.scratch.space(len);
        memory.region.copy_out(chunk_at, space);
        match crc32c(space) == bulk.crc {
            true => Ok(len),
            false => {
                // The client's WRITE has not landed whole, so the PUT does not happen.
                self.counters.irregular.crc_mismatches += 1;
                Err(Status::Retry)
            }
        }
    }

    /// Executes request `k` of intake `at`, a GET of a value that may be long, and adds the reply: the value if it is
    /// short; else chunk, length and checksum; or the length alone if the value is longer than the chunk.
    #[cold]
    #[inline(never)]
    pub(super) fn get_bulk(&mut self, cpu: &P::Cpu, at: usize, k: usize, op: SlotOp) {
        self.counters.operations.gets += 1;
        self.counters.operations.bulk_ops += 1;
        self.prefetch_values(cpu, at, k);
        let about = self.intakes[at].requests.all()[k].about;
        // An extended reply begins with version and flags.
        let is_detailed = op == SlotOp::GetBulkExt;
        let lead = if is_detailed { ITEM_INFO_BYTES } else { 0 };
        match self.load_value(cpu, at, k, lead) {
            Ok(Loaded::Short(len)) => {
                let scratch = std::mem::replace(&mut self.scratch, Scratch::new(0));
                self.answer(about, Status::Ok, scratch.filled(len), true);
                self.scratch = scratch;
            }
            Ok(Loaded::InChunk(bulk, info)) => {
                let mut payload = [0; ITEM_INFO_BYTES + BULK_BYTES];
                payload[..ITEM_INFO_BYTES].copy_from_slice(&info.to_bytes());
                payload[ITEM_INFO_BYTES..].copy_from_slice(&bulk.to_bytes());
                self.answer(about, Status::Bulk, &payload[ITEM_INFO_BYTES - lead..], true);
            }
            Ok(Loaded::TooLong(len)) => {
                self.counters.operations.gets -= 1; // the client asks again
                self.counters.operations.get_hits -= 1;
                self.answer(about, Status::Bulk, &(len as u32).to_le_bytes(), true);
            }
            Err(status) => self.answer(about, status, &[], true),
        }
    }

    /// Prefetches the value of the request behind request `k` of intake `at`, while that one is executed; and its own, if it
    /// is the first.
    fn prefetch_values(&self, cpu: &P::Cpu, at: usize, k: usize) {
        let requests = self.intakes[at].requests.all();
        let from = if k == 0 { 0 } else { k + 1 };
        let both = requests.get(from..requests.len().min(k + 2)).unwrap_or_default();
        for request in both {
            if matches!(request.about.act(), Act::Do(SlotOp::GetBulk | SlotOp::GetBulkExt)) {
                self.partition.prefetch_long(cpu, request.hint, PREFETCHED_BYTES);
            }
        }
    }

    /// Finds the value of a GET that names a chunk. Before a short one, the first `lead` bytes of version and flags are put
    /// into the scratch buffer.
    fn load_value(&mut self, cpu: &P::Cpu, at: usize, k: usize, lead: usize) -> Result<Loaded, Status> {
        let bulk = self.named_chunk(at, k).ok_or(Status::BadRequest)?;
        let request = &self.intakes[at].requests.all()[k];
        let client = self.clients.get(request.about.client).ok_or(Status::BadRequest)?;
        let memory = client.bulk.as_ref().ok_or(Status::BadRequest)?;
        let (chunk_at, chunk_bytes) = memory.map.place(bulk.chunk).ok_or(Status::BadRequest)?;
        let key = Key {
            hash: request.hash(),
            bytes: request.key(),
        };
        let item = self
            .partition
            .get(cpu, key, self.clock.now_s())
            .ok_or(Status::NotFound)?;
        self.counters.operations.get_hits += 1;
        let (len, info) = (item.value_len(), info_of(&item));
        if lead + len <= client.stripe.inline_bytes_max() {
            let space = self.scratch.space(lead + len);
            space[..lead].copy_from_slice(&info.to_bytes()[..lead]);
            item.copy_value(&mut space[lead..]);
            return Ok(Loaded::Short(lead + len));
        }
        if len > chunk_bytes {
            return Ok(Loaded::TooLong(len));
        }
        let space = self.scratch.space(len);
        item.copy_value(space);
        memory.region.copy_in(chunk_at, space);
        let bulk = Bulk {
            chunk: bulk.chunk,
            len: len as u32,
            crc: crc32c(space),
        };
        Ok(Loaded::InChunk(bulk, info))
    }

    /// The description of a chunk that a request has in place of a value; `None` if that is not 12 bytes long.
    fn named_chunk(&self, at: usize, k: usize) -> Option<Bulk> {
        let bytes: &[u8; BULK_BYTES] = self.intakes[at].requests.all()[k].value().try_into().ok()?;
        Some(Bulk::from_bytes(bytes))
    }
}
