//! What a request costs the worker, in instructions: `worker_instructions get|put|paper-get|paper-put COUNT`, to be run under
//! callgrind with `--toggle-collect='worker_instructions::serve'`, which counts the worker and leaves out the client beside it.
//!
//! Shared memory, one process, window 16, 16-byte keys, 32-byte values, 10,000 keys. `paper-`: the paper's format, served
//! by the paper's pipeline (drained, so that empty polls are not counted) instead of in batches.

use drover_base::{Actor, Cpu, HashKind, HashSeed, Ns, Progress};
use drover_control::ControlStream;
use drover_kv_herd::control::{Format, FrontEnd, Hello, Message, PROTOCOL_VERSION};
use drover_kv_herd::layout::{Commit, SlotMap, SlotOp, paper};
use drover_kv_herd::server::{
    IdentityOptions, ServeMode, Server, ServerOptions, Standard, Variant, WithPaperFormat, Worker,
};
use drover_mem::PageWish;
use drover_store::PartitionOptions;
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmContext, ShmDevice};

const WINDOW: u64 = 16;
const KEYS: u64 = 10_000;
/// Under which the server, too, hashes keys.
const SEED: HashSeed = HashSeed::of(HashKind::Aes, 1, 2);
const RECV_BYTES: usize = 128;

/// The part that is measured.
#[inline(never)]
fn serve<V: Variant>(worker: &mut Worker<Shm, V>, cpu: &<Shm as Provider>::Cpu) -> bool {
    worker.step(cpu) == Progress::Busy
}

fn send(stream: &mut ControlStream, message: &Message) {
    let frame = message.encode();
    stream.send(frame.kind, &frame.body, &frame.fds).expect("sent");
}

fn receive(ctx: &ShmContext, stream: &mut ControlStream) -> Message {
    let frame = stream.recv(ctx.cpu().now()).expect("open").expect("an answer");
    Message::decode(frame.kind, &frame.body, frame.fds).expect("a message")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let op = args.get(1).map_or("get", String::as_str);
    let ask = Ask {
        put: op.ends_with("put"),
        paper: op.starts_with("paper"),
    };
    let count = args.get(2).map_or(Ok(100_000), |count| count.parse())?;
    run(ask, count, &|| 0).map(|_| ())
}

/// What is asked of the worker.
#[derive(Clone, Copy)]
pub struct Ask {
    /// Else GETs.
    pub put: bool,
    /// In the paper's format, of the paper's pipeline.
    pub paper: bool,
}

/// A request's bytes in either format.
fn request(ask: Ask, r: u64, key: &str, value: &[u8]) -> Vec<u8> {
    let hash = SEED.hash(key.as_bytes());
    if ask.paper {
        let len = (value.len() as u16).to_le_bytes();
        let len = if value.is_empty() { &[][..] } else { &len[..] };
        return [value, len, &paper::wire_hash(hash)].concat();
    }
    let op = if value.is_empty() {
        SlotOp::Get
    } else {
        SlotOp::Put
    };
    let commit = Commit::new(op, (r / WINDOW + 1) as u32, key.len(), value.len(), false);
    [value, key.as_bytes(), &hash.to_bytes(), &commit.0.to_le_bytes()].concat()
}

/// Serves `count` requests after as many PUTs as there are keys; returns by how much `meter` went on meanwhile in
/// the worker.
pub fn run(ask: Ask, count: u64, meter: &dyn Fn() -> u64) -> Result<u64, Box<dyn std::error::Error>> {
    match ask.paper {
        true => run_as(ask, count, WithPaperFormat, meter),
        false => run_as(ask, count, Standard, meter),
    }
}

