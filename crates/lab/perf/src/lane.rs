//! [`Lane`]: the two directions of a ping-pong: send a message, detect the other end's.

use crate::{End, LOOK, PerfError, Verb};
use drover_base::Cpu;
use drover_verbs::{
    CompletionQueue, MemoryRegion, Provider, QueuePair, SendList, SendOp, SendWr, Wc, WcStatus, WrId,
};
use std::sync::atomic::Ordering;

/// An end that exchanges messages of one size, one at a time.
pub(crate) struct Lane<P: Provider> {
    end: End<P>,
    bytes: usize,
    list: SendList,
    /// Number of messages sent; its low byte is the last byte of the message.
    sent: u64,
    /// Number of messages received.
    come: u64,
    signal_every: u64,
    /// Signaled requests whose completions have not been polled.
    owed: usize,
    /// Polls without result.
    idle: u32,
}

/// Polls without result between two polls for failed sends.
const LOOK_EVERY: u32 = 1 << 10;

/// The first failure among `got` completions.
#[inline]
pub(crate) fn check(wcs: &[Wc]) -> Result<(), PerfError> {
    for wc in wcs {
        if wc.status != WcStatus::Success {
            return Err(failed(wc));
        }
    }
    Ok(())
}

#[cold]
fn failed(wc: &Wc) -> PerfError {
    let Wc { opcode, status, .. } = *wc;
    PerfError::Completion { opcode, status }
}

impl<P: Provider> Lane<P> {
    pub(crate) fn new(end: End<P>, bytes: usize) -> Lane<P> {
        // Numbers restart with every size, and so does the polled byte.
        end.mr.region().store_u64(end.half - 8, 0, Ordering::Relaxed);
        Lane {
            signal_every: end.plan.signal_every(),
            list: SendList::with_capacity(1, bytes.max(64)),
            end,
            bytes,
            sent: 0,
            come: 0,
            owed: 0,
            idle: 0,
        }
    }

    pub(crate) fn into_end(self) -> End<P> {
        self.end
    }

    /// Sends the next message.
    #[inline]
    pub(crate) fn send(&mut self, cpu: &P::Cpu) -> Result<(), PerfError> {
        if self.owed > 0 {
            self.reap(cpu)?;
        }
        self.sent += 1;
        let (end, last) = (&mut self.end, self.sent as u8);
        let op = match end.plan.op.verb {
            Verb::Send => SendOp::Send {
                dest: end.dest,
                imm: None,
            },
            _ => {
                let remote = end.remote.expect("connected before it sends");
                SendOp::Write {
                    remote: remote.at(end.landing(self.bytes)),
                    imm: None,
                }
            }
        };
        if self.bytes > end.plan.inline_bytes as usize {
            let word = u64::from(last) << 56;
            end.mr
                .region()
                .store_u64(2 * end.half - 8, word, Ordering::Relaxed);
        }
        let signaled = self.sent.is_multiple_of(self.signal_every);
        self.owed += usize::from(signaled);
        self.list.clear();
        let payload = end.payload(&mut self.list, self.bytes, last);
        self.list
            .push(SendWr::new(op, payload).signaled_if(signaled, WrId(0)));
        Ok(end.qp.post_send(cpu, &self.list)?)
    }

    /// Polls completions of sent messages.
    fn reap(&mut self, cpu: &P::Cpu) -> Result<(), PerfError> {
        let mut wcs = [Wc::default(); 4];
        let got = self.end.send_cq.poll(cpu, &mut wcs);
        self.owed -= got.min(self.owed);
        check(&wcs[..got])
    }

    /// Whether the other end's next message has arrived. After many polls without result, checks whether a send has
    /// failed.
    #[inline]
    pub(crate) fn arrived(&mut self, cpu: &P::Cpu) -> Result<bool, PerfError> {
        let arrived = match self.end.plan.op.verb {
            Verb::Send => self.received(cpu)?,
            _ => self.written(cpu),
        };
        if !arrived {
            self.idle = self.idle.wrapping_add(1);
            if self.idle.is_multiple_of(LOOK_EVERY) {
                self.reap(cpu)?;
            }
        }
        Ok(arrived)
    }

    #[inline]
    fn written(&mut self, cpu: &P::Cpu) -> bool {
        cpu.charge(LOOK, 1);
        let word = self
            .end
            .mr
            .region()
            .load_u64(self.end.half - 8, Ordering::Acquire);
        let arrived = (word >> 56) as u8 == (self.come + 1) as u8;
        self.come += u64::from(arrived);
        arrived
    }

    #[inline]
    fn received(&mut self, cpu: &P::Cpu) -> Result<bool, PerfError> {
        let mut wcs = [Wc::default(); 1];
        let got = self.end.recv_cq.poll(cpu, &mut wcs);
        if got == 0 {
            return Ok(false);
        }
        check(&wcs)?;
        self.end.spent += 1;
        self.come += 1;
        Ok(true)
    }

    /// Does what can be done while the other end works: RECVs for later messages, completions of earlier ones.
    #[inline]
    pub(crate) fn tidy(&mut self, cpu: &P::Cpu) -> Result<(), PerfError> {
        if self.end.spent > 0 {
            let enough = self.end.plan.rx_depth as usize / 2;
            self.end.renew_recvs(cpu, enough.max(1))?;
        }
        Ok(())
    }
}
