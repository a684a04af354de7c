//! [`Issuer`] and [`Sink`]: keeps a queue full of requests, and receives them.

use crate::fetch::fetching;
use crate::goal::Goal;
use crate::lane::check;
use crate::{End, Found, IDLE, Outcome, PerfError, Verb};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_verbs::{
    CompletionQueue, MemoryRegion, Payload, Provider, QueuePair, SendList, SendOp, SendWr, Wc, WrId,
};

/// Maximum completions per poll.
const POLL: usize = 16;

/// Actor of the measuring end in a rate test: posts a list of [`post_list`](crate::Plan::post_list) requests whenever
/// the send queue has space for all of them, and counts completions.
pub struct Issuer<P: Provider> {
    end: End<P>,
    bytes: usize,
    list: SendList,
    goal: Goal,
    clock: Option<Clock>,
    posted: u64,
    done: u64,
    unsignaled: u64,
    signal_every: u64,
    /// Result, held back until all outstanding requests have completed, so that the end can be reused.
    found: Option<Found>,
    outcome: Outcome,
}

/// Times of a rate measurement.
struct Clock {
    /// Start time of counting, and the count at that time.
    began: (Ns, u64),
    /// Start time and count of the current stretch.
    mark: (Ns, u64),
    /// Highest rate of a stretch, requests per second.
    peak: f64,
}

impl<P: Provider> Issuer<P> {
    /// Creates an issuer that posts requests of `bytes` bytes (up to the plan's largest size; atomics: 8) on `end`,
    /// which must be connected. When it has measured enough and all its requests have completed, it stores its result
    /// in `outcome`.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Issuer<P> {
        let count = end.plan.post_list as usize;
        Issuer {
            goal: Goal::new(&end.plan),
            list: SendList::with_capacity(count, count * bytes.min(end.plan.inline_bytes as usize)),
            signal_every: end.plan.signal_every(),
            end,
            bytes,
            clock: None,
            posted: 0,
            done: 0,
            unsignaled: 0,
            found: None,
            outcome,
        }
    }

    /// Returns the end, for another measurement.
    pub fn into_end(self) -> End<P> {
        self.end
    }

    /// Number of requests posted so far, warm-up included.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    #[inline]
    fn turn(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        let collected = self.posted > self.done && self.collect(cpu)?;
        if self.found.is_some() {
            return self.finish(cpu);
        }
        let count = self.allowed();
        if count > 0 {
            self.post(cpu, count)?;
        }
        Ok(if collected || count > 0 {
            Progress::Busy
        } else {
            IDLE
        })
    }

    /// Waits for all posted requests; if the last ones are unsignaled, posts one more.
    #[cold]
    fn finish(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        if self.posted == self.done {
            self.outcome
                .leave(Ok(self.found.take().expect("finished with something")));
        } else if self.unsignaled > 0 && self.posted - self.done < u64::from(self.end.plan.tx_depth) {
            self.signal_every = 1;
            self.post(cpu, 1)?;
            return Ok(Progress::Busy);
        }
        Ok(IDLE)
    }

    /// Polls completions. Returns whether there were any.
    #[inline]
    fn collect(&mut self, cpu: &P::Cpu) -> Result<bool, PerfError> {
        let mut wcs = [Wc::default(); POLL];
        let got = self.end.send_cq.poll(cpu, &mut wcs);
        if got == 0 {
            return Ok(false);
        }
        check(&wcs[..got])?;
        self.done += wcs[..got].iter().map(|wc| wc.wr_id.0).sum::<u64>();
        let now = cpu.refresh();
        if self.found.is_none() {
            self.note(now);
        }
        Ok(true)
    }

    /// Records the number of completions at `now`.
    fn note(&mut self, now: Ns) {
        if self.done < self.goal.warm_up() {
            return;
        }
        let depth = u64::from(self.end.plan.tx_depth);
        let clock = self.clock.get_or_insert(Clock {
            began: (now, self.done),
            mark: (now, self.done),
            peak: 0.0,
        });
        let (from, count) = clock.mark;
        if self.done - count >= depth && now > from {
            clock.peak = clock.peak.max(per_second(self.done - count, now.since(from)));
            clock.mark = (now, self.done);
        }
        let (began, before) = clock.began;
        let (time, count) = (now.since(began), self.done - before);
        if self.goal.is_enough(count, time) {
            let peak = clock.peak.max(per_second(count, time));
            self.found = Some(Found::Rate { count, time, peak });
        }
    }

    /// Number of requests to post now: a whole list, none, or the rest of the last list.
    #[inline]
    fn allowed(&self) -> u64 {
        let plan = &self.end.plan;
        let space = u64::from(plan.tx_depth) - (self.posted - self.done);
        let list = u64::from(plan.post_list);
        if space < list { 0 } else { list }
    }

    #[inline]
    fn post(&mut self, cpu: &P::Cpu, count: u64) -> Result<(), PerfError> {
        self.list.clear();
        for _ in 0..count {
            self.unsignaled += 1;
            let covers = self.unsignaled;
            let signaled = covers >= self.signal_every;
            if signaled {
                self.unsignaled = 0;
            }
            let (op, payload) = self.request();
            self.list
                .push(SendWr::new(op, payload).signaled_if(signaled, WrId(covers)));
        }
        self.posted += count;
        Ok(self.end.qp.post_send(cpu, &self.list)?)
    }

    #[inline]
    fn request(&mut self) -> (SendOp, Payload) {
        let (end, bytes) = (&mut self.end, self.bytes);
        match end.plan.op.verb {
            Verb::Send => {
                let op = SendOp::Send {
                    dest: end.dest,
                    imm: None,
                };
                (op, end.payload(&mut self.list, bytes, 0))
            }
            Verb::Write => {
                let remote = end.remote.expect("connected before it measures");
                let op = SendOp::Write {
                    remote: remote.at(end.landing(bytes)),
                    imm: None,
                };
                (op, end.payload(&mut self.list, bytes, 0))
            }
            Verb::Read | Verb::Atomic => {
                let sge = end.mr.sge(end.outgoing(bytes), bytes);
                (fetching(end, bytes), Payload::Region(sge))
            }
        }
    }
}