fn run_as<V: Variant>(
    ask: Ask,
    count: u64,
    variant: V,
    meter: &dyn Fn() -> u64,
) -> Result<u64, Box<dyn std::error::Error>> {
    let device = ShmDevice::default();
    let (mode, format) = match ask.paper {
        true => (ServeMode::Pipeline { drain: true }, Format::P),
        false => (ServerOptions::default().mode, Format::D),
    };
    let options = ServerOptions {
        mode,
        partition: PartitionOptions {
            log_bytes: 1 << 21,
            bucket_count: 1 << 11,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        identity: IdentityOptions {
            hash_seed: Some(SEED),
            ..IdentityOptions::default()
        },
        idle_sweeps: 1,
        ..ServerOptions::default()
    };
    let (mut acceptor, mut workers) = Server::<Shm>::in_pieces_as(&device, &options, variant)?;
    let worker = &mut workers[0];
    let (server_ctx, control_ctx) = (worker.context(), acceptor.context());

    let ctx = device.context()?;
    let (mut stream, other) = ControlStream::pair();
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        format,
        front_end: FrontEnd::Slots,
        window: WINDOW as u16,
        slot_bytes: 128,
        crc: false,
        resume_epoch: 0,
        auth: Vec::new(),
    };
    send(&mut stream, &Message::Hello(hello));
    acceptor.adopt(other);
    let mut settle = |worker: &mut Worker<Shm, V>| {
        for _ in 0..10 {
            acceptor.step(control_ctx.cpu());
            worker.step(server_ctx.cpu());
        }
    };
    settle(worker);
    let Message::Welcome(welcome) = receive(&ctx, &mut stream) else {
        return Err("no welcome".into());
    };
    let map = SlotMap {
        slot_bytes: usize::from(welcome.slot_bytes),
        window: usize::from(welcome.window),
        partition_count: 1,
    };
    let mut cq = ctx.create_cq(256)?;
    let mut recv_cq = ctx.create_cq(256)?;
    let mut uc = ctx.create_qp(&QpOptions::<Shm>::new(QpKind::Uc, &cq, ctx.caps()))?;
    let mut ud = ctx.create_qp(&QpOptions::<Shm>::new(QpKind::Ud, &recv_cq, ctx.caps()))?;
    uc.connect(&welcome.slots.uc)?;
    let remote = ctx.import_region(&welcome.slots.region)?;
    let memory = ctx.alloc(2 * WINDOW as usize * RECV_BYTES, PageWish::Small)?;
    let memory = ctx.register(&memory, Access::LOCAL)?;
    let mut recvs = RecvList::default();
    let recv = |piece: u64| RecvWr {
        wr_id: WrId(piece),
        sge: memory.sge(piece as usize * RECV_BYTES, RECV_BYTES),
    };
    (0..2 * WINDOW).for_each(|piece| recvs.push(recv(piece)));
    ud.post_recv(ctx.cpu(), &recvs)?;
    let export = uc.export()?;
    send(&mut stream, &Message::Attach { uc: export });
    let export = ud.export()?;
    send(
        &mut stream,
        &Message::Replies {
            partition: 0,
            ud: export,
        },
    );
    settle(worker);
    let Message::Ready = receive(&ctx, &mut stream) else {
        return Err("not ready".into());
    };

    let mut list = SendList::with_capacity(WINDOW as usize, 2048);
    let mut wcs = [Wc::default(); 32];
    let (mut r, mut served) = (0, 0);
    let (mut spent, mut least, mut metered) = (Ns::ZERO, u64::MAX, 0);
    // All keys once, then what is asked for.
    while r < KEYS + count {
        list.clear();
        for _ in 0..WINDOW {
            let put = ask.put || r < KEYS;
            let number = drover_base::mix(r) % KEYS;
            let key = format!("key-{:012}", if r < KEYS { r } else { number });
            let value = if put { &[7; 32][..] } else { &[][..] };
            let bytes = request(ask, r, &key, value);
            let slot = (r % WINDOW) as usize;
            let payload = list.inline(&bytes);
            list.push(
                SendWr::write(
                    remote.at(map.slot_offset(0, slot) + map.slot_bytes - bytes.len()),
                    payload,
                )
                .signaled_if(slot == 15, WrId(0)),
            );
            r += 1;
        }
        if r % (256 * WINDOW) == 0 {
            least = least.min(spent.0 / 256);
            spent = Ns::ZERO;
        }
        uc.post_send(ctx.cpu(), &list)?;
        cq.poll(ctx.cpu(), &mut wcs);
        while served < r {
            let (before, metered_before) = (ctx.cpu().refresh(), meter());
            serve(worker, server_ctx.cpu());
            spent += ctx.cpu().refresh().since(before);
            if r > KEYS {
                metered += meter() - metered_before;
            }
            let polled = recv_cq.poll(ctx.cpu(), &mut wcs);
            served += polled as u64;
            recvs.clear();
            wcs[..polled].iter().for_each(|wc| recvs.push(recv(wc.wr_id.0)));
            ud.post_recv(ctx.cpu(), &recvs)?;
        }
    }
    println!(
        "{:.1} ns of the worker per request, at best",
        least as f64 / WINDOW as f64
    );
    let counters = *worker.counters();
    println!(
        "{} GETs, {} of them hits, {} PUTs, {} doorbells",
        counters.operations.gets,
        counters.operations.get_hits,
        counters.operations.puts,
        counters.replies.doorbells
    );
    Ok(metered)
}
