//! Cost of the verbs in nanoseconds: in one process (no line moves between cores), and between two pinned processes
//! (lines move). Prints, asserts nothing.
//!
//! `cargo run --release -p drover-verbs-shm --example verbs_ns`
//! `valgrind --tool=cachegrind --cache-sim=no target/release/examples/verbs_ns count OPERATION N`

use drover_base::Cpu;
use drover_mem::{PageWish, Region, pause};
use drover_testkit::child::{Channel, role, spawn};
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmContext, ShmCq, ShmDevice, ShmMr, ShmOptions, ShmQp};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::atomic::Ordering;

const SLOTS: usize = 64;
const SLOT_BYTES: usize = 64;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if role().is_some() {
        return serve();
    }
    pin(0);
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "count", what, n] => one_process(Some((what, n.parse().expect("a number")))),
        _ => {
            one_process(None);
            two_processes();
        }
    }
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

/// A UD queue pair with RECVs posted in a region of its own.
struct Mailbox {
    qp: ShmQp,
    mr: ShmMr,
    recvs: RecvList,
}

const RECV_BYTES: usize = 128;

impl Mailbox {
    fn new(ctx: &ShmContext, cq: &ShmCq) -> Mailbox {
        let qp = ctx
            .create_qp(&QpOptions::<Shm>::new(QpKind::Ud, cq, ctx.caps()))
            .expect("qp");
        let memory = ctx.alloc(RECV_BYTES * 128, PageWish::Small).expect("memory");
        let mr = ctx.register(&memory, Access::LOCAL).expect("registration");
        Mailbox {
            qp,
            mr,
            recvs: RecvList::with_capacity(128),
        }
    }

    fn post(&mut self, ctx: &ShmContext, ids: impl Iterator<Item = u64>) {
        self.recvs.clear();
        for id in ids {
            self.recvs.push(RecvWr {
                wr_id: WrId(id),
                sge: self.mr.sge(id as usize * RECV_BYTES + 24, 104),
            });
        }
        self.qp
            .post_recv(ctx.cpu(), &self.recvs)
            .expect("space for RECVs");
    }
}

fn one_process(only: Option<(&str, u64)>) {
    let ctx = ShmDevice::default().context().expect("context");
    let mut cq = ctx.create_cq(256).expect("cq");
    let mut mailbox = Mailbox::new(&ctx, &cq);
    let dest = ctx
        .create_ah(&mailbox.qp.export().expect("export"))
        .expect("handle");
    let options = QpOptions::<Shm>::new(QpKind::Uc, &cq, ctx.caps());
    let mut sender = ctx
        .create_qp(&QpOptions {
            kind: QpKind::Ud,
            ..options
        })
        .expect("qp");
    let mut writer = ctx.create_qp(&options).expect("qp");
    let mut target = ctx.create_qp(&options).expect("qp");
    writer
        .connect(&target.export().expect("export"))
        .expect("connect");
    target
        .connect(&writer.export().expect("export"))
        .expect("connect");
    let memory = ctx.alloc(SLOTS * SLOT_BYTES, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::ALL).expect("registration");
    let remote = ctx
        .import_region(&mr.export(&[]).expect("export"))
        .expect("import");
    let mut wcs = [Wc::default(); 16];
    for (size, batch) in [(48, 1), (48, 16), (60, 16)] {
        let mut list = SendList::with_capacity(16, 1024);
        for i in 0..batch {
            let payload = list.inline(&vec![7; size]);
            let at = remote.at((i + 1) * SLOT_BYTES - size);
            list.push(SendWr::write(at, payload).signaled_if(i == 0, WrId(1)));
        }
        measure(only, &format!("write{size}x{batch}"), batch as u64, || {
            writer.post_send(ctx.cpu(), &list).expect("post");
            cq.poll(ctx.cpu(), &mut wcs[..1]);
        });
    }
    measure(only, "empty_poll", 1, || {
        std::hint::black_box(cq.poll(ctx.cpu(), &mut wcs));
    });
    mailbox.post(&ctx, 0..64);
    for batch in [1usize, 16] {
        let mut list = SendList::with_capacity(16, 1024);
        for i in 0..batch {
            let payload = list.inline(&[9; 32]);
            list.push(
                SendWr::send_to(dest, payload)
                    .with_imm(Imm(i as u32))
                    .signaled_if(i == 0, WrId(2)),
            );
        }
        let name = format!("datagram32x{batch}");
        let (mut send_ticks, mut poll_ticks, mut post_ticks, mut rounds) = (0, 0, 0, 0);
        measure(only, &name, batch as u64, || {
            let t0 = drover_mem::timestamp();
            sender.post_send(ctx.cpu(), &list).expect("post");
            let t1 = drover_mem::timestamp();
            let mut ids = [0u64; 16];
            let mut n = 0;
            while n < batch {
                let got = cq.poll(ctx.cpu(), &mut wcs);
                for wc in &wcs[..got] {
                    if wc.opcode == Opcode::Recv {
                        ids[n] = wc.wr_id.0;
                        n += 1;
                    }
                }
            }
            let t2 = drover_mem::timestamp();
            mailbox.post(&ctx, ids[..n].iter().copied());
            let t3 = drover_mem::timestamp();
            (send_ticks, poll_ticks, post_ticks) =
                (send_ticks + t1 - t0, poll_ticks + t2 - t1, post_ticks + t3 - t2);
            rounds += 1;
        });
        let each =
            |ticks| drover_mem::NativeCpu::ticks_to_ns(ticks) as f64 / (rounds * batch as u64).max(1) as f64;
        println!(
            "    of which send {:.1}, poll {:.1}, post_recv {:.1} (each with its share of a 10 ns clock)",
            each(send_ticks),
            each(poll_ticks),
            each(post_ticks)
        );
    }
}

