//! [`Counters`]: counters of a card, under the names that vendors' cards use where they exist.

use crate::model::prices::Verb;
use drover_sim::Ps;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one card. They only grow.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Time that cores spent waiting for doorbell registers.
            pub lock_wait: Ps,
            /// Time that cores spent waiting for the card to take their lines.
            pub pio_stall: Ps,
        }

        impl Counters {
            /// Counts since `earlier`.
            pub fn since(&self, earlier: &Counters) -> Counters {
                Counters {
                    $($name: self.$name - earlier.$name,)*
                    lock_wait: self.lock_wait - earlier.lock_wait,
                    pio_stall: self.pio_stall - earlier.pio_stall,
                }
            }

            /// All counters by name; times in nanoseconds.
            pub fn by_name(&self) -> Vec<(&'static str, u64)> {
                vec![
                    $((stringify!($name), self.$name),)*
                    ("lock_wait_ns", self.lock_wait.floor().0),
                    ("pio_stall_ns", self.pio_stall.floor().0),
                ]
            }
        }
    };
}

counters! {
    /// WRITEs executed as responder.
    rx_write_requests,
    /// READs executed as responder.
    rx_read_requests,
    /// CAS and FAA executed as responder.
    rx_atomic_requests,
    /// SENDs taken as responder.
    rx_send_requests,
    /// Messages that arrived without a RECV.
    out_of_buffer,
    /// Requests that arrived before an earlier one.
    out_of_sequence,
    /// Requests received again.
    duplicate_request,
    /// Reports of a missing request, received as requester.
    packet_seq_err,
    /// Timeouts of RC requests.
    local_ack_timeout_err,
    /// Requests given up because the peer had no RECV.
    rnr_nak_retry_err,
    /// Requests retransmitted.
    retransmitted,
    /// Requests refused as responder.
    resp_remote_access_errors,
    /// Messages longer than their RECV.
    resp_local_length_error,
    /// Completions with an error, as requester.
    req_cqe_error,
    /// Requests flushed.
    req_cqe_flush_error,
    /// RECVs flushed.
    resp_cqe_flush_error,
    /// Completions for a full queue.
    cq_overruns,
    /// Packets put on the link.
    tx_packets,
    /// Bytes put on the link.
    tx_bytes,
    /// Bytes taken from the link.
    rx_bytes,
    /// Messages dropped: lost, unexpected, or for a machine that is down.
    lost,
    /// Lines that cores wrote into the card.
    mmio_lines,
    /// Requests fetched again after eviction from their cache.
    wqe_cache_misses,
    /// Requests that waited for a READ slot.
    read_slot_stalls,
}

impl Counters {
    pub(crate) fn count_request(&mut self, verb: Verb) {
        *match verb {
            Verb::Send => &mut self.rx_send_requests,
            Verb::Write => &mut self.rx_write_requests,
            Verb::Read => &mut self.rx_read_requests,
            Verb::CompareSwap | Verb::FetchAdd => &mut self.rx_atomic_requests,
        } += 1;
    }
}
