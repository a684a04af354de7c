//! [`Prices`]: a profile's numbers in the units of the simulation, looked up without arithmetic on floats.

mod engines;
mod waits;

use crate::profile::Parameters;
use drover_sim::Ps;
use engines::{RxPrices, TxPrices};
pub(crate) use waits::LockPrices;
use waits::{Delays, MissPrices, PioPrices};

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Send,
    Write,
    Read,
    CompareSwap,
    FetchAdd,
}

impl Verb {
    /// Whether the answer carries data: READs and atomics.
    pub(crate) fn fetches(self) -> bool {
        matches!(self, Verb::Read | Verb::CompareSwap | Verb::FetchAdd)
    }

    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Verb::CompareSwap | Verb::FetchAdd)
    }
}

/// A profile's prices.
#[derive(Clone, Debug)]
pub(crate) struct Prices {
    pub(crate) pio: PioPrices,
    pub(crate) tx: TxPrices,
    pub(crate) rx: RxPrices,
    pub(crate) delay: Delays,
    pub(crate) miss: MissPrices,
    pub(crate) lock: LockPrices,
    /// Time between the fetches of two requests of a list.
    pub(crate) fetch_spacing: Ps,
    headers: Headers,
    pub(crate) p: Parameters,
}

impl Prices {
    pub(crate) fn new(p: &Parameters) -> Prices {
        Prices {
            pio: PioPrices::new(&p.pio),
            tx: TxPrices::new(&p.tx),
            rx: RxPrices::new(&p.rx),
            delay: Delays::new(&p.latency),
            miss: MissPrices::new(&p.context, &p.wqe_cache),
            lock: LockPrices::new(&p.lock),
            fetch_spacing: Ps::from_ns(p.qp.fetch_spacing_ns),
            headers: Headers::new(p),
            p: p.clone(),
        }
    }

    /// Lines of 64 bytes that a core writes to hand over one request.
    ///
    /// | | WRITE inline | SEND over UD inline | SEND over UD | other |
    /// |---|---|---|---|---|
    /// | mlx4 | 1, and 1 per 60 B over 28 | 1, and 1 per 60 B | 2 | 1 |
    /// | mlx5 | 36 B and payload | 64 B, and 4 B and payload if any | 2 | 1 |
    pub(crate) fn lines(&self, verb: Verb, is_ud: bool, inline: bool, bytes: u32) -> u32 {
        match (self.p.pio.wqe_layout, is_ud, inline && !verb.fetches()) {
            (_, true, false) => 2,
            (_, false, false) => 1,
            (4, true, true) => 1 + bytes.div_ceil(60),
            (4, false, true) => 1 + bytes.saturating_sub(28).div_ceil(60),
            (_, true, true) if bytes == 0 => 1,
            (_, true, true) => (68 + bytes).div_ceil(64),
            (_, false, true) => (36 + bytes).div_ceil(64),
        }
    }

    /// Bytes on the wire of a request.
    #[inline]
    pub(crate) fn request_bytes(&self, verb: Verb, is_ud: bool, bytes: u32) -> u64 {
        let headers = &self.headers;
        match verb {
            Verb::Write => self.framed(headers.write, bytes),
            Verb::Send if is_ud => self.framed(headers.ud, bytes),
            Verb::Send => self.framed(headers.send, bytes),
            Verb::Read => headers.read_request,
            Verb::CompareSwap | Verb::FetchAdd => headers.atomic_request,
        }
    }

    /// Bytes on the wire of the answer to a READ or an atomic.
    #[inline]
    pub(crate) fn response_bytes(&self, bytes: u32) -> u64 {
        self.framed(self.headers.response, bytes)
    }

    /// Bytes on the wire of an acknowledgement.
    #[inline]
    pub(crate) fn ack_bytes(&self) -> u64 {
        self.headers.ack
    }

    /// Number of packets for a payload of `bytes`.
    #[inline]
    pub(crate) fn packets(&self, bytes: u32) -> u64 {
        pieces(u64::from(bytes), self.p.link.mtu).max(1)
    }

    #[inline]
    fn framed(&self, header: u64, bytes: u32) -> u64 {
        self.packets(bytes) * header + u64::from(bytes)
    }

    /// Bytes on the bus of writing `bytes` to the host.
    #[inline]
    pub(crate) fn bus_write(&self, bytes: u64) -> u64 {
        bytes + pieces(bytes, self.p.pcie.write_payload) * self.headers.bus_request
    }

    /// Bytes on the bus of a completion-queue entry.
    #[inline]
    pub(crate) fn bus_cqe(&self) -> u64 {
        self.headers.cqe
    }

    /// Bytes on the bus, towards the card, of reading `bytes` from the host.
    #[inline]
    pub(crate) fn bus_read(&self, bytes: u64) -> u64 {
        bytes + pieces(bytes, self.p.pcie.completion_payload) * self.headers.bus_completion
    }

    /// Bytes on the bus for `lines` lines written by a core.
    pub(crate) fn bus_mmio(&self, lines: u32) -> u64 {
        u64::from(lines) * (64 + self.headers.bus_request)
    }
}

/// Header bytes, and bytes of messages without payload, as whole numbers.
#[derive(Clone, Copy, Debug)]
struct Headers {
    write: u64,
    ud: u64,
    send: u64,
    read_request: u64,
    atomic_request: u64,
    response: u64,
    ack: u64,
    bus_request: u64,
    bus_completion: u64,
    cqe: u64,
}

impl Headers {
    fn new(p: &Parameters) -> Headers {
        let (link, pcie) = (&p.link, &p.pcie);
        let packet = |bytes: f64| (bytes + link.packet_extra) as u64;
        let (bus_request, cqe) = (pcie.request_tlp as u64, pcie.cqe_bytes as u64);
        Headers {
            write: packet(link.write_header),
            ud: packet(link.ud_header),
            send: packet(link.send_header),
            read_request: packet(link.read_request),
            atomic_request: packet(link.atomic_request),
            response: packet(link.response_header),
            ack: packet(link.ack_bytes),
            bus_request,
            bus_completion: pcie.completion_tlp as u64,
            cqe: cqe + pieces(cqe, pcie.write_payload) * bus_request,
        }
    }
}

/// Number of pieces of at most `longest` in `bytes`. Divides only if there is more than one.
#[inline]
fn pieces(bytes: u64, longest: u64) -> u64 {
    match bytes <= longest {
        true => bytes.min(1),
        false => bytes.div_ceil(longest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn steps(prices: &Prices, is_ud: bool) -> Vec<u32> {
        let verb = if is_ud { Verb::Send } else { Verb::Write };
        let lines = |bytes| prices.lines(verb, is_ud, true, bytes);
        (1..=256)
            .filter(|&bytes| lines(bytes) != lines(bytes - 1))
            .collect()
    }

    #[test]
    fn lines_step_where_work_requests_do() {
        let prices = |name| Prices::new(Profile::named(name).expect("a profile").parameters());
        let (mlx4, mlx5) = (prices("apt"), prices("cib"));
        assert_eq!(steps(&mlx4, false), [29, 89, 149, 209]);
        assert_eq!(steps(&mlx4, true), [1, 61, 121, 181, 241]);
        assert_eq!(steps(&mlx5, true), [1, 61, 125, 189, 253]);
        assert_eq!(mlx4.lines(Verb::Read, false, false, 4096), 1);
        assert_eq!(mlx5.lines(Verb::Send, true, false, 4096), 2);
    }
}
