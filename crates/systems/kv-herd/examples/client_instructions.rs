//! What an operation costs the client, in instructions: `client_instructions get|put|paper-get|paper-put COUNT`, to be run under
//! callgrind with `--toggle-collect='client_instructions::turn'`, which counts the client (with the posting over
//! shared memory, and the loop around it) and leaves out the worker beside it.
//!
//! Shared memory, one process, window 16, 16-byte keys, 32-byte values, 10,000 keys, all hits. `paper-`: the
//! paper's format, each request posted by itself.

use drover_base::{Actor, Cpu, HashKind, HashSeed};
use drover_control::LocalListener;
use drover_kv::{Completion, KvClient, Op, Outcome};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient, Keyed, Paper, RequestFormat};
use drover_kv_herd::server::{IdentityOptions, Server, ServerOptions, WithPaperFormat, Worker};
use drover_mem::{NativeCpu, PageWish};
use drover_store::PartitionOptions;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;

const WINDOW: usize = 16;
const KEYS: usize = 10_000;
const VALUE: [u8; 32] = [7; 32];

/// Where a run is.
#[derive(Default)]
struct Progress {
    sent: usize,
    good: usize,
}

/// The part that is measured: the window is filled, and what has been answered is looked at.
#[inline(never)]
fn turn<F: RequestFormat>(
    client: &mut HerdClient<Shm, F>,
    cpu: &NativeCpu,
    put: bool,
    keys: &[[u8; 16]],
    count: usize,
    at: &mut Progress,
) {
    while at.sent < count && client.in_flight() < WINDOW {
        let key = &keys[at.sent % KEYS];
        let op = match put {
            true => Op::put(key, &VALUE),
            false => Op::Get { key },
        };
        client.submit(cpu, &op, 0).expect("the window has space");
        at.sent += 1;
    }
    let mut count = |completion: Completion<'_>| {
        at.good += usize::from(matches!(completion.outcome, Outcome::Stored | Outcome::Value(_)));
    };
    client.poll(cpu, &mut count);
}

fn main() {
    let mut args = std::env::args().skip(1);
    let op = args.next().unwrap_or_default();
    let (put, paper) = (op.ends_with("put"), op.starts_with("paper"));
    let count = args
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or(100_000);
    let usual = ClientOptions {
        window: WINDOW,
        ..ClientOptions::default()
    };
    let one_by_one = ClientOptions {
        post_batch: 1,
        ..usual.clone()
    };
    match paper {
        true => run(put, count, one_by_one, Paper),
        false => run(put, count, usual, Keyed),
    }
}

fn run(put: bool, count: usize, options: ClientOptions, format: impl RequestFormat) {
    let device = ShmDevice::default();
    let (mut acceptor, mut workers) =
        Server::<Shm>::in_pieces_as(&device, &server_options(), WithPaperFormat).expect("server");
    let ctx = Rc::new(ShmDevice::default().context().expect("context"));
    let cpu = ctx.cpu();
    let listener = LocalListener::new();
    let mut client: HerdClient<Shm, _> =
        HerdClient::with_format(ctx.clone(), Dial::at(&listener), options, format);
    let control = acceptor.context();
    while !client.is_ready() {
        cpu.refresh();
        client.poll(cpu, &mut |_| {});
        if let Some(stream) = listener.accept() {
            acceptor.adopt(stream);
        }
        control.cpu().refresh();
        acceptor.step(control.cpu());
        step(&mut workers[0]);
    }
    // From here on time stands still for the client, so nothing is sent twice and every run is the same.
    let keys: Vec<[u8; 16]> = (0..KEYS as u64).map(key).collect();
    let mut ask = |put, count: usize| {
        let mut at = Progress::default();
        while at.sent < count || client.in_flight() > 0 {
            turn(&mut client, cpu, put, &keys, count, &mut at);
            step(&mut workers[0]);
        }
        assert_eq!(at.good, count, "every operation succeeds");
    };
    ask(true, KEYS);
    ask(put, count);
}

fn step(worker: &mut Worker<Shm, WithPaperFormat>) {
    let ctx = worker.context();
    worker.step(ctx.cpu());
}

fn key(index: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[8..].copy_from_slice(&drover_base::mix(index).to_le_bytes());
    key
}

fn server_options() -> ServerOptions {
    ServerOptions {
        partition: PartitionOptions {
            log_bytes: 1 << 21,
            bucket_count: 1 << 13,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        identity: IdentityOptions {
            hash_seed: Some(HashSeed::of(HashKind::Aes, 1, 2)),
            epoch: Some(7),
            ..IdentityOptions::default()
        },
        ..ServerOptions::default()
    }
}