/// Minimum of many runs, ns per operation; or just `n` rounds, for counting instructions.
fn measure(only: Option<(&str, u64)>, name: &str, per_round: u64, mut round: impl FnMut()) {
    if let Some((what, n)) = only {
        if what == name {
            (0..n).for_each(|_| round());
        }
        return;
    }
    let mut least = f64::MAX;
    for _ in 0..50 {
        let t0 = drover_mem::timestamp();
        for _ in 0..2000 {
            round();
        }
        let ns = drover_mem::NativeCpu::ticks_to_ns(drover_mem::timestamp() - t0) as f64;
        least = least.min(ns / (2000 * per_round) as f64);
    }
    println!("{name:<16} {least:6.1} ns");
}

fn word(sequence: u64) -> u64 {
    sequence | 1 << 63
}

/// The client of a HERD-like exchange: WRITE 48 bytes over UC, reply 32 bytes over UD.
fn two_processes() {
    let (mut child, mut channel) = spawn(&[], "server");
    let ctx = ShmDevice::default().context().expect("context");
    let mut cq = ctx.create_cq(256).expect("cq");
    let mut mailbox = Mailbox::new(&ctx, &cq);
    let mut qp = ctx
        .create_qp(&QpOptions::<Shm>::new(QpKind::Uc, &cq, ctx.caps()))
        .expect("qp");
    let remote = ctx
        .import_region(&channel.receive().expect("a peer"))
        .expect("import");
    qp.connect(&channel.receive().expect("a peer")).expect("connect");
    channel.send(&qp.export().expect("export")).expect("a peer");
    channel
        .send(&mailbox.qp.export().expect("export"))
        .expect("a peer");
    mailbox.post(&ctx, 0..64);
    let mut sequence = 0;
    for window in [1u64, 4, 16, 32] {
        let mut samples: Vec<f64> = (0..7)
            .map(|_| {
                let rounds = 400_000;
                let t0 = ctx.cpu().refresh();
                exchange(
                    &ctx,
                    &mut qp,
                    &mut cq,
                    &mut mailbox,
                    remote,
                    &mut sequence,
                    window,
                    rounds,
                );
                ctx.cpu().refresh().since(t0).0 as f64 / rounds as f64
            })
            .collect();
        samples.sort_by(f64::total_cmp);
        println!(
            "window {window:2}: {:6.1} ns per exchange (median of 7; {:.1} to {:.1}) = {:.2} Mops",
            samples[3],
            samples[0],
            samples[6],
            1000.0 / samples[3]
        );
    }
    // Sequence 0 with the stop bit ends the server.
    remote_store(
        &ctx,
        &mut qp,
        &mut cq,
        remote,
        (sequence % SLOTS as u64) as usize,
        u64::MAX,
        sequence,
    );
    child.wait().expect("child");
}

