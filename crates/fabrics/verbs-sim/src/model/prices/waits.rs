//! Times that the engines do not spend: ingest, delays, misses of caches, locks of doorbells.

use super::Verb;
use crate::profile;
use drover_sim::{Ps, Taken};

/// Prices of lines that cores write into the card.
#[derive(Clone, Debug)]
pub(crate) struct PioPrices {
    /// Ingest of a line.
    pub(crate) line: Ps,
    /// Additional delay per line after the first.
    pub(crate) extra_line: Ps,
    /// Additional time at the transmit engine of a request too long to be written.
    pub(crate) bf_over: Ps,
}

impl PioPrices {
    pub(super) fn new(p: &profile::Pio) -> PioPrices {
        PioPrices {
            line: Ps::from_ns(p.line_ns),
            extra_line: Ps::from_ns(p.extra_line_ns),
            bf_over: Ps::from_ns(p.bf_over_ns),
        }
    }
}

/// Delays that occupy no part of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    pub(crate) mmio: Ps,
    pub(crate) far_socket: Ps,
    pub(crate) tx: Ps,
    pub(crate) rx: Ps,
    pub(crate) wire: Ps,
    pub(crate) dma_write: Ps,
    pub(crate) dma_read: Ps,
    /// The payload fetch of a gathered request.
    pub(crate) dma_gather: Ps,
    pub(crate) ack: Ps,
}

impl Delays {
    pub(super) fn new(p: &profile::Latency) -> Delays {
        Delays {
            mmio: Ps::from_ns(p.mmio_ns),
            far_socket: Ps::from_ns(p.far_socket_ns),
            tx: Ps::from_ns(p.tx_ns),
            rx: Ps::from_ns(p.rx_ns),
            wire: Ps::from_ns(p.wire_ns),
            dma_write: Ps::from_ns(p.dma_write_ns),
            dma_read: Ps::from_ns(p.dma_read_ns),
            dma_gather: Ps::from_ns(p.dma_read_ns + p.gather_ns),
            ack: Ps::from_ns(p.ack_ns),
        }
    }
}

/// Prices of misses in the caches of queue pair contexts and of work requests.
#[derive(Clone, Debug)]
pub(crate) struct MissPrices {
    /// A requester's context.
    pub(crate) context_tx: Ps,
    /// A requester's context that only the larger cache has.
    pub(crate) context_near: Ps,
    context_rx_rc: Ps,
    context_rx_uc: Ps,
    wqe_read_tx: Ps,
    wqe_write_tx: Ps,
    /// The work request of a READ or atomic, when its answer arrives.
    pub(crate) wqe_read_rx: Ps,
}

impl MissPrices {
    pub(super) fn new(contexts: &profile::Contexts, wqes: &profile::WqeCache) -> MissPrices {
        MissPrices {
            context_tx: Ps::from_ns(contexts.miss_tx_ns),
            context_near: Ps::from_ns(contexts.near_miss_ns),
            context_rx_rc: Ps::from_ns(contexts.miss_rx_rc_ns),
            context_rx_uc: Ps::from_ns(contexts.miss_rx_uc_ns),
            wqe_read_tx: Ps::from_ns(wqes.miss_read_tx_ns),
            wqe_write_tx: Ps::from_ns(wqes.miss_write_tx_ns),
            wqe_read_rx: Ps::from_ns(wqes.miss_read_rx_ns),
        }
    }

    /// A responder's context.
    #[inline]
    pub(crate) fn context_rx(&self, is_rc: bool) -> Ps {
        if is_rc {
            self.context_rx_rc
        } else {
            self.context_rx_uc
        }
    }

    /// A work request at the transmit engine.
    #[inline]
    pub(crate) fn wqe_tx(&self, verb: Verb) -> Ps {
        match verb.fetches() {
            true => self.wqe_read_tx,
            false => self.wqe_write_tx,
        }
    }
}

/// Prices of the locks of doorbell registers and of shared queues.
#[derive(Clone, Debug)]
pub(crate) struct LockPrices {
    pub(crate) hold: Ps,
    pub(crate) read_extra: Ps,
    pub(crate) per_waiter: Ps,
    pub(crate) per_far_waiter: Ps,
    pub(crate) queue: Ps,
    pub(crate) queue_per_waiter: Ps,
}

impl LockPrices {
    pub(super) fn new(p: &profile::Lock) -> LockPrices {
        LockPrices {
            hold: Ps::from_ns(p.hold_ns),
            read_extra: Ps::from_ns(p.read_extra_ns),
            per_waiter: Ps::from_ns(p.per_waiter_ns),
            per_far_waiter: Ps::from_ns(p.per_far_waiter_ns),
            queue: Ps::from_ns(p.queue_ns),
            queue_per_waiter: Ps::from_ns(p.queue_per_waiter_ns),
        }
    }

    /// Time until the lines of a shared queue are here. Its lock is not fair: a core that gives it back may well take it
    /// again before the others see that. So each of the cores that use it is as likely to be next as the last one, whose
    /// lines need not move.
    pub(crate) fn queue(&self, taken: Taken) -> Ps {
        let Taken { waiting, others, .. } = taken;
        waiting.bounces(self.queue_per_waiter) + Ps(self.queue.0 * others / (others + 1))
    }
}
