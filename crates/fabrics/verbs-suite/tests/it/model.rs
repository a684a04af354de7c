//! Random scripts of verbs on two ends: the reference provider against a plain model of two byte arrays.
#![allow(missing_docs, reason = "test names say it")]

use drover_base::Ns;
use drover_mem::PageWish;
use drover_verbs::*;
use drover_verbs_suite::loopback::{
    Flaw, Loopback, LoopbackContext, LoopbackCq, LoopbackDevice, LoopbackMr, LoopbackOptions, LoopbackQp,
};
use proptest::prelude::*;
use proptest::test_runner::{TestRng, TestRunner};
use std::collections::VecDeque;

/// Length of each end's region.
const BYTES: usize = 4096;

#[derive(Clone, Copy, Debug)]
enum Verb {
    Write {
        at: usize,
        len: usize,
        fill: u8,
    },
    Read {
        at: usize,
        into: usize,
        len: usize,
    },
    Cas {
        at: usize,
        compare: u64,
        swap: u64,
        into: usize,
    },
    Faa {
        at: usize,
        add: u64,
        into: usize,
    },
    Send {
        len: usize,
        fill: u8,
    },
    Recv {
        at: usize,
        len: usize,
    },
}

/// Contents of a completion: request, status, length.
type Seen = (u64, WcStatus, u32);

// ---------------------------------------------------------------------------------------------- the model

struct Side {
    bytes: Vec<u8>,
    recvs: VecDeque<(u64, usize, usize)>,
    waiting: VecDeque<(u64, Verb)>,
    broken: bool,
    sent: Vec<Seen>,
    received: Vec<Seen>,
}

struct Model {
    reliable: bool,
    sides: [Side; 2],
}

impl Model {
    fn new(reliable: bool) -> Model {
        let side = || Side {
            bytes: vec![0; BYTES],
            recvs: VecDeque::new(),
            waiting: VecDeque::new(),
            broken: false,
            sent: Vec::new(),
            received: Vec::new(),
        };
        Model {
            reliable,
            sides: [side(), side()],
        }
    }

    fn post(&mut self, who: usize, id: u64, verb: Verb) {
        match verb {
            Verb::Recv { at, len } => self.sides[who].recvs.push_back((id, at, len)),
            _ => self.sides[who].waiting.push_back((id, verb)),
        }
        while self.step(0) || self.step(1) {}
    }

    /// Attempts the first waiting request of an end; returns whether anything happened.
    fn step(&mut self, who: usize) -> bool {
        if self.sides[who].broken {
            return self.flush(who);
        }
        let Some(&(id, verb)) = self.sides[who].waiting.front() else {
            return false;
        };
        let outcome = match self.sides[1 - who].broken {
            true => Some(Err(WcStatus::RetryExceeded)),
            false => self.carry_out(who, verb),
        };
        let (status, len) = match outcome {
            None if self.reliable => return false,
            Some(Ok(len)) => (WcStatus::Success, len),
            Some(Err(status)) if self.reliable => (status, 0),
            None | Some(Err(_)) => (WcStatus::Success, 0),
        };
        self.sides[who].waiting.pop_front();
        self.sides[who].sent.push((id, status, len));
        self.sides[who].broken = status != WcStatus::Success;
        true
    }

    fn flush(&mut self, who: usize) -> bool {
        let side = &mut self.sides[who];
        let any = !(side.waiting.is_empty() && side.recvs.is_empty());
        side.sent
            .extend(side.waiting.drain(..).map(|(id, _)| (id, WcStatus::Flushed, 0)));
        side.received
            .extend(side.recvs.drain(..).map(|(id, ..)| (id, WcStatus::Flushed, 0)));
        any
    }

    /// Executes `verb`; `None` if there is no RECV.
    fn carry_out(&mut self, who: usize, verb: Verb) -> Option<Result<u32, WcStatus>> {
        let reliable = self.reliable;
        let [first, second] = &mut self.sides;
        let (here, there) = if who == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let inside = |at: usize, len: usize| at + len <= BYTES;
        Some(match verb {
            Verb::Write { at, len, fill } if inside(at, len) => {
                there.bytes[at..at + len].fill(fill);
                Ok(0)
            }
            Verb::Read { at, into, len } if inside(at, len) => {
                here.bytes[into..into + len].copy_from_slice(&there.bytes[at..at + len]);
                Ok(len as u32)
            }
            Verb::Cas { at, .. } | Verb::Faa { at, .. } if inside(at, 8) && at % 8 != 0 => {
                Err(WcStatus::RemoteInvalidRequest)
            }
            Verb::Cas { at, into, .. } | Verb::Faa { at, into, .. } if inside(at, 8) => {
                let old = u64::from_ne_bytes(there.bytes[at..at + 8].try_into().expect("8 bytes"));
                let new = match verb {
                    Verb::Cas { compare, swap, .. } if old == compare => swap,
                    Verb::Faa { add, .. } => old.wrapping_add(add),
                    _ => old,
                };
                there.bytes[at..at + 8].copy_from_slice(&new.to_ne_bytes());
                here.bytes[into..into + 8].copy_from_slice(&old.to_ne_bytes());
                Ok(8)
            }
            Verb::Send { len, fill } => {
                let (id, at, space) = *there.recvs.front()?;
                if len > space {
                    if reliable {
                        there.recvs.pop_front();
                        there.received.push((id, WcStatus::LocalLength, 0));
                        there.broken = true;
                    }
                    return Some(Err(WcStatus::RemoteInvalidRequest));
                }
                there.recvs.pop_front();
                there.bytes[at..at + len].fill(fill);
                there.received.push((id, WcStatus::Success, len as u32));
                Ok(0)
            }
            _ => Err(WcStatus::RemoteAccess),
        })
    }
}

