//! [`TxPrices`] and [`RxPrices`]: time of an item at the card's engines.

use super::Verb;
use crate::profile::{Curve, Rx, Tx};
use drover_sim::Ps;

/// A curve, tabulated for short messages.
#[derive(Clone, Debug)]
struct SizePrice {
    table: Vec<Ps>,
    curve: Curve,
}

const TABLE_BYTES: usize = 1024;

impl SizePrice {
    fn new(curve: &Curve) -> SizePrice {
        SizePrice {
            table: (0..=TABLE_BYTES)
                .map(|bytes| Ps::from_ns(curve.at(bytes as f64)))
                .collect(),
            curve: curve.clone(),
        }
    }

    #[inline]
    fn of(&self, bytes: u32) -> Ps {
        match self.table.get(bytes as usize) {
            Some(price) => *price,
            None => Ps::from_ns(self.curve.at(f64::from(bytes))),
        }
    }
}

/// Prices of the transmit engine.
#[derive(Clone, Debug)]
pub(crate) struct TxPrices {
    write_inline: Ps,
    send_ud: Ps,
    read: Ps,
    atomic: Ps,
    gather: SizePrice,
    response: SizePrice,
    ack: Ps,
}

impl TxPrices {
    pub(super) fn new(p: &Tx) -> TxPrices {
        TxPrices {
            write_inline: Ps::from_ns(p.write_inline_ns),
            send_ud: Ps::from_ns(p.send_ud_ns),
            read: Ps::from_ns(p.read_ns),
            atomic: Ps::from_ns(p.atomic_ns),
            gather: SizePrice::new(&p.gather_ns),
            response: SizePrice::new(&p.response_ns),
            ack: Ps::from_ns(p.ack_ns),
        }
    }

    /// A request without the misses of caches. `gathers`: the card fetches its payload.
    #[inline]
    pub(crate) fn request(&self, verb: Verb, is_ud: bool, gathers: bool, bytes: u32) -> Ps {
        match verb {
            Verb::Read => self.read,
            Verb::CompareSwap | Verb::FetchAdd => self.atomic,
            Verb::Send | Verb::Write if gathers => self.gather.of(bytes),
            Verb::Send if is_ud => self.send_ud,
            Verb::Send | Verb::Write => self.write_inline,
        }
    }

    /// The answer to a READ or an atomic.
    #[inline]
    pub(crate) fn response(&self, bytes: u32) -> Ps {
        self.response.of(bytes)
    }

    /// Any other answer.
    #[inline]
    pub(crate) fn ack(&self) -> Ps {
        self.ack
    }
}

/// Prices of the receive engine.
#[derive(Clone, Debug)]
pub(crate) struct RxPrices {
    write_uc: SizePrice,
    write_rc: SizePrice,
    read: Ps,
    atomic: Ps,
    recv: Ps,
    recv_header: Ps,
    response: SizePrice,
    ack: Ps,
    cqe: Ps,
    self_cqe: Ps,
}

impl RxPrices {
    pub(super) fn new(p: &Rx) -> RxPrices {
        RxPrices {
            write_uc: SizePrice::new(&p.write_uc_ns),
            write_rc: SizePrice::new(&p.write_rc_ns),
            read: Ps::from_ns(p.read_ns),
            atomic: Ps::from_ns(p.atomic_ns),
            recv: Ps::from_ns(p.recv_ns),
            recv_header: Ps::from_ns(p.recv_header_ns),
            response: SizePrice::new(&p.response_ns),
            ack: Ps::from_ns(p.ack_ns),
            cqe: Ps::from_ns(p.cqe_ns),
            self_cqe: Ps::from_ns(p.self_cqe_ns),
        }
    }

    /// A request without the misses of caches.
    #[inline]
    pub(crate) fn request(&self, verb: Verb, is_rc: bool, takes_recv: bool, bytes: u32) -> Ps {
        match verb {
            Verb::Read => self.read,
            Verb::CompareSwap | Verb::FetchAdd => self.atomic,
            _ if takes_recv && bytes == 0 => self.recv_header,
            _ if takes_recv => self.recv,
            _ if is_rc => self.write_rc.of(bytes),
            _ => self.write_uc.of(bytes),
        }
    }

    /// The answer to a READ or an atomic, without the misses of caches.
    #[inline]
    pub(crate) fn response(&self, bytes: u32, signaled: bool) -> Ps {
        self.response.of(bytes) + self.completion(signaled)
    }

    /// Any other answer; refusals count as not signaled.
    #[inline]
    pub(crate) fn ack(&self, signaled: bool) -> Ps {
        self.ack + self.completion(signaled)
    }

    /// The completion of a request without an answer.
    #[inline]
    pub(crate) fn self_cqe(&self) -> Ps {
        self.self_cqe
    }

    #[inline]
    fn completion(&self, signaled: bool) -> Ps {
        if signaled { self.cqe } else { Ps::ZERO }
    }
}
