//! [`Counters`]: counters of a card, under the names that vendors' cards use where they exist.

use crate::model::prices::Verb;
use drover_sim::Ps;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one card since the creation of its world; or of a period, from [`since`](Counters::since).
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Time that cores waited for locks of doorbell registers, summed over cores; the time for which they held
            /// the locks is not included.
            pub lock_wait: Ps,
            /// Time that cores stalled in posts because their write buffers were full of lines that the card had not
            /// ingested yet, summed over cores.
            pub pio_stall: Ps,
        }

        impl Counters {
            /// These counters minus `earlier`, an older copy of the same card's counters.
            pub fn since(&self, earlier: &Counters) -> Counters {
                Counters {
                    $($name: self.$name - earlier.$name,)*
                    lock_wait: self.lock_wait - earlier.lock_wait,
                    pio_stall: self.pio_stall - earlier.pio_stall,
                }
            }

            /// Name and value of every counter; times in nanoseconds, rounded down, with `_ns` added to their names.
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
    /// WRITEs, with or without immediate data, accepted as responder (RC and UC); repeats are not counted.
    rx_write_requests,
    /// READs accepted as responder; repeats are not counted.
    rx_read_requests,
    /// CAS and FAA accepted as responder; repeats are not counted.
    rx_atomic_requests,
    /// SENDs accepted as responder (RC, UC and UD): a RECV with enough space was there. RC repeats, and WRITEs with
    /// immediate data, are not counted.
    rx_send_requests,
    /// SENDs, and WRITEs with immediate data, that arrived here and found no RECV. Over RC each retry that finds none
    /// counts again.
    out_of_buffer,
    /// RC requests that arrived here before an earlier request of their connection was accepted: the earlier one was
    /// lost, was refused or had found no RECV.
    out_of_sequence,
    /// RC requests that arrived here again after they had been accepted.
    duplicate_request,
    /// Negative acknowledgements received as requester that say "an earlier request is missing".
    packet_seq_err,
    /// Timeouts of RC queue pairs that led to a retransmission; the last one, after which a request fails, is not
    /// counted.
    local_ack_timeout_err,
    /// Requests that failed with `RnrRetryExceeded`, because the peer had no RECV for too long.
    rnr_nak_retry_err,
    /// Retransmissions of RC requests after a timeout, a missing request or a missing RECV; each repeat counts.
    retransmitted,
    /// RC requests refused as responder: wrong key, range or right, unaligned atomic, or a RECV with unregistered
    /// memory.
    resp_remote_access_errors,
    /// RC SENDs that were longer than the RECV they found here.
    resp_local_length_error,
    /// Send requests that failed and broke their queue pair. Those that were flushed because of it are not counted.
    req_cqe_error,
    /// Send requests that completed as `Flushed`, because their queue pair was in the error state. Those posted before
    /// a request that failed at this end, and flushed with it, are not counted.
    req_cqe_flush_error,
    /// RECVs that completed as `Flushed`. RECVs of a shared receive queue are never flushed.
    resp_cqe_flush_error,
    /// Completions dropped because their completion queue was full; the next poll of that queue panics.
    cq_overruns,
    /// Packets that this card sent, lost ones included.
    tx_packets,
    /// Bytes that this card sent, headers and lost packets included.
    tx_bytes,
    /// Bytes that reached this card, headers included; not those lost on the link, or dropped because its machine was
    /// down.
    rx_bytes,
    /// Messages lost: requests and answers lost on the card's outgoing link, or sent or received while its machine was
    /// down; and requests received for a queue pair that is gone or does not expect them. UC and UD messages
    /// that fail other checks here are dropped without being counted.
    lost,
    /// Lines of 64 bytes that cores wrote into the card by MMIO; a doorbell without a work request counts as one.
    mmio_lines,
    /// Times that the card fetched a work request again because its cache had evicted it: at transmission, and for
    /// READs and atomics also when the response arrives.
    wqe_cache_misses,
    /// Times that a READ or atomic was next in its send queue and could not start: too many were outstanding, it was
    /// fenced, or its queue pair waited for a RECV of the peer. One request may count several times.
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
