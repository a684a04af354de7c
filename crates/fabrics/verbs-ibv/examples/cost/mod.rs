//! The two sides compared: a call of the provider, and the equivalent C program, over a library whose data path does
//! nothing. Both fill the same chain in a reused array, and both read the same fields of completions. The comparison
//! favours the bare side: its opcode and lengths are known at compile time, and its calls do not check the context. The
//! cost of building our list is not included; see [`Pair::listed`].

#![allow(dead_code, reason = "one program wants times, the other counts")]

use drover_mem::PageWish;
use drover_verbs::*;
use drover_verbs_ibv::{Ibv, IbvContext, IbvDevice, IbvMr, IbvOptions, IbvQp, ffi};
use drover_verbs_ibv_stub as stub;
use std::hint::black_box;
use std::ptr::null_mut;

/// One operation in both variants.
pub struct Pair {
    /// Name of the operation, for example `post WRITE`.
    pub what: &'static str,
    /// Requests or completions per call.
    pub count: usize,
    /// The provider's variant.
    pub ours: Box<dyn FnMut()>,
    /// The bare variant.
    pub bare: Box<dyn FnMut()>,
}

/// Operations, by the names of the instruction meter.
pub const OPERATIONS: [&str; 5] = ["write", "read", "datagram", "recv", "poll"];

const BYTES: usize = 32;

/// An opened context on the idle library, and the objects that requests use.
pub struct Bench {
    ctx: &'static IbvContext,
    mr: IbvMr,
    remote: RemoteRegion,
}

impl Bench {
    /// Opens the context.
    pub fn new() -> Result<Bench, Box<dyn std::error::Error>> {
        let mut options = IbvOptions::default();
        options.library = Some(stub::idle_library());
        // Leaked for the life of the process, so that operations need not borrow from us.
        let ctx: &'static IbvContext = Box::leak(Box::new(IbvDevice::open(options)?.context()?));
        let memory = ctx.alloc(4096, PageWish::Small)?;
        let mr = ctx.register(&memory, Access::ALL)?;
        let remote = ctx.import_region(&mr.export(&[])?)?;
        Ok(Bench { ctx, mr, remote })
    }

    /// The operation called `name`, with `count` requests or completions per call.
    pub fn pair(&self, name: &str, count: usize) -> Result<Pair, Box<dyn std::error::Error>> {
        let what = match name {
            "write" => "post WRITE inline 32",
            "read" => "post READ 32",
            "datagram" => "post SEND to AH 32",
            "recv" => "post RECV",
            "poll" => "poll",
            _ => return Err(format!("no operation is called {name}; there are {OPERATIONS:?}").into()),
        };
        let ours = match name {
            "recv" => self.recv(count)?,
            "poll" => self.poll(count)?,
            name => self.post(name, count)?,
        };
        let bare = match count {
            1 => bare::<1>(name),
            4 => bare::<4>(name),
            16 => bare::<16>(name),
            _ => return Err(format!("lists of 1, 4 and 16, not {count}").into()),
        };
        Ok(Pair {
            what,
            count,
            ours,
            bare,
        })
    }

    fn qp(&self, kind: QpKind) -> Result<IbvQp, Box<dyn std::error::Error>> {
        let ctx = self.ctx;
        let cq = ctx.create_cq(64)?;
        let mut qp = ctx.create_qp(&QpOptions::<Ibv>::new(kind, &cq, ctx.caps()))?;
        if kind != QpKind::Ud {
            qp.connect(&qp.export()?)?;
        }
        Ok(qp)
    }

    fn post(&self, name: &str, count: usize) -> Result<Box<dyn FnMut()>, Box<dyn std::error::Error>> {
        let (ctx, remote) = (self.ctx, self.remote);
        let mut qp = self.qp(match name {
            "write" => QpKind::Uc,
            "read" => QpKind::Rc,
            _ => QpKind::Ud,
        })?;
        let dest = match name {
            "datagram" => Some(ctx.create_ah(&qp.export()?)?),
            _ => None,
        };
        let mut list = SendList::with_capacity(count, 64 * count);
        for n in 0..count {
            let remote = remote.at(64 * n);
            let wr = match name {
                "write" => SendWr::write(remote, list.inline(&[n as u8; BYTES])),
                "read" => SendWr::read(remote, self.mr.sge(64 * n, BYTES)),
                _ => SendWr::send_to(dest, list.inline(&[n as u8; BYTES])),
            };
            list.push(wr.signaled_if(n + 1 == count, WrId(n as u64)));
        }
        Ok(Box::new(move || {
            qp.post_send(ctx.cpu(), black_box(&list)).expect("taken");
        }))
    }

    fn recv(&self, count: usize) -> Result<Box<dyn FnMut()>, Box<dyn std::error::Error>> {
        let (ctx, mut qp) = (self.ctx, self.qp(QpKind::Rc)?);
        let mut list = RecvList::with_capacity(count);
        for n in 0..count {
            let sge = self.mr.sge(64 * n, BYTES);
            list.push(RecvWr {
                wr_id: WrId(n as u64),
                sge,
            });
        }
        Ok(Box::new(move || {
            qp.post_recv(ctx.cpu(), black_box(&list)).expect("taken");
        }))
    }

