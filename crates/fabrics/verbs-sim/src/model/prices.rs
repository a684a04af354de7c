//! [`Prices`]: a profile's numbers in the units of the simulation, looked up without arithmetic on floats.

use crate::profile::{Curve, Parameters};
use drover_sim::Ps;

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

/// A curve, tabulated for short messages.
#[derive(Clone, Debug)]
pub(crate) struct SizePrice {
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
    pub(crate) fn of(&self, bytes: u32) -> Ps {
        match self.table.get(bytes as usize) {
            Some(price) => *price,
            None => Ps::from_ns(self.curve.at(f64::from(bytes))),
        }
    }
}

/// A profile's prices. Fields are those of [`Parameters`], prefixed with their groups.
#[derive(Clone, Debug)]
pub(crate) struct Prices {
    pub(crate) pio_line: Ps,
    pub(crate) extra_line: Ps,
    pub(crate) bf_over: Ps,
    pub(crate) tx_write_inline: Ps,
    pub(crate) tx_send_ud: Ps,
    pub(crate) tx_read: Ps,
    pub(crate) tx_atomic: Ps,
    pub(crate) tx_gather: SizePrice,
    pub(crate) tx_response: SizePrice,
    pub(crate) tx_ack: Ps,
    pub(crate) rx_write_uc: SizePrice,
    pub(crate) rx_write_rc: SizePrice,
    pub(crate) rx_read: Ps,
    pub(crate) rx_atomic: Ps,
    pub(crate) rx_recv: Ps,
    pub(crate) rx_recv_header: Ps,
    pub(crate) rx_response: SizePrice,
    pub(crate) rx_ack: Ps,
    pub(crate) rx_cqe: Ps,
    pub(crate) rx_self_cqe: Ps,
    pub(crate) mmio: Ps,
    pub(crate) far_socket: Ps,
    pub(crate) tx_delay: Ps,
    pub(crate) rx_delay: Ps,
    pub(crate) wire: Ps,
    pub(crate) dma_write: Ps,
    pub(crate) dma_read: Ps,
    /// The payload fetch of a gathered request.
    pub(crate) dma_gather: Ps,
    pub(crate) ack_delay: Ps,
    pub(crate) ctx_miss_tx: Ps,
    pub(crate) ctx_miss_rx_rc: Ps,
    pub(crate) ctx_miss_rx_uc: Ps,
    pub(crate) ctx_near_miss: Ps,
    pub(crate) wqe_miss_read_tx: Ps,
    pub(crate) wqe_miss_read_rx: Ps,
    pub(crate) wqe_miss_write_tx: Ps,
    pub(crate) fetch_spacing: Ps,
    pub(crate) lock_hold: Ps,
    pub(crate) lock_read_extra: Ps,
    pub(crate) lock_per_waiter: Ps,
    pub(crate) lock_per_far_waiter: Ps,
    headers: Headers,
    pub(crate) p: Parameters,
}

impl Prices {
    pub(crate) fn new(p: &Parameters) -> Prices {
        let ns = Ps::from_ns;
        Prices {
            pio_line: ns(p.pio.line_ns),
            extra_line: ns(p.pio.extra_line_ns),
            bf_over: ns(p.pio.bf_over_ns),
            tx_write_inline: ns(p.tx.write_inline_ns),
            tx_send_ud: ns(p.tx.send_ud_ns),
            tx_read: ns(p.tx.read_ns),
            tx_atomic: ns(p.tx.atomic_ns),
            tx_gather: SizePrice::new(&p.tx.gather_ns),
            tx_response: SizePrice::new(&p.tx.response_ns),
            tx_ack: ns(p.tx.ack_ns),
            rx_write_uc: SizePrice::new(&p.rx.write_uc_ns),
            rx_write_rc: SizePrice::new(&p.rx.write_rc_ns),
            rx_read: ns(p.rx.read_ns),
            rx_atomic: ns(p.rx.atomic_ns),
            rx_recv: ns(p.rx.recv_ns),
            rx_recv_header: ns(p.rx.recv_header_ns),
            rx_response: SizePrice::new(&p.rx.response_ns),
            rx_ack: ns(p.rx.ack_ns),
            rx_cqe: ns(p.rx.cqe_ns),
            rx_self_cqe: ns(p.rx.self_cqe_ns),
            mmio: ns(p.latency.mmio_ns),
            far_socket: ns(p.latency.far_socket_ns),
            tx_delay: ns(p.latency.tx_ns),
            rx_delay: ns(p.latency.rx_ns),
            wire: ns(p.latency.wire_ns),
            dma_write: ns(p.latency.dma_write_ns),
            dma_read: ns(p.latency.dma_read_ns),
            dma_gather: ns(p.latency.dma_read_ns + p.latency.gather_ns),
            ack_delay: ns(p.latency.ack_ns),
            ctx_miss_tx: ns(p.context.miss_tx_ns),
            ctx_miss_rx_rc: ns(p.context.miss_rx_rc_ns),
            ctx_miss_rx_uc: ns(p.context.miss_rx_uc_ns),
            ctx_near_miss: ns(p.context.near_miss_ns),
            wqe_miss_read_tx: ns(p.wqe_cache.miss_read_tx_ns),
            wqe_miss_read_rx: ns(p.wqe_cache.miss_read_rx_ns),
            wqe_miss_write_tx: ns(p.wqe_cache.miss_write_tx_ns),
            fetch_spacing: ns(p.qp.fetch_spacing_ns),
            lock_hold: ns(p.lock.hold_ns),
            lock_read_extra: ns(p.lock.read_extra_ns),
            lock_per_waiter: ns(p.lock.per_waiter_ns),
            lock_per_far_waiter: ns(p.lock.per_far_waiter_ns),
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
