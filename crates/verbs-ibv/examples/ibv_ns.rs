//! What the provider costs over the library's own calls: nanoseconds per request posted and per completion polled,
//! over a library whose data path does nothing, beside the same calls made bare. `ibv_ns [ROUNDS]`

#[path = "../tests/stub/mod.rs"]
mod stub;

use drover_mem::{NativeCpu, PageWish, timestamp};
use drover_verbs::*;
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions, ffi};
use std::hint::black_box;
use std::ptr::null_mut;

/// Requests per list.
const LISTS: [usize; 3] = [1, 4, 16];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(200_000), |text| text.parse::<u64>())?;
    let mut options = IbvOptions::default();
    options.library = Some(stub::idle_library());
    let ctx = IbvDevice::open(options)?.context()?;
    let memory = ctx.alloc(4096, PageWish::Small)?;
    let mr = ctx.register(&memory, Access::ALL)?;
    let mut cq = ctx.create_cq(64)?;
    let mut qp = ctx.create_qp(&QpOptions::<Ibv>::new(QpKind::Uc, &cq, ctx.caps()))?;
    qp.connect(&qp.export()?)?;
    let remote = ctx.import_region(&mr.export(&[])?)?;
    println!(
        "ns per request, least of 5 x {rounds} rounds; bare: the same chain filled in and posted without us"
    );
    for count in LISTS {
        let mut list = SendList::with_capacity(count, 64 * count);
        for n in 0..count {
            let payload = list.inline(&[n as u8; 32]);
            let op = SendOp::Write {
                remote: remote.at(64 * n),
                imm: None,
            };
            list.push(SendWr {
                wr_id: WrId(n as u64),
                op,
                payload,
                signaled: false,
                fence: false,
            });
        }
        let ours = least(rounds, || {
            black_box(&mut qp)
                .post_send(ctx.cpu(), black_box(&list))
                .expect("taken");
        });
        let bare = least(rounds, bare_post(count));
        report("post WRITE inline 32", count, ours, bare);
        let mut wcs = vec![Wc::default(); count];
        let ours = least(rounds, || {
            black_box(&mut cq).poll(ctx.cpu(), black_box(&mut wcs));
        });
        let mut raw = vec![ffi::Wc::default(); count];
        let poll = black_box(stub::idle::poll_cq as extern "C" fn(_, _, _) -> _);
        let bare = least(rounds, || {
            poll(null_mut(), count as i32, black_box(raw.as_mut_ptr()));
        });
        report("poll", count, ours, bare);
    }
    Ok(())
}

type BarePost = extern "C" fn(*mut ffi::Qp, *mut ffi::SendWr, *mut *mut ffi::SendWr) -> i32;

/// Fills in a chain of inline WRITEs and posts it, as a program in C would.
fn bare_post(count: usize) -> impl FnMut() {
    let post = black_box(stub::idle::post_send as BarePost);
    let payload = vec![0u8; 64 * count];
    let mut wrs = vec![ffi::SendWr::EMPTY; count];
    let mut sges = vec![ffi::Sge::default(); count];
    move || {
        let first = wrs.as_mut_ptr();
        for n in 0..count {
            let addr = black_box(payload.as_ptr()) as u64 + 64 * n as u64;
            sges[n] = ffi::Sge {
                addr,
                length: 32,
                lkey: 0,
            };
            let wr = &mut wrs[n];
            wr.wr_id = n as u64;
            wr.opcode = ffi::WR_RDMA_WRITE;
            wr.send_flags = ffi::SEND_INLINE;
            wr.sg_list = &mut sges[n];
            wr.num_sge = 1;
            wr.wr.rdma = ffi::Rdma {
                remote_addr: 64 * n as u64,
                rkey: 7,
            };
            wr.next = if n + 1 == count {
                null_mut()
            } else {
                first.wrapping_add(n + 1)
            };
        }
        let mut bad = null_mut();
        post(null_mut(), black_box(first), &mut bad);
    }
}

/// Nanoseconds per call, the least of five runs.
fn least(rounds: u64, mut call: impl FnMut()) -> f64 {
    let run = |call: &mut dyn FnMut(u64)| {
        let start = timestamp();
        call(rounds);
        NativeCpu::ticks_to_ns(timestamp() - start) as f64 / rounds as f64
    };
    let mut all = |rounds| (0..rounds).for_each(|_| call());
    (0..5).map(|_| run(&mut all)).fold(f64::INFINITY, f64::min)
}

fn report(what: &str, count: usize, ours: f64, bare: f64) {
    let (ours, bare) = (ours / count as f64, bare / count as f64);
    println!(
        "{what:<22} x {count:<3} ours {ours:>6.2}  bare {bare:>6.2}  difference {:>6.2}",
        ours - bare
    );
}
