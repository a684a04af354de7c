//! The watch reports a queue pair whose requests do not complete, once, with the attributes its device reports.

use drover_base::{Cpu, Ns};
use drover_mem::PageWish;
use drover_verbs::*;
use drover_verbs_ibv::{Ibv, IbvContext, IbvCq, IbvDevice, IbvMr, IbvOptions, IbvQp};
use drover_verbs_ibv_stub as stub;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

pub(crate) struct Bed {
    pub(crate) device: IbvDevice,
    ctx: IbvContext,
    cq: IbvCq,
    mr: IbvMr,
    pub(crate) from: IbvQp,
    to: IbvQp,
}

/// A connection whose sender waits for ever for a RECV.
pub(crate) fn bed() -> Bed {
    patient_bed(Ns::from_s(5))
}

fn patient_bed(stuck_after: Ns) -> Bed {
    let mut options = IbvOptions::default();
    options.library = Some(stub::library());
    options.stuck_after = stuck_after;
    let device = IbvDevice::open(options).expect("a device");
    let ctx = device.context().expect("a context");
    let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::ALL).expect("registered");
    let cq = ctx.create_cq(16).expect("a queue");
    let qp = || {
        let mut options = QpOptions::<Ibv>::new(QpKind::Rc, &cq, ctx.caps());
        options.rnr_timeout = Ns::MAX;
        ctx.create_qp(&options).expect("a queue pair")
    };
    let (mut from, mut to) = (qp(), qp());
    let names = [&from, &to].map(|qp| qp.export().expect("an export"));
    from.connect(&names[1]).expect("connected");
    to.connect(&names[0]).expect("connected");
    Bed {
        device,
        ctx,
        cq,
        mr,
        from,
        to,
    }
}

impl Bed {
    pub(crate) fn send(&mut self, signaled: &[bool]) {
        let mut list = SendList::default();
        for &signaled in signaled {
            let payload = list.inline(b"anybody there");
            list.push(SendWr::send(payload).signaled_if(signaled, WrId(1)));
        }
        self.from.post_send(self.ctx.cpu(), &list).expect("taken");
    }

    pub(crate) fn receive(&mut self, count: usize) {
        let mut list = RecvList::default();
        for _ in 0..count {
            let (wr_id, sge) = (WrId(2), self.mr.sge(0, 64));
            list.push(RecvWr { wr_id, sge });
        }
        self.to.post_recv(self.ctx.cpu(), &list).expect("taken");
    }

    pub(crate) fn poll(&mut self) -> usize {
        self.cq.poll(self.ctx.cpu(), &mut [Wc::default(); 16])
    }

    pub(crate) fn arm(&self) {
        self.ctx.arm();
    }

    /// Numbers of the queue pairs that the second of two checks reports.
    fn look_twice(&self) -> Vec<Qpn> {
        let first = self.ctx.stuck(Ns::ZERO);
        assert!(first.is_empty(), "time counts from the first look");
        let second = self.ctx.stuck(Ns::ZERO);
        second.iter().map(|stuck| stuck.qpn).collect()
    }
}

#[test]
fn what_does_not_complete_is_told_once_in_words() {
    let mut bed = bed();
    bed.send(&[true, false, true]);
    assert!(bed.ctx.stuck(Ns::ZERO).is_empty());
    let stuck = bed.ctx.stuck(Ns::ZERO);
    let [stuck] = stuck.as_slice() else {
        panic!("one is stuck, not {}", stuck.len());
    };
    assert_eq!((stuck.qpn, stuck.outstanding), (bed.from.qpn(), 2));
    let (from, to) = (bed.from.qpn().0, bed.to.qpn().0);
    assert_eq!(
        stuck.to_string(),
        format!(
            "Rc queue pair {from:#x} of stub0 port 1 is stuck: 2 signaled requests outstanding, nothing completed for \
             0 ms; the device reports: RTS, peer {to:#x}, sq_psn 0x7, rq_psn 0x9, path MTU 1024, timeout 14, \
             retry_cnt 6, rnr_retry 7, min_rnr_timer 12, rd_atomic 16 out 16 in"
        )
    );
    assert!(bed.ctx.stuck(Ns::ZERO).is_empty(), "it is told once");
}

/// The log lines written while `wait` is called repeatedly, until there is one.
fn logged(mut wait: impl FnMut()) -> String {
    let log = Arc::new(Mutex::new(Vec::new()));
    let writer = log.clone();
    let lines = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || Log(writer.clone()));
    let _guard = tracing::subscriber::set_default(lines.finish());
    loop {
        wait();
        let log = log.lock().expect("nobody panicked");
        if !log.is_empty() {
            return String::from_utf8_lossy(&log).into_owned();
        }
    }
}

struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The program does not call [`IbvContext::stuck`] here: polling and sleeping contexts both log by themselves.
#[test]
fn waiting_programs_have_it_logged_by_themselves() {
    for sleeps in [false, true] {
        let mut bed = patient_bed(Ns::from_us(1));
        bed.send(&[true]);
        let text = logged(|| {
            bed.ctx.cpu().refresh();
            match sleeps {
                true => {
                    bed.ctx.arm();
                    bed.ctx.park(bed.ctx.cpu().now() + Ns::from_us(10));
                }
                false => assert_eq!(bed.poll(), 0),
            }
        });
        assert!(
            text.contains("is stuck: 1 signaled requests outstanding"),
            "{text}"
        );
        assert!(text.contains("WARN"), "{text}");
    }
}

#[test]
fn patience_is_kept() {
    let mut bed = bed();
    bed.send(&[true]);
    for _ in 0..3 {
        assert!(bed.ctx.stuck(Ns::MAX).is_empty());
    }
}

#[test]
fn completions_end_it_and_the_next_time_is_told_again() {
    let mut bed = bed();
    bed.send(&[true]);
    assert_eq!(bed.look_twice(), [bed.from.qpn()]);
    bed.receive(1);
    assert!(bed.poll() >= 1);
    assert_eq!(bed.look_twice(), []);
    bed.send(&[true]);
    assert_eq!(bed.look_twice(), [bed.from.qpn()]);
}

#[test]
fn progress_begins_the_time_anew() {
    let mut bed = bed();
    bed.send(&[true, true]);
    assert_eq!(bed.look_twice(), [bed.from.qpn()]);
    bed.receive(1);
    assert!(bed.poll() >= 1);
    assert_eq!(
        bed.look_twice(),
        [bed.from.qpn()],
        "the second request has none still"
    );
}

#[test]
fn what_is_not_signaled_and_what_has_failed_is_not_watched() {
    let mut bed = bed();
    bed.send(&[false, false]);
    assert_eq!(bed.look_twice(), []);
    bed.send(&[true]);
    bed.from.to_error();
    assert_eq!(bed.look_twice(), []);
}

#[test]
fn a_recv_is_no_request_that_gets_stuck() {
    let mut bed = bed();
    bed.receive(3);
    bed.send(&[true]);
    assert_eq!(bed.poll(), 2, "a SEND and a RECV");
    assert_eq!(bed.look_twice(), []);
}

#[test]
fn what_was_refused_is_not_waited_for() {
    let mut bed = bed();
    let refused = {
        let mut list = SendList::default();
        for _ in 0..129 {
            list.push(SendWr::send(Payload::EMPTY).signaled(WrId(1)));
        }
        bed.from
            .post_send(bed.ctx.cpu(), &list)
            .expect_err("one too many")
    };
    assert_eq!((refused.accepted, refused.kind), (128, PostErrorKind::QueueFull));
    bed.receive(128);
    while bed.poll() > 0 {}
    assert_eq!(bed.look_twice(), []);
}