// ------------------------------------------------------------------------------------------- the real thing

struct End {
    ctx: LoopbackContext,
    cqs: [LoopbackCq; 2],
    qp: LoopbackQp,
    mr: LoopbackMr,
    remote: RemoteRegion,
    sent: Vec<Seen>,
    received: Vec<Seen>,
}

impl End {
    fn post(&mut self, id: u64, verb: Verb) {
        if let Verb::Recv { at, len } = verb {
            let mut list = RecvList::default();
            list.push(RecvWr {
                wr_id: WrId(id),
                sge: self.mr.sge(at, len),
            });
            return self.qp.post_recv(self.ctx.cpu(), &list).expect("post");
        }
        let mut list = SendList::default();
        let (op, payload) = match verb {
            Verb::Write { at, len, fill } => {
                let remote = self.remote.at(at);
                (SendOp::Write { remote, imm: None }, list.inline(&vec![fill; len]))
            }
            Verb::Read { at, into, len } => {
                let remote = self.remote.at(at);
                (SendOp::Read { remote }, Payload::Region(self.mr.sge(into, len)))
            }
            Verb::Cas {
                at,
                compare,
                swap,
                into,
            } => {
                let remote = self.remote.at(at);
                (
                    SendOp::CompareSwap {
                        remote,
                        compare,
                        swap,
                    },
                    Payload::Region(self.mr.sge(into, 8)),
                )
            }
            Verb::Faa { at, add, into } => {
                let remote = self.remote.at(at);
                (
                    SendOp::FetchAdd { remote, add },
                    Payload::Region(self.mr.sge(into, 8)),
                )
            }
            Verb::Send { len, fill } => (
                SendOp::Send {
                    dest: None,
                    imm: None,
                },
                list.inline(&vec![fill; len]),
            ),
            Verb::Recv { .. } => unreachable!("posted above"),
        };
        list.push(SendWr::new(op, payload).signaled(WrId(id)));
        self.qp.post_send(self.ctx.cpu(), &list).expect("post");
    }

