//! All parameters of a profile: name, unit and meaning. To add one, add it here.

use super::curve::Curve;
use super::field::{Field, Key, Shaped};

macro_rules! parameters {
    ($( $(#[$about:meta])* $group:ident : $Group:ident {
        $( $(#[$doc:meta])* $field:ident : $kind:ty [$unit:literal] ),* $(,)?
    } )*) => {
        $( $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Default)]
        pub struct $Group { $( $(#[$doc])* pub $field: $kind ),* } )*

        /// All parameters, typed: the part of a profile that the simulator reads.
        #[derive(Clone, Debug, PartialEq, Default)]
        pub struct Parameters { $( $(#[$about])* pub $group: $Group ),* }

        /// All parameters, in the order of this file.
        pub const KEYS: &[Key] = &[ $( $( Key {
            path: concat!(stringify!($group), ".", stringify!($field)),
            unit: $unit,
            shape: <$kind as Shaped>::SHAPE,
        } ),* ),* ];

        impl Parameters {
            /// The parameter with the given path.
            pub(super) fn field(&mut self, path: &str) -> Option<&mut dyn Field> {
                $( $( if path == concat!(stringify!($group), ".", stringify!($field)) {
                    return Some(&mut self.$group.$field);
                } )* )*
                None
            }
        }
    };
}

parameters! {
    /// Hardware of a machine.
    machine: Machine {
        /// Machines in the published set-up.
        machines: u64 ["count"],
        /// Physical cores.
        cores: u64 ["count"],
        /// Hardware threads per core.
        threads_per_core: u64 ["count"],
        /// Processor sockets; cores and threads divide evenly.
        sockets: u64 ["count"],
        /// Clock rate of a core.
        clock_ghz: f64 ["GHz"],
        /// Factor on every charge while the sibling thread of the core is busy.
        sibling_factor: f64 ["factor"],
    }
    /// MMIO: how requests get from a core into the card.
    pio: Pio {
        /// Ingest of one 64-byte line.
        line_ns: f64 ["ns"],
        /// Lines a core may be ahead of the ingest before it stalls.
        buf_lines: u64 ["lines"],
        /// Layout of a work request, which decides its lines: 4 (mlx4) or 5 (mlx5).
        wqe_layout: u64 ["generation"],
        /// Requests of more lines than this are fetched by DMA instead of being written by the core.
        bf_lines_max: u64 ["lines"],
        /// Transmit engine's time per request longer than `bf_lines_max`, beyond its usual cost.
        bf_over_ns: f64 ["ns"],
        /// 1: every single post goes through MMIO; 0: only inline ones and READs do.
        bf_every: u64 ["switch"],
        /// Additional delay of a request per line after the first (flush of write-combining buffers).
        extra_line_ns: f64 ["ns"],
    }
    /// Transmit engine: time per item.
    tx: Tx {
        /// WRITE or connected SEND whose payload came with the request.
        write_inline_ns: f64 ["ns"],
        /// SEND over UD whose payload came with the request.
        send_ud_ns: f64 ["ns"],
        /// READ request.
        read_ns: f64 ["ns"],
        /// CAS or FAA request.
        atomic_ns: f64 ["ns"],
        /// WRITE or SEND whose payload is fetched from host memory, by payload bytes.
        gather_ns: Curve ["ns"],
        /// Response to a READ or an atomic, by payload bytes.
        response_ns: Curve ["ns"],
        /// Acknowledgement (RC).
        ack_ns: f64 ["ns"],
    }
    /// Receive engine: time per item.
    rx: Rx {
        /// WRITE over UC, by payload bytes.
        write_uc_ns: Curve ["ns"],
        /// WRITE over RC, by payload bytes.
        write_rc_ns: Curve ["ns"],
        /// READ request.
        read_ns: f64 ["ns"],
        /// CAS or FAA request.
        atomic_ns: f64 ["ns"],
        /// Message into a RECV: payload and completion.
        recv_ns: f64 ["ns"],
        /// Message without payload into a RECV.
        recv_header_ns: f64 ["ns"],
        /// Message whose payload travels inside the completion.
        recv_inline_ns: f64 ["ns"],
        /// Response to a READ or an atomic without its completion, by payload bytes.
        response_ns: Curve ["ns"],
        /// Acknowledgement without a completion.
        ack_ns: f64 ["ns"],
        /// Completion written because of an acknowledgement, a response or the end of an unacknowledged request.
        cqe_ns: f64 ["ns"],
        /// Item that only writes a completion (signaled UC and UD requests).
        self_cqe_ns: f64 ["ns"],
    }
    /// Unit for CAS and FAA.
    atomics: Atomics {
        /// Locks; addresses equal modulo this (in 8-byte words) exclude each other.
        buckets: u64 ["count"],
        /// Time for which a lock is held.
        hold_ns: f64 ["ns"],
        /// The unit's own time per operation.
        unit_ns: f64 ["ns"],
        /// Operations that may wait for locks before the unit itself stops.
        waiting: u64 ["count"],
    }
    /// Cable and switch.
    link: Link {
        /// Usable bandwidth of one direction.
        bytes_per_ns: f64 ["B/ns"],
        /// Bytes around the payload of a WRITE.
        write_header: f64 ["B"],
        /// Bytes around the payload of a connected SEND.
        send_header: f64 ["B"],
        /// Bytes around the payload of a SEND over UD.
        ud_header: f64 ["B"],
        /// Bytes of a READ request.
        read_request: f64 ["B"],
        /// Bytes of a CAS or FAA request.
        atomic_request: f64 ["B"],
        /// Bytes around the payload of a READ response.
        response_header: f64 ["B"],
        /// Bytes of an acknowledgement.
        ack_bytes: f64 ["B"],
        /// More bytes around every packet (Ethernet and IP below RDMA).
        packet_extra: f64 ["B"],
        /// Payload bytes of one packet.
        mtu: u64 ["B"],
    }
    /// The bus between card and host.
    pcie: Pcie {
        /// Bandwidth from card to host.
        out_bytes_per_ns: f64 ["B/ns"],
        /// Bandwidth from host to card.
        in_bytes_per_ns: f64 ["B/ns"],
        /// Bytes around each posted write and each read request.
        request_tlp: f64 ["B"],
        /// Bytes around each completion of a read.
        completion_tlp: f64 ["B"],
        /// Payload of one posted write.
        write_payload: u64 ["B"],
        /// Payload of one completion of a read.
        completion_payload: u64 ["B"],
        /// Bytes of a completion-queue entry as written.
        cqe_bytes: f64 ["B"],
    }
    /// Delays that occupy no resource.
    latency: Latency {
        /// From a core's MMIO write to the card.
        mmio_ns: f64 ["ns"],
        /// Additional delay from a socket that the card is not attached to.
        far_socket_ns: f64 ["ns"],
        /// From the transmit engine to the port.
        tx_ns: f64 ["ns"],
        /// From the port to the receive engine.
        rx_ns: f64 ["ns"],
        /// One way over cable and switch.
        wire_ns: f64 ["ns"],
        /// From the engine until written bytes are visible to the host.
        dma_write_ns: f64 ["ns"],
        /// Read of host memory by the card.
        dma_read_ns: f64 ["ns"],
        /// Additional delay of the payload fetch of a gathered request (two dependent reads, address translation).
        gather_ns: f64 ["ns"],
        /// From the arrival of an RC request to its acknowledgement.
        ack_ns: f64 ["ns"],
    }
    /// Cache of queue-pair contexts.
    context: Contexts {
        /// Total weight of the contexts that fit.
        capacity: f64 ["weight"],
        /// Weight of a queue pair that sends requests.
        weight_out: f64 ["weight"],
        /// Weight of a queue pair that serves requests.
        weight_in: f64 ["weight"],
        /// Transmit engine's time per miss.
        miss_tx_ns: f64 ["ns"],
        /// Receive engine's time per miss on RC.
        miss_rx_rc_ns: f64 ["ns"],
        /// Receive engine's time per miss on UC and UD.
        miss_rx_uc_ns: f64 ["ns"],
        /// Requester contexts in a smaller first level; 0 switches it off.
        near_entries: u64 ["count"],
        /// Transmit engine's time per miss of the first level.
        near_miss_ns: f64 ["ns"],
    }
    /// Cache of work requests between MMIO ingest and the engines.
    wqe_cache: WqeCache {
        /// Sets; 1 is a plain FIFO.
        sets: u64 ["count"],
        /// Entries per set.
        ways: u64 ["count"],
        /// Transmit engine's time per READ or atomic that is fetched again.
        miss_read_tx_ns: f64 ["ns"],
        /// Receive engine's time when a response finds its request evicted.
        miss_read_rx_ns: f64 ["ns"],
        /// Transmit engine's time per WRITE or SEND that is fetched again.
        miss_write_tx_ns: f64 ["ns"],
    }
    /// Cache of address translations.
    mtt: Mtt {
        /// Entries; 0 switches it off.
        entries: u64 ["count"],
        /// Bytes that one entry covers.
        page_bytes: u64 ["B"],
        /// Engine's time per miss.
        miss_ns: f64 ["ns"],
    }
    /// Limits of a queue pair.
    qp: Qp {
        /// READs and atomics outstanding, at the requester and at the responder.
        reads_max: u64 ["count"],
        /// Longest inline payload.
        inline_max: u64 ["B"],
        /// Least distance between requests of one queue pair that are fetched by DMA; 0 for none.
        fetch_spacing_ns: f64 ["ns"],
    }
    /// Locks of doorbell registers.
    lock: Lock {
        /// Low-latency registers: one queue pair each, no lock.
        low_registers: u64 ["count"],
        /// Registers shared round-robin by all other queue pairs; 0: no locks at all.
        shared_registers: u64 ["count"],
        /// Hold time per post.
        hold_ns: f64 ["ns"],
        /// Additional hold time per READ or atomic.
        read_extra_ns: f64 ["ns"],
        /// Additional hold time per thread that waits when the lock is taken.
        per_waiter_ns: f64 ["ns"],
        /// Further hold time per waiting thread of another socket.
        per_far_waiter_ns: f64 ["ns"],
    }
    /// Costs of verbs for a core.
    cpu: CpuCosts {
        /// Post of one request of one line.
        post_ns: f64 ["ns"],
        /// Every further line.
        line_ns: f64 ["ns"],
        /// Every further request of a list (its first costs `post_ns`).
        list_ns: f64 ["ns"],
        /// Poll of an available completion.
        poll_ns: f64 ["ns"],
        /// Poll that finds nothing.
        poll_empty_ns: f64 ["ns"],
        /// Post of a single RECV.
        recv_ns: f64 ["ns"],
        /// Post of a RECV in a list.
        recv_list_ns: f64 ["ns"],
        /// From visibility of bytes to detection by the poller.
        detect_ns: f64 ["ns"],
        /// Once per batch in loops that post a batch and wait for all of it.
        batch_tail_ns: f64 ["ns"],
        /// Check of one empty slot in a scan of memory.
        slot_poll_ns: f64 ["ns"],
    }
    /// Memory accesses of a core.
    memory: Memory {
        /// Random access that misses all caches.
        dram_ns: f64 ["ns"],
        /// Hit in the last-level cache.
        llc_ns: f64 ["ns"],
        /// Hit in the second-level cache.
        l2_ns: f64 ["ns"],
        /// A prefetch instruction.
        prefetch_ns: f64 ["ns"],
        /// Misses in flight per core.
        prefetch_slots: u64 ["count"],
        /// Number of independent misses that overlap without prefetching.
        overlap: f64 ["factor"],
        /// Copying, per byte after the first line.
        copy_ns_per_byte: f64 ["ns/B"],
        /// Last-level cache of a socket.
        llc_bytes: u64 ["B"],
        /// Ways of that cache.
        llc_ways: u64 ["count"],
        /// Ways that a card's writes may fill.
        ddio_ways: u64 ["count"],
        /// 1: every random access of a table misses; 0: the last-level cache is modelled.
        tables_always_miss: u64 ["switch"],
    }
}
