//! [`Player`]: plays a script on two ends of a fabric and records the results.

use crate::identical::script::{INLINE_MAX, Post, REGION, SOURCE, Verb, Wish};
use drover_base::{Cpu, Ns};
use drover_mem::PageWish;
use drover_verbs::*;
use drover_verbs_suite::conformance::TestBed;

/// Slots for RECVs, each longer than any message.
const RECVS: usize = 15;
const RECV_STRIDE: usize = 384;
/// Turns without a completion after which no more are expected.
const QUIET: usize = 30;

/// A queue pair and the objects it uses.
struct End<P: Provider> {
    ctx: P::Context,
    mr: P::Mr,
    cqs: [P::Cq; 2],
    qp: Option<P::Qp>,
    remote: RemoteRegion,
    dest: Option<UdDest>,
    broken: bool,
    /// Number of RECVs that no message has taken.
    recvs: usize,
}

pub struct Player<'a, B: TestBed> {
    bed: &'a B,
    kind: QpKind,
    ends: [End<B::Provider>; 2],
    told: Vec<String>,
    next_id: u64,
}

impl<'a, B: TestBed> Player<'a, B> {
    pub fn new(bed: &'a B, kind: QpKind) -> Player<'a, B> {
        let devices = bed.ends().expect("two devices");
        let mut ends: [End<B::Provider>; 2] = devices.map(|device| {
            let ctx = device.context().expect("a context");
            let region = ctx.alloc(REGION, PageWish::Small).expect("memory");
            let mr = ctx.register(&region, Access::ALL).expect("registered");
            let bytes: Vec<u8> = (0..REGION - SOURCE).map(|n| (n * 7 + 1) as u8).collect();
            mr.region().copy_in(SOURCE, &bytes);
            let cqs = [(); 2].map(|()| ctx.create_cq(512).expect("a completion queue"));
            End {
                ctx,
                mr,
                cqs,
                qp: None,
                remote: RemoteRegion {
                    rkey: 0,
                    len: 0,
                    access: Access::ALL,
                },
                dest: None,
                broken: false,
                recvs: 0,
            }
        });
        let exports = ends.each_ref().map(|end| end.mr.export(&[]).expect("an export"));
        for (end, export) in ends.iter_mut().zip(exports.iter().rev()) {
            end.remote = end.ctx.import_region(export).expect("imported");
        }
        let mut player = Player {
            bed,
            kind,
            ends,
            told: Vec::new(),
            next_id: 0,
        };
        player.connect();
        player
    }

    /// Creates new queue pairs in place of the old ones.
    fn connect(&mut self) {
        let kind = self.kind;
        for end in &mut self.ends {
            end.qp = None;
        }
        self.rest();
        let qps = self.ends.each_ref().map(|end| {
            let mut options = QpOptions::new(kind, &end.cqs[0], end.ctx.caps());
            options.recv_cq = &end.cqs[1];
            (options.send_depth, options.recv_depth) = (64, 64);
            (options.inline_bytes, options.rnr_timeout) = (INLINE_MAX, Ns::MAX);
            end.ctx.create_qp(&options).expect("a queue pair")
        });
        let exports = qps.each_ref().map(|qp| qp.export().expect("an export"));
        let exports = exports.iter().rev();
        for ((end, mut qp), there) in self.ends.iter_mut().zip(qps).zip(exports) {
            match kind {
                QpKind::Ud => end.dest = Some(end.ctx.create_ah(there).expect("an address")),
                QpKind::Rc | QpKind::Uc => qp.connect(there).expect("connected"),
            }
            (end.qp, end.broken, end.recvs) = (Some(qp), false, 0);
        }
    }

    /// Takes completions until no more arrive, and records each.
    fn rest(&mut self) {
        let mut quiet = 0;
        // Completions of one queue come in order; those of different queues are not comparable.
        let mut seen: [[Vec<Wc>; 2]; 2] = Default::default();
        while quiet < QUIET {
            self.bed.progress();
            quiet += 1;
            for (end, seen) in self.ends.iter_mut().zip(&mut seen) {
                end.ctx.cpu().refresh();
                for (cq, seen) in end.cqs.iter_mut().zip(seen) {
                    let mut wcs = [Wc::default(); 4];
                    let count = cq.poll(end.ctx.cpu(), &mut wcs);
                    for wc in &wcs[..count] {
                        quiet = 0;
                        let message = matches!(wc.opcode, Opcode::Recv | Opcode::RecvWriteImm);
                        end.recvs -= usize::from(message && wc.status == WcStatus::Success);
                        end.broken |= wc.status != WcStatus::Success;
                        seen.push(*wc);
                    }
                }
            }
        }
        for (who, queues) in seen.into_iter().enumerate() {
            for (queue, seen) in ["sent", "received"].into_iter().zip(queues) {
                let lines = seen
                    .iter()
                    .map(|wc| format!("{who} {queue} {}", self.tell(who, wc)));
                let lines: Vec<String> = lines.collect();
                self.told.extend(lines);
            }
        }
    }

    /// The part of a completion on which all fabrics must agree, with the bytes received.
    fn tell(&self, who: usize, wc: &Wc) -> String {
        let (id, opcode, len) = (wc.wr_id.0, wc.opcode, wc.byte_len as usize);
        match (wc.status, opcode) {
            (WcStatus::Success, Opcode::Recv) => {
                let gap = if self.kind == QpKind::Ud { GRH_BYTES } else { 0 };
                let bytes = self.sum(who, place(id) + gap, len - gap);
                format!("{id} {opcode:?} {len} B {:?}, bytes {bytes:x}", wc.imm)
            }
            (WcStatus::Success, Opcode::RecvWriteImm) => format!("{id} {opcode:?} {len} B {:?}", wc.imm),
            (WcStatus::Success, Opcode::Read) => format!("{id} {opcode:?} {len} B"),
            (WcStatus::Success, _) => format!("{id} {opcode:?}"),
            (status, _) => format!("{id} {status:?}"),
        }
    }

    /// A checksum of bytes of an end's memory.
    fn sum(&self, who: usize, at: usize, len: usize) -> u64 {
        let mut bytes = vec![0; len];
        self.ends[who].mr.region().copy_out(at, &mut bytes);
        bytes
            .iter()
            .fold(len as u64, |sum, byte| drover_base::mix(sum ^ u64::from(*byte)))
    }

    fn post(&mut self, who: usize, post: &Post) {
        self.next_id += 100;
        let (id, end) = (self.next_id, &mut self.ends[who]);
        let qp = end.qp.as_mut().expect("connected");
        let posted = match post {
            Post::Recv { len } => {
                let mut list = RecvList::default();
                list.push(RecvWr {
                    wr_id: WrId(id),
                    sge: end.mr.sge(place(id), *len),
                });
                let posted = qp.post_recv(end.ctx.cpu(), &list);
                end.recvs += usize::from(posted.is_ok());
                posted
            }
            Post::Send(wishes) => {
                let mut list = SendList::default();
                let mut fetching = false;
                for (n, wish) in wishes.iter().enumerate() {
                    let mut wr = request(wish, id + n as u64, &end.mr, end.remote, end.dest, &mut list);
                    // Without a fence, a request after a READ or an atomic may be executed before it.
                    wr.fence = fetching;
                    fetching |= !matches!(wish.verb, Verb::Send { .. } | Verb::Write { .. });
                    list.push(wr);
                }
                qp.post_send(end.ctx.cpu(), &list)
            }
        };
        if let Err(error) = posted {
            self.told.push(format!("{who} refused {id}: {error}"));
        }
    }

    /// Posts a list up to its first message. That message has a RECV, unless it may be lost completely.
    fn post_list(&mut self, who: usize, wishes: &[Wish]) {
        let message = wishes.iter().position(Wish::is_message);
        let wishes = &wishes[..message.map_or(wishes.len(), |at| at + 1)];
        let may_be_lost = |wish: &Wish| self.kind == QpKind::Uc && matches!(wish.verb, Verb::Send { .. });
        let needs = message.is_some_and(|at| !may_be_lost(&wishes[at]));
        if needs && self.ends[1 - who].recvs == 0 {
            self.post(1 - who, &Post::Recv { len: 300 });
        }
        self.post(who, &Post::Send(wishes.to_vec()));
    }

    pub fn play(mut self, script: &[(usize, Post)]) -> Vec<String> {
        for (who, post) in script {
            match post {
                Post::Send(wishes) if self.kind != QpKind::Ud => self.post_list(*who, wishes),
                post => self.post(*who, post),
            }
            self.rest();
            if self.ends.iter().any(|end| end.broken) {
                let who = usize::from(!self.ends[0].broken);
                self.post(who, &Post::Recv { len: 64 });
                self.rest();
                self.connect();
            }
        }
        // The bytes before a datagram are specific to the fabric.
        if self.kind != QpKind::Ud {
            for (who, at) in [0, 1]
                .into_iter()
                .flat_map(|who| (0..REGION).step_by(64).map(move |at| (who, at)))
            {
                let line = format!("{who} holds {:x} from {at} on", self.sum(who, at, 64));
                self.told.push(line);
            }
        }
        self.told
    }
}

/// Offset of the RECV of an id.
fn place(id: u64) -> usize {
    (id / 100) as usize % RECVS * RECV_STRIDE
}

fn request<M: MemoryRegion>(
    wish: &Wish,
    id: u64,
    mr: &M,
    there: RemoteRegion,
    dest: Option<UdDest>,
    list: &mut SendList,
) -> SendWr {
    let imm = |imm: Option<u32>| imm.map(Imm);
    let remote = |at: usize| there.at(at);
    let (op, into) = match wish.verb {
        Verb::Send { imm: i } => (SendOp::Send { dest, imm: imm(i) }, None),
        Verb::Write { at, imm: i } => {
            let (remote, imm) = (remote(at), imm(i));
            (SendOp::Write { remote, imm }, None)
        }
        Verb::Read { at, into } => (SendOp::Read { remote: remote(at) }, Some(into)),
        Verb::Cas { at, compare } => {
            let (remote, swap) = (remote(at), compare + 1);
            (
                SendOp::CompareSwap {
                    remote,
                    compare,
                    swap,
                },
                Some(4000),
            )
        }
        Verb::Faa { at, add } => (
            SendOp::FetchAdd {
                remote: remote(at),
                add,
            },
            Some(SOURCE - 8),
        ),
    };
    let source = SOURCE + id as usize % 97 * 8;
    let payload = match (into, wish.inline) {
        (Some(into), _) => Payload::Region(mr.sge(into, wish.len)),
        (None, false) => Payload::Region(mr.sge(source, wish.len)),
        (None, true) => list.inline_with(wish.len, |to| mr.region().copy_out(source, to)),
    };
    SendWr::new(op, payload).signaled_if(wish.signaled, WrId(id))
}
