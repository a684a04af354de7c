//! A key-value system of one's own, one-sided: a GET is a READ of a self-verifying slot, a PUT a WRITE.
//! One writer, keys known by 128 bits of hash, values to 32 bytes, newest wins a slot.

use drover_base::{HashSeed, Ns, mix};
use drover_control::exchange::{End, ends};
use drover_examples::{Example, Outcome, execute, run};
use drover_kv::{Completion, KvClient, Op, OpKind, Outcome as Done, Refusal, SubmitError, Token};
use drover_mem::PageWish;
use drover_verbs::*;

const SLOTS: u64 = 1 << 12;
const SLOT_BYTES: usize = 64; // hash (2 words), length, value (4 words), check word
const WINDOW: usize = 16;
fn check_word(body: &[u8]) -> [u8; 8] {
    body.iter().fold(1, |sum, byte| mix(sum ^ u64::from(*byte))).to_le_bytes()
}

struct OneSided<P: Provider> {
    end: End<P>,
    table: RemoteRegion,
    local: P::Mr,
    flying: [Option<(Token, OpKind, [u8; 16])>; WINDOW],
}

impl<P: Provider> KvClient<P> for OneSided<P> {
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let hash = HashSeed::new(1, 2).hash(op.key());
        let free = self.flying.iter().position(Option::is_none).ok_or(SubmitError::WindowFull)?;
        let remote = self.table.at(hash.bucket_index(SLOTS - 1) as usize * SLOT_BYTES);
        let mut slot = [0; SLOT_BYTES];
        if let Op::Put { value, .. } = op {
            slot[24..56].get_mut(..value.len()).ok_or(SubmitError::TooLarge)?.copy_from_slice(value);
            slot[..16].copy_from_slice(&hash.to_bytes());
            slot[16] = value.len() as u8;
        }
        let check = check_word(&slot[..56]);
        slot[56..].copy_from_slice(&check);
        let local = self.local.sge(free * SLOT_BYTES, SLOT_BYTES);
        let mut list = SendList::default();
        let wr = match op.kind() {
            OpKind::Get => SendWr::read(remote, local),
            _ => SendWr::write(remote, list.inline(&slot)),
        };
        list.push(wr.signaled(WrId(free as u64)));
        self.end.qp.post_send(cpu, &list).expect("the queue is longer than the window");
        self.flying[free] = Some((token, op.kind(), hash.to_bytes()));
        Ok(())
    }

    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let mut wcs = [Wc::default(); WINDOW];
        let count = self.end.cq.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            let at = wc.wr_id.0 as usize;
            let (token, kind, hash) = self.flying[at].take().expect("one completion per operation");
            let mut slot = [0; SLOT_BYTES];
            self.local.region().copy_out(at * SLOT_BYTES, &mut slot);
            let outcome = match kind {
                OpKind::Put => Done::Stored,
                OpKind::Delete => Done::Deleted,
                OpKind::Touch => Done::Refused(Refusal::BadRequest),
                OpKind::Get if slot[..16] != hash || slot[56..] != check_word(&slot[..56]) => Done::NotFound, // or torn
                OpKind::Get => Done::Value(&slot[24..24 + slot[16] as usize]),
            };
            sink(Completion { token, outcome });
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.flying.iter().flatten().count()
    }

    fn next_timer(&self) -> Ns {
        Ns::MAX
    }
}

struct WriteASystem;

impl Example for WriteASystem {
    fn run<P: Provider>(device: P::Device) -> Outcome {
        let (put, get) = (Op::put(b"a", b"one"), Op::Get { key: b"a" });
        let (end, memory_node) = ends::<P>(&device, QpKind::Rc)?;
        let memory = memory_node.ctx.alloc(SLOTS as usize * SLOT_BYTES, PageWish::HugeIfAny)?;
        let lent = memory_node.ctx.register(&memory, Access { remote_read: true, ..Access::REMOTE_WRITE })?;
        let table = end.ctx.import_region(&lent.export(&[])?)?;
        let local = end.ctx.register(&end.ctx.alloc(WINDOW * SLOT_BYTES, PageWish::Small)?, Access::LOCAL)?;
        let mut client = OneSided::<P> { end, table, local, flying: [None; WINDOW] };
        for op in [put, get, Op::delete(b"a"), get] {
            println!("{:?} -> {}", op.kind(), execute::<P, _>(&mut client, memory_node.ctx.cpu(), &op)?);
        }
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    run::<WriteASystem>()
}