/// Requests per second.
pub(crate) fn per_second(count: u64, time: Ns) -> f64 {
    count as f64 * 1e9 / time.0.max(1) as f64
}

impl<P: Provider> Actor<P::Cpu> for Issuer<P> {
    #[inline]
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        if self.outcome.is_done() {
            return IDLE;
        }
        let turn = self.turn(cpu);
        self.outcome.after(turn)
    }
}

/// Actor of the receiving end in a rate test of SEND: counts messages and posts RECVs again.
pub struct Sink<P: Provider> {
    end: End<P>,
    received: u64,
    outcome: Outcome,
}

impl<P: Provider> Sink<P> {
    /// Creates a receiver on `end`, which must be connected. It never finishes: it stores only an error, if one occurs,
    /// in `outcome`.
    pub fn new(end: End<P>, outcome: Outcome) -> Sink<P> {
        Sink {
            end,
            received: 0,
            outcome,
        }
    }

    /// Returns the end, for another measurement.
    pub fn into_end(self) -> End<P> {
        self.end
    }

    /// Number of messages received since this sink was created, warm-up included.
    pub fn received(&self) -> u64 {
        self.received
    }

    #[inline]
    fn turn(&mut self, cpu: &P::Cpu) -> Result<Progress, PerfError> {
        let mut wcs = [Wc::default(); POLL];
        let got = self.end.recv_cq.poll(cpu, &mut wcs);
        if got == 0 {
            return Ok(IDLE);
        }
        check(&wcs[..got])?;
        self.received += got as u64;
        self.end.spent += got;
        self.end.renew_recvs(cpu, 1)?;
        Ok(Progress::Busy)
    }
}

impl<P: Provider> Actor<P::Cpu> for Sink<P> {
    #[inline]
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        if self.outcome.is_done() {
            return IDLE;
        }
        let turn = self.turn(cpu);
        self.outcome.after(turn)
    }
}
