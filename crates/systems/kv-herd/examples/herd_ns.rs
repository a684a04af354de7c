//! What an operation costs over shared memory: a server thread and a client thread on one core each, 95 % GET,
//! 16-byte keys, 32-byte values.
//!
//! ```text
//! cargo run --release -p drover-kv-herd --example herd_ns [-- KEYS SECONDS WINDOW]
//! valgrind --tool=callgrind --toggle-collect='herd_ns::client_turn' target/release/examples/herd_ns count
//! ```
//! `count` runs client and server in one thread, 100,000 operations (or as many as said) after warm-up: with the
//! toggle, callgrind counts the client's instructions only. The time it prints is the thread's own, so it means
//! something on a busy machine, too.

use drover_base::{Actor, Cpu, Ns, Rng};
use drover_control::LocalListener;
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::server::{Server, ServerOptions};
use drover_mem::NativeCpu;
use drover_store::{Mode, PartitionOptions, item_bytes};
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;

const VALUE: [u8; 32] = [7; 32];
/// The time is told slice by slice: a core that somebody else disturbs is quick now and then.
const SLICE: Ns = Ns::from_ms(5);

fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // Without the second core the numbers are what they are.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// What this thread has had of a core. (Not by the clock: rustix finds no vDSO under valgrind.)
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn key(index: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[8..].copy_from_slice(&drover_base::mix(index).to_le_bytes());
    key
}

fn server_options(key_count: usize) -> ServerOptions {
    let cache = Mode::S3_FIFO;
    ServerOptions {
        partition: PartitionOptions::for_items(cache, key_count, item_bytes(16, 32)),
        ..ServerOptions::default()
    }
}

fn options(window: usize) -> ClientOptions {
    ClientOptions {
        window,
        ..ClientOptions::default()
    }
}

/// Keeps the window full for one round of submitting and polling; returns completions and hits.
#[inline(never)]
fn client_turn(
    client: &mut HerdClient<Shm>,
    cpu: &NativeCpu,
    ops: &[(bool, [u8; 16])],
    at: &mut usize,
    window: usize,
) -> (usize, usize) {
    while client.in_flight() < window {
        let (write, key) = &ops[*at];
        let op = match write {
            true => Op::put(key, &VALUE),
            false => Op::Get { key },
        };
        if client.submit(cpu, &op, *at as u64).is_err() {
            break;
        }
        *at = if *at + 1 == ops.len() { 0 } else { *at + 1 };
    }
    let mut hits = 0;
    let done = client.poll(cpu, &mut |c| {
        hits += usize::from(!matches!(c.outcome, Outcome::NotFound))
    });
    (done, hits)
}

fn workload(key_count: usize) -> Vec<(bool, [u8; 16])> {
    let mut rng = Rng::new(1, 0, 0);
    (0..1 << 20)
        .map(|_| (rng.chance(0.05), key(rng.below(key_count as u64))))
        .collect()
}

fn load(client: &mut HerdClient<Shm>, cpu: &NativeCpu, key_count: usize, mut turn: impl FnMut()) {
    let mut next = 0;
    while next < key_count || client.in_flight() > 0 {
        while next < key_count {
            let key = key(next as u64);
            let op = Op::put(&key, &VALUE);
            if client.submit(cpu, &op, 0).is_err() {
                break;
            }
            next += 1;
        }
        cpu.refresh();
        client.poll(cpu, &mut |_| {});
        turn();
    }
}

fn measure(key_count: usize, seconds: u64, windows: &[usize]) {
    let device = ShmDevice::default();
    let server = Server::<Shm>::start(&device, None, &server_options(key_count), |_| pin(1)).expect("server");
    pin(0);
    let ops = workload(key_count);
    let ctx = Rc::new(ShmDevice::default().context().expect("context"));
    let cpu = ctx.cpu();
    for &window in windows {
        let listener = LocalListener::new();
        let mut client = HerdClient::<Shm>::new(ctx.clone(), Dial::at(&listener), options(window));
        while !client.is_ready() {
            cpu.refresh();
            client.poll(cpu, &mut |_| {});
            while let Some(stream) = listener.accept() {
                server.adopt(stream);
            }
            if let Some(error) = client.take_error() {
                panic!("{error}");
            }
        }
        load(&mut client, cpu, key_count, || {});
        let (mut at, mut done, mut hits) = (0, 0, 0);
        let start = cpu.refresh();
        let (mut now, mut slices) = (start, Vec::new());
        while now.since(start) < Ns::from_s(seconds) {
            let (began, before) = (now, done);
            while now.since(began) < SLICE {
                for _ in 0..64 {
                    let (d, h) = client_turn(&mut client, cpu, &ops, &mut at, window);
                    (done, hits) = (done + d, hits + h);
                }
                now = cpu.refresh();
            }
            slices.push(now.since(began).0 as f64 / (done - before) as f64);
        }
        slices.sort_by(f64::total_cmp);
        let ns = now.since(start).0 as f64 / done as f64;
        println!(
            "window {window:>2}: {:6.2} Mops, {ns:6.1} ns per operation; slices: the quickest tenth {:6.1} ns, median {:6.1} ns; {:.2} % hits, {:?}",
            1e3 / ns,
            slices[slices.len() / 10],
            slices[slices.len() / 2],
            100.0 * hits as f64 / done as f64,
            client.stats(),
        );
    }
}

fn count(wanted: usize) {
    let device = ShmDevice::default();
    let (mut acceptor, mut workers) =
        Server::<Shm>::in_pieces(&device, &server_options(10_000)).expect("server");
    let ctx = Rc::new(ShmDevice::default().context().expect("context"));
    let cpu = ctx.cpu();
    let listener = LocalListener::new();
    let mut client = HerdClient::<Shm>::new(ctx.clone(), Dial::at(&listener), options(16));
    let (server_ctx, worker_ctx) = (acceptor.context(), workers[0].context());
    // All of the server, heartbeats included: under valgrind on a busy machine loading takes its seconds.
    let mut serve = || {
        while let Some(stream) = listener.accept() {
            acceptor.adopt(stream);
        }
        server_ctx.cpu().refresh();
        acceptor.step(server_ctx.cpu());
        worker_ctx.cpu().refresh();
        workers[0].step(worker_ctx.cpu());
    };
    while !client.is_ready() {
        cpu.refresh();
        client.poll(cpu, &mut |_| {});
        serve();
    }
    load(&mut client, cpu, 10_000, &mut serve);
    let ops = workload(10_000);
    let (mut at, mut done, mut hits) = (0, 0, 0);
    let before = cpu_ns();
    while done < wanted {
        cpu.refresh();
        let (d, h) = client_turn(&mut client, cpu, &ops, &mut at, 16);
        (done, hits) = (done + d, hits + h);
        serve();
    }
    let ns = (cpu_ns() - before) as f64 / done as f64;
    println!(
        "{ns:.1} ns of this thread per operation, client and server together; {done} operations, {hits} hits"
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next() {
        Some(word) if word == "count" => count(args.next().and_then(|t| t.parse().ok()).unwrap_or(100_000)),
        first => {
            let number = |text: Option<String>, other| text.and_then(|t| t.parse().ok()).unwrap_or(other);
            let (keys, seconds) = (number(first, 1_000_000), number(args.next(), 2));
            match args.next().and_then(|t| t.parse().ok()) {
                Some(window) => measure(keys as usize, seconds, &[window]),
                None => measure(keys as usize, seconds, &[16, 1, 4, 16, 64]),
            }
        }
    }
}