    fn poll(&mut self) {
        let mut wcs = [Wc::default(); 8];
        for (cq, seen) in self.cqs.iter_mut().zip([&mut self.sent, &mut self.received]) {
            loop {
                let count = cq.poll(self.ctx.cpu(), &mut wcs);
                seen.extend(wcs[..count].iter().map(|wc| (wc.wr_id.0, wc.status, length(wc))));
                if count == 0 {
                    break;
                }
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.mr.region().copy_out(0, &mut bytes);
        bytes
    }
}

/// The length is valid only on success.
fn length(wc: &Wc) -> u32 {
    if wc.status == WcStatus::Success {
        wc.byte_len
    } else {
        0
    }
}

fn two_ends(kind: QpKind, flaw: Option<Flaw>) -> [End; 2] {
    let device = LoopbackDevice::with_options(LoopbackOptions {
        flaw,
        ..LoopbackOptions::default()
    });
    let mut ends = [(); 2].map(|()| {
        let ctx = device.context().expect("context");
        let cqs = [(); 2].map(|()| ctx.create_cq(256).expect("completion queue"));
        let mut options = QpOptions::<Loopback>::new(kind, &cqs[0], ctx.caps());
        options.recv_cq = &cqs[1];
        options.rnr_timeout = Ns::MAX;
        let qp = ctx.create_qp(&options).expect("queue pair");
        let region = ctx.alloc(BYTES, PageWish::Small).expect("memory");
        let mr = ctx.register(&region, Access::ALL).expect("register");
        let remote = RemoteRegion {
            rkey: 0,
            len: 0,
            access: Access::ALL,
        };
        End {
            ctx,
            cqs,
            qp,
            mr,
            remote,
            sent: Vec::new(),
            received: Vec::new(),
        }
    });
    let exports = [0, 1].map(|i| {
        let end: &End = &ends[i];
        (
            end.qp.export().expect("export"),
            end.mr.export(&[]).expect("export"),
        )
    });
    for (end, (qp, mr)) in ends.iter_mut().zip(exports.iter().rev()) {
        end.qp.connect(qp).expect("connect");
        end.remote = end.ctx.import_region(mr).expect("import");
    }
    ends
}

// ------------------------------------------------------------------------------------------------ scripts

/// Most offsets are near the start; one in twenty is at or beyond the end of the region.
fn offset() -> impl Strategy<Value = usize> {
    prop_oneof![19 => 0usize..96, 1 => BYTES - 40..BYTES + 8]
}

fn word() -> impl Strategy<Value = usize> {
    prop_oneof![29 => (0usize..12).prop_map(|i| i * 8), 1 => offset()]
}

fn verb(kind: QpKind) -> BoxedStrategy<Verb> {
    let local = 0usize..128;
    let len = 0usize..40;
    let write = (offset(), 1usize..40, any::<u8>()).prop_map(|(at, len, fill)| Verb::Write { at, len, fill });
    let send = (len.clone(), any::<u8>()).prop_map(|(len, fill)| Verb::Send { len, fill });
    let space = prop_oneof![9 => Just(48usize), 1 => len.clone()];
    let recv = (local.clone(), space).prop_map(|(at, len)| Verb::Recv { at, len });
    let read = (offset(), local.clone(), 1usize..40).prop_map(|(at, into, len)| Verb::Read { at, into, len });
    let small = || prop_oneof![3 => 0u64..3, 1 => any::<u64>()];
    let cas = (word(), small(), small(), local.clone()).prop_map(|(at, compare, swap, into)| Verb::Cas {
        at,
        compare,
        swap,
        into,
    });
    let faa = (word(), small(), local).prop_map(|(at, add, into)| Verb::Faa { at, add, into });
    match kind {
        QpKind::Rc => prop_oneof![3 => write, 3 => send, 4 => recv, 2 => read, 2 => cas, 2 => faa].boxed(),
        _ => prop_oneof![3 => write, 3 => send, 3 => recv].boxed(),
    }
}

fn script(kind: QpKind) -> impl Strategy<Value = Vec<(bool, Verb)>> {
    prop::collection::vec((any::<bool>(), verb(kind)), 1..50)
}

fn check(kind: QpKind, flaw: Option<Flaw>, script: &[(bool, Verb)]) -> Result<(), TestCaseError> {
    let mut model = Model::new(kind == QpKind::Rc);
    let mut ends = two_ends(kind, flaw);
    for (id, &(second, verb)) in script.iter().enumerate() {
        let who = usize::from(second);
        model.post(who, id as u64, verb);
        ends[who].post(id as u64, verb);
        for _ in 0..2 {
            ends.iter_mut().for_each(End::poll);
        }
        for (end, side) in ends.iter().zip(&model.sides) {
            prop_assert_eq!(&end.sent, &side.sent, "completions of sends after step {}", id);
            prop_assert_eq!(
                &end.received,
                &side.received,
                "completions of RECVs after step {}",
                id
            );
            prop_assert!(end.bytes() == side.bytes, "bytes after step {}", id);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn rc_scripts_agree_with_the_model(script in script(QpKind::Rc)) {
        check(QpKind::Rc, None, &script)?;
    }

    #[test]
    fn uc_scripts_agree_with_the_model(script in script(QpKind::Uc)) {
        check(QpKind::Uc, None, &script)?;
    }
}

/// The canary: the same scripts distinguish a broken provider from a correct one.
#[test]
fn flawed_providers_disagree_with_the_model() {
    let rc = [
        Flaw::WritesWholeWords,
        Flaw::ReadsShort,
        Flaw::TakesLastRecv,
        Flaw::LosesEarlySends,
        Flaw::CasAlwaysSwaps,
        Flaw::FaaSaturates,
        Flaw::AtomicsRoundDown,
        Flaw::IgnoresBounds,
        Flaw::SurvivesFailure,
        Flaw::CutsLongMessages,
        Flaw::FlushesInReverse,
        Flaw::WorksAfterError,
    ];
    let uc = [
        Flaw::UcWaitsForRecv,
        Flaw::UcReportsRefusals,
        Flaw::CutsLongMessages,
    ];
    let rc = rc.map(|flaw| (QpKind::Rc, flaw));
    for (kind, flaw) in rc.into_iter().chain(uc.map(|flaw| (QpKind::Uc, flaw))) {
        let config = ProptestConfig {
            cases: 600,
            max_shrink_iters: 0,
            ..ProptestConfig::default()
        };
        let rng = TestRng::deterministic_rng(config.rng_algorithm);
        let disagreed = TestRunner::new_with_rng(config, rng)
            .run(&script(kind), |script| check(kind, Some(flaw), &script));
        assert!(disagreed.is_err(), "no script noticed {flaw:?}");
    }
}