    fn poll(&self, count: usize) -> Result<Box<dyn FnMut()>, Box<dyn std::error::Error>> {
        let (ctx, mut cq) = (self.ctx, self.ctx.create_cq(64)?);
        let mut wcs = vec![Wc::default(); count];
        Ok(Box::new(move || {
            let got = cq.poll(ctx.cpu(), &mut wcs);
            let mut sum = 0;
            for wc in &wcs[..got] {
                assert_eq!(wc.status, WcStatus::Success);
                let imm = wc.imm.map_or(0, |imm| imm.0);
                sum += wc.wr_id.0 + wc.opcode as u64;
                sum += u64::from(wc.byte_len ^ imm ^ wc.qpn.0 ^ wc.src_qpn.0);
            }
            black_box(sum);
        }))
    }
}

type PostSend = extern "C" fn(*mut ffi::Qp, *mut ffi::SendWr, *mut *mut ffi::SendWr) -> i32;
type PostRecv = extern "C" fn(*mut ffi::Qp, *mut ffi::RecvWr, *mut *mut ffi::RecvWr) -> i32;
type PollCq = extern "C" fn(*mut ffi::Cq, i32, *mut ffi::Wc) -> i32;

/// Data of a request that a C program has when it posts.
#[derive(Clone, Copy)]
struct Asked {
    wr_id: u64,
    sge: ffi::Sge,
    rdma: ffi::Rdma,
}

fn asked<const N: usize>(from: u64, lkey: u32) -> [Asked; N] {
    std::array::from_fn(|n| {
        let (at, length) = (64 * n as u64, BYTES as u32);
        let addr = from + at;
        Asked {
            wr_id: n as u64,
            sge: ffi::Sge { addr, length, lkey },
            rdma: ffi::Rdma {
                remote_addr: at,
                rkey: 7,
            },
        }
    })
}

/// The bare variant of an operation. Its verb and list length are known at compile time.
fn bare<const N: usize>(name: &str) -> Box<dyn FnMut()> {
    let inline = ffi::SEND_INLINE;
    let rdma = |asked: &Asked| ffi::Target { rdma: asked.rdma };
    match name {
        "write" => Box::new(bare_post::<N>(ffi::WR_RDMA_WRITE, inline, rdma)),
        "read" => Box::new(bare_post::<N>(ffi::WR_RDMA_READ, 0, rdma)),
        "datagram" => {
            let ud = ffi::Ud {
                ah: black_box(null_mut()),
                remote_qpn: 7,
                remote_qkey: 9,
            };
            Box::new(bare_post::<N>(ffi::WR_SEND, inline, move |_| ffi::Target { ud }))
        }
        "recv" => Box::new(bare_recv::<N>()),
        _ => Box::new(bare_poll::<N>()),
    }
}

/// Fills in a chain and posts it as a C program would.
#[inline(always)]
fn bare_post<const N: usize>(opcode: u32, flags: u32, aim: impl Fn(&Asked) -> ffi::Target) -> impl FnMut() {
    let post = black_box(stub::idle::post_send as PostSend);
    let payload = vec![0u8; 64 * N];
    let asked = asked::<N>(payload.as_ptr() as u64, 0);
    let mut wrs = Box::new([ffi::SendWr::EMPTY; N]);
    let mut sges = Box::new([ffi::Sge::default(); N]);
    move || {
        let (first, asked) = (wrs.as_mut_ptr(), black_box(&asked));
        for (n, (wr, sge)) in wrs.iter_mut().zip(sges.iter_mut()).enumerate() {
            let last = n + 1 == N;
            *sge = asked[n].sge;
            wr.wr_id = asked[n].wr_id;
            wr.opcode = opcode;
            wr.send_flags = flags | if last { ffi::SEND_SIGNALED } else { 0 };
            wr.sg_list = sge;
            wr.num_sge = 1;
            wr.wr = aim(&asked[n]);
            wr.next = if last {
                null_mut()
            } else {
                first.wrapping_add(n + 1)
            };
        }
        let mut bad = null_mut();
        assert_eq!(post(null_mut(), black_box(first), &mut bad), 0);
    }
}

fn bare_recv<const N: usize>() -> impl FnMut() {
    let post = black_box(stub::idle::post_recv as PostRecv);
    let empty = ffi::RecvWr {
        wr_id: 0,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
    };
    let mut wrs = Box::new([empty; N]);
    let mut sges = Box::new([ffi::Sge::default(); N]);
    let asked = asked::<N>(0, 7);
    move || {
        let (first, asked) = (wrs.as_mut_ptr(), black_box(&asked));
        for (n, (wr, sge)) in wrs.iter_mut().zip(sges.iter_mut()).enumerate() {
            *sge = asked[n].sge;
            wr.wr_id = asked[n].wr_id;
            wr.sg_list = sge;
            wr.num_sge = 1;
            wr.next = if n + 1 == N {
                null_mut()
            } else {
                first.wrapping_add(n + 1)
            };
        }
        let mut bad = null_mut();
        assert_eq!(post(null_mut(), black_box(first), &mut bad), 0);
    }
}

fn bare_poll<const N: usize>() -> impl FnMut() {
    let poll = black_box(stub::idle::poll_cq as PollCq);
    let mut wcs = Box::new([ffi::Wc::default(); N]);
    move || {
        let got = poll(null_mut(), N as i32, black_box(wcs.as_mut_ptr()));
        let mut sum = 0;
        for wc in &wcs[..got as usize] {
            assert_eq!(wc.status, ffi::WC_SUCCESS);
            let imm = if wc.wc_flags & ffi::WC_WITH_IMM != 0 {
                u32::from_be(wc.imm_data)
            } else {
                0
            };
            sum += wc.wr_id + u64::from(wc.opcode);
            sum += u64::from(wc.byte_len ^ imm ^ wc.qp_num ^ wc.src_qp);
        }
        black_box(sum);
    }
}