#[allow(clippy::too_many_arguments, reason = "a benchmark's inner loop")]
fn exchange(
    ctx: &ShmContext,
    qp: &mut ShmQp,
    cq: &mut ShmCq,
    mailbox: &mut Mailbox,
    remote: RemoteRegion,
    sequence: &mut u64,
    window: u64,
    rounds: u64,
) {
    let mut list = SendList::with_capacity(64, 64 * 64);
    let mut wcs = [Wc::default(); 32];
    let (mut sent, mut done) = (0, 0);
    while done < rounds {
        list.clear();
        while sent < rounds && sent - done < window {
            let mut body = [5u8; 48];
            body[40..].copy_from_slice(&word(*sequence).to_le_bytes());
            let payload = list.inline(&body);
            let slot = (*sequence % SLOTS as u64) as usize;
            let at = remote.at((slot + 1) * SLOT_BYTES - 48);
            list.push(SendWr::write(at, payload).signaled_if((*sequence).is_multiple_of(32), WrId(99)));
            sent += 1;
            *sequence += 1;
        }
        if !list.is_empty() {
            qp.post_send(ctx.cpu(), &list).expect("post");
        }
        let n = cq.poll(ctx.cpu(), &mut wcs);
        if n == 0 {
            pause();
            continue;
        }
        let ids = wcs[..n]
            .iter()
            .filter(|wc| wc.opcode == Opcode::Recv)
            .map(|wc| wc.wr_id.0);
        done += ids.clone().count() as u64;
        mailbox.post(ctx, ids);
    }
}

fn remote_store(
    ctx: &ShmContext,
    qp: &mut ShmQp,
    cq: &mut ShmCq,
    remote: RemoteRegion,
    slot: usize,
    value: u64,
    id: u64,
) {
    let mut list = SendList::default();
    let payload = list.inline(&value.to_le_bytes());
    list.push(SendWr::write(remote.at((slot + 1) * SLOT_BYTES - 8), payload).signaled(WrId(id)));
    qp.post_send(ctx.cpu(), &list).expect("post");
    cq.poll(ctx.cpu(), &mut [Wc::default()]);
}

/// Answers all slots round-robin with 32 bytes, up to 16 per list.
fn serve() {
    pin(1);
    let mut channel = Channel::of_child();
    let ctx = ShmDevice::open(ShmOptions::default()).context().expect("context");
    let mut cq = ctx.create_cq(256).expect("cq");
    let slots: Region = ctx.alloc(SLOTS * SLOT_BYTES, PageWish::Small).expect("memory");
    let mr = ctx.register(&slots, Access::REMOTE_WRITE).expect("registration");
    let options = QpOptions::<Shm>::new(QpKind::Uc, &cq, ctx.caps());
    let mut qp = ctx.create_qp(&options).expect("qp");
    let mut ud = ctx
        .create_qp(&QpOptions {
            kind: QpKind::Ud,
            ..options
        })
        .expect("qp");
    channel.send(&mr.export(&[]).expect("export")).expect("a peer");
    channel.send(&qp.export().expect("export")).expect("a peer");
    qp.connect(&channel.receive().expect("a peer")).expect("connect");
    let dest = ctx
        .create_ah(&channel.receive().expect("a peer"))
        .expect("handle");
    let mut list = SendList::with_capacity(16, 1024);
    let mut wcs = [Wc::default(); 4];
    let mut sequence = 0u64;
    loop {
        list.clear();
        for _ in 0..16 {
            let slot = (sequence % SLOTS as u64) as usize;
            let commit = slots.load_u64((slot + 1) * SLOT_BYTES - 8, Ordering::Acquire);
            if commit == u64::MAX {
                return;
            }
            if commit != word(sequence) {
                break;
            }
            let mut value = [0; 32];
            slots.copy_out((slot + 1) * SLOT_BYTES - 48, &mut value);
            let payload = list.inline(&value);
            list.push(
                SendWr::send_to(dest, payload)
                    .with_imm(Imm(sequence as u32))
                    .signaled_if(sequence.is_multiple_of(32), WrId(0)),
            );
            sequence += 1;
        }
        if list.is_empty() {
            pause();
            continue;
        }
        ud.post_send(ctx.cpu(), &list).expect("post");
        if sequence % 32 < 16 {
            cq.poll(ctx.cpu(), &mut wcs);
        }
    }
}
