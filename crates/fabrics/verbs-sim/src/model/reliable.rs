//! Loss handling of RC: sequence numbers, go-back-N, timeouts, and waiting for RECVs.

use super::op::Role;
use super::{Net, kind};
use drover_sim::{Event, Ps, Queue};
use drover_verbs::WcStatus;

impl Net {
    /// Whether a request is the next in sequence. Earlier ones are answered again; one that is too early is refused
    /// once.
    pub(crate) fn in_sequence(&mut self, machine: u16, op: u32, to: u32, now: Ps, queue: &mut Queue) -> bool {
        let sequence = self.ops[op].sequence;
        let rc = &mut self.qps.at(to).rc;
        if sequence == rc.expected {
            return true;
        }
        if sequence > rc.expected {
            let told = std::mem::replace(&mut rc.nak_sent, true);
            self.nic(machine).counters.out_of_sequence += 1;
            match told {
                true => self.ops.release(op),
                false => self.send_back(machine, op, Role::SequenceNak, now, queue),
            }
            return false;
        }
        self.nic(machine).counters.duplicate_request += 1;
        let o = &self.ops[op];
        match (o.wr.verb.fetches(), o.wr.verb.is_atomic()) {
            _ if o.ending.retired => self.ops.release(op),
            // An atomic is not executed twice: its first result is still in the op.
            (true, true) if o.responder.executed => self.send_back(machine, op, Role::Response, now, queue),
            (true, true) => self.ops.release(op), // its first answer is in flight
            (true, false) => self.answer_later(machine, op, now, queue),
            (false, _) => self.send_back(machine, op, Role::Ack, now, queue),
        }
        false
    }

    /// `op` was answered: this implies success of all earlier requests that fetch no data.
    pub(crate) fn progress(&mut self, qpn: u32, op: u32, now: Ps, queue: &mut Queue) {
        let sequence = self.ops[op].sequence;
        let qp = self.qps.at(qpn);
        let machine = qp.machine;
        let rc = &mut qp.rc;
        rc.progress_at = now;
        rc.retries = 0;
        rc.rnr_since = None;
        let in_order = rc.acked == sequence;
        rc.acked = rc.acked.max(sequence + 1);
        if in_order {
            return;
        }
        let implied: Vec<u32> = qp
            .sends
            .in_flight()
            .take_while(|&before| before != op)
            .filter(|&before| !self.ops[before].ending.acked && !self.ops[before].wr.verb.fetches())
            .collect();
        for before in implied {
            self.ops.hold(before);
            self.write_completion(machine, before, now, queue);
        }
    }

    /// Retransmits all unacknowledged requests.
    pub(crate) fn go_back(&mut self, qpn: u32, queue: &mut Queue) {
        let Some(qp) = self.qps.get(qpn) else { return };
        let again: Vec<u32> = qp
            .sends
            .in_flight()
            .filter(|&op| !self.ops[op].ending.acked)
            .collect();
        let machine = qp.machine;
        self.nic(machine).counters.retransmitted += again.len() as u64;
        for op in again {
            self.transmit_request(qpn, op, queue.now(), queue);
        }
    }

    /// Handles a timeout: if the peer has not answered since the timer was set, goes back; after too many times, gives
    /// up.
    pub(crate) fn timeout(&mut self, qpn: u32, queue: &mut Queue) {
        let patience = Ps::from(self.options.rc.timeout);
        let retries_max = self.options.rc.retries;
        let now = queue.now();
        let Some(qp) = self.qps.get_mut(qpn) else { return };
        let machine = qp.machine;
        let Some(first) = qp.sends.in_flight().find(|&op| !self.ops[op].ending.acked) else {
            qp.rc.timer_set = false;
            return;
        };
        let due = qp.rc.progress_at + patience;
        if due > now {
            return queue.schedule(due, Event::new(kind::TIMEOUT, machine, qpn));
        }
        if qp.rc.rnr_wait {
            return queue.schedule(now + patience, Event::new(kind::TIMEOUT, machine, qpn));
        }
        qp.rc.retries += 1;
        if qp.rc.retries > retries_max {
            qp.rc.timer_set = false;
            return self.fail(qpn, first, WcStatus::RetryExceeded, queue);
        }
        qp.rc.progress_at = now;
        queue.schedule(now + patience, Event::new(kind::TIMEOUT, machine, qpn));
        self.nic(machine).counters.local_ack_timeout_err += 1;
        self.go_back(qpn, queue);
    }

    /// The peer had no RECV for `op`: retries soon, or gives up if this has lasted too long.
    pub(crate) fn peer_not_ready(&mut self, qpn: u32, op: u32, queue: &mut Queue) {
        let now = queue.now();
        let delay = Ps::from(self.options.rc.rnr_delay);
        let qp = self.qps.at(qpn);
        let machine = qp.machine;
        let rc = &mut qp.rc;
        rc.progress_at = now;
        rc.retries = 0;
        let since = *rc.rnr_since.get_or_insert(now);
        if now.since(since) >= rc.rnr_timeout {
            self.nic(machine).counters.rnr_nak_retry_err += 1;
            return self.fail(qpn, op, WcStatus::RnrRetryExceeded, queue);
        }
        if !std::mem::replace(&mut rc.rnr_wait, true) {
            queue.schedule(now + delay, Event::new(kind::RNR_RETRY, machine, qpn));
        }
    }

    /// Retries after the peer had no RECV.
    pub(crate) fn rnr_retry(&mut self, qpn: u32, queue: &mut Queue) {
        let Some(qp) = self.qps.get_mut(qpn) else { return };
        qp.rc.rnr_wait = false;
        self.go_back(qpn, queue);
        self.start_pending(qpn, queue.now(), queue);
    }
}
