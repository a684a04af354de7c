//! All parameters of a profile: name, unit and meaning. To add a parameter, add it here.

use super::curve::Curve;
use super::field::{Field, Key, Shaped};

macro_rules! parameters {
    ($( $(#[$about:meta])* $group:ident : $Group:ident {
        $( $(#[$doc:meta])* $field:ident : $kind:ty [$unit:literal] ),* $(,)?
    } )*) => {
        $( $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Default)]
        pub struct $Group { $( $(#[$doc])* pub $field: $kind ),* } )*

        /// The values of all parameters of a profile, without their bounds and sources. The simulator reads only these.
        #[derive(Clone, Debug, PartialEq, Default)]
        pub struct Parameters { $( $(#[$about])* pub $group: $Group ),* }

        /// Name, unit and kind of every parameter, group by group.
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
        /// Number of machines in the published set-up. The simulator ignores it.
        machines: u64 ["count"],
        /// Number of physical cores of a machine, all sockets together. Simulated cores beyond this number are second
        /// hardware threads of the first ones.
        cores: u64 ["count"],
        /// Number of hardware threads per core. The simulator ignores it.
        threads_per_core: u64 ["count"],
        /// Number of processor sockets; they divide the cores evenly. The card is attached to the first.
        sockets: u64 ["count"],
        /// Clock rate of a core. Programs convert cycles to nanoseconds with it; the costs of verbs do not depend on
        /// it.
        clock_ghz: f64 ["GHz"],
        /// Bytes of memory on the card that programs may allocate; 0 if it has none.
        device_memory_bytes: u64 ["B"],
        /// Factor on charges and memory accesses of both hardware threads of a core, once the simulation has created
        /// both.
        sibling_factor: f64 ["factor"],
    }
    /// MMIO: how requests get from a core into the card.
    pio: Pio {
        /// Card's time to ingest one 64-byte line that a core has written.
        line_ns: f64 ["ns"],
        /// Most lines that a core may have written and the card not yet ingested. A core whose post would exceed this
        /// stalls, unless the card has ingested all its earlier lines.
        buf_lines: u64 ["lines"],
        /// Layout of a work request, which decides how many lines it has: 4 for mlx4, any other number for mlx5.
        wqe_layout: u64 ["generation"],
        /// Most lines of a request that the core writes; a longer request is fetched by DMA, and so is every list of
        /// two or more.
        bf_lines_max: u64 ["lines"],
        /// Additional time of the transmit engine for a request longer than `bf_lines_max` that was posted alone.
        bf_over_ns: f64 ["ns"],
        /// 1: every request posted alone, of at most `bf_lines_max` lines, is written by MMIO; 0: of these only inline
        /// ones, READs and atomics.
        bf_every: u64 ["switch"],
        /// Additional delay of a request per line that the core writes after the first (flush of write-combining
        /// buffers).
        extra_line_ns: f64 ["ns"],
    }
    /// Transmit engine: time per item.
    tx: Tx {
        /// Transmit engine's time per WRITE, or SEND over RC or UC, whose payload came with the request or that has
        /// none.
        write_inline_ns: f64 ["ns"],
        /// Transmit engine's time per SEND over UD whose payload came with the request or that has none.
        send_ud_ns: f64 ["ns"],
        /// Transmit engine's time per READ request.
        read_ns: f64 ["ns"],
        /// Transmit engine's time per CAS or FAA request.
        atomic_ns: f64 ["ns"],
        /// Transmit engine's time per WRITE or SEND whose payload is fetched from host memory, by payload bytes.
        gather_ns: Curve ["ns"],
        /// Transmit engine's time per response to a READ or an atomic, by payload bytes.
        response_ns: Curve ["ns"],
        /// Transmit engine's time per positive or negative acknowledgement (RC).
        ack_ns: f64 ["ns"],
    }
    /// Receive engine: time per item.
    rx: Rx {
        /// Receive engine's time per WRITE over UC without immediate data, by payload bytes.
        write_uc_ns: Curve ["ns"],
        /// Receive engine's time per WRITE over RC without immediate data, by payload bytes.
        write_rc_ns: Curve ["ns"],
        /// Receive engine's time per READ request, at the responder.
        read_ns: f64 ["ns"],
        /// Receive engine's time per CAS or FAA request, at the responder.
        atomic_ns: f64 ["ns"],
        /// Receive engine's time per message with payload that takes a RECV (SEND, or WRITE with immediate data),
        /// completion included.
        recv_ns: f64 ["ns"],
        /// Receive engine's time per message without payload that takes a RECV, completion included.
        recv_header_ns: f64 ["ns"],
        /// Receive engine's time per message whose payload is written inside the completion. The simulator ignores it.
        recv_inline_ns: f64 ["ns"],
        /// Receive engine's time per response to a READ or an atomic, at the requester, without the completion; by
        /// payload bytes.
        response_ns: Curve ["ns"],
        /// Receive engine's time per positive or negative acknowledgement, at the requester, without the completion.
        ack_ns: f64 ["ns"],
        /// Receive engine's additional time for the completion of a signaled request, when its acknowledgement or
        /// response arrives (RC).
        cqe_ns: f64 ["ns"],
        /// Receive engine's time, at the requester, for the completion of a signaled UC or UD request, which has no
        /// answer.
        self_cqe_ns: f64 ["ns"],
    }
    /// Unit for CAS and FAA.
    atomics: Atomics {
        /// Number of locks; 0 counts as 1. Operations on words whose offsets in their regions, divided by 8, are equal
        /// modulo this number (a power of two) exclude each other.
        buckets: u64 ["count"],
        /// Time for which an operation holds its lock.
        hold_ns: f64 ["ns"],
        /// The unit's own time per operation.
        unit_ns: f64 ["ns"],
        /// Most operations that may wait for or hold locks, 0 counting as 1; beyond that the unit itself stops.
        waiting: u64 ["count"],
    }
    /// Link between two cards: its bandwidth, and the bytes of packets.
    link: Link {
        /// Usable bandwidth of the link in one direction.
        bytes_per_ns: f64 ["B/ns"],
        /// Header bytes of each packet of a WRITE.
        write_header: f64 ["B"],
        /// Header bytes of each packet of a SEND over RC or UC.
        send_header: f64 ["B"],
        /// Header bytes of a SEND over UD.
        ud_header: f64 ["B"],
        /// Bytes of a READ request.
        read_request: f64 ["B"],
        /// Bytes of a CAS or FAA request.
        atomic_request: f64 ["B"],
        /// Header bytes of each packet of a response to a READ or an atomic.
        response_header: f64 ["B"],
        /// Bytes of a positive or negative acknowledgement.
        ack_bytes: f64 ["B"],
        /// Bytes that every packet has in addition to the RDMA headers (those of Ethernet and IP below them).
        packet_extra: f64 ["B"],
        /// Most payload bytes of one packet.
        mtu: u64 ["B"],
    }
    /// The bus between card and host.
    pcie: Pcie {
        /// Bandwidth of the bus from card to host.
        out_bytes_per_ns: f64 ["B/ns"],
        /// Bandwidth of the bus from host to card.
        in_bytes_per_ns: f64 ["B/ns"],
        /// Header bytes of each PCIe write, of the card or of a core, and of the card's read request for each READ, CAS
        /// or FAA that it serves (its other read requests take no bandwidth).
        request_tlp: f64 ["B"],
        /// Header bytes of each completion of a PCIe read.
        completion_tlp: f64 ["B"],
        /// Most payload bytes of one PCIe write.
        write_payload: u64 ["B"],
        /// Most payload bytes of one completion of a PCIe read.
        completion_payload: u64 ["B"],
        /// Bytes of a completion-queue entry, without headers.
        cqe_bytes: f64 ["B"],
    }
    /// Delays that occupy no resource.
    latency: Latency {
        /// Delay from a core's MMIO write until the card has it.
        mmio_ns: f64 ["ns"],
        /// Additional delay of MMIO writes from a socket that the card is not attached to.
        far_socket_ns: f64 ["ns"],
        /// Delay from the transmit engine to the port.
        tx_ns: f64 ["ns"],
        /// Delay from the port to the receive engine.
        rx_ns: f64 ["ns"],
        /// Delay over cable and switch, one way.
        wire_ns: f64 ["ns"],
        /// Delay from the card's write over the bus until the bytes are visible to the host.
        dma_write_ns: f64 ["ns"],
        /// Delay of a read of host memory by the card, in addition to the time on the bus.
        dma_read_ns: f64 ["ns"],
        /// Additional delay of the payload fetch of a gathered request (two dependent reads, address translation).
        gather_ns: f64 ["ns"],
        /// Delay from when the receive engine has served an RC SEND or WRITE until its acknowledgement reaches the
        /// transmit engine; in torn mode not before the last line is visible.
        ack_ns: f64 ["ns"],
    }
    /// Cache of queue-pair contexts.
    context: Contexts {
        /// Total weight of the queue-pair contexts that fit the cache.
        capacity: f64 ["weight"],
        /// Weight, in the cache, of a queue pair's context as requester.
        weight_out: f64 ["weight"],
        /// Weight, in the cache, of an RC or UC queue pair's context as responder (a UD queue pair has only
        /// `weight_out`).
        weight_in: f64 ["weight"],
        /// Transmit engine's additional time per request whose context is not cached.
        miss_tx_ns: f64 ["ns"],
        /// Receive engine's additional time per RC request whose context is not cached.
        miss_rx_rc_ns: f64 ["ns"],
        /// Receive engine's additional time per UC or UD request whose context is not cached.
        miss_rx_uc_ns: f64 ["ns"],
        /// Number of requester contexts that fit a smaller first-level cache; 0: there is none.
        near_entries: u64 ["count"],
        /// Transmit engine's additional time per inline request whose context is only in the larger cache.
        near_miss_ns: f64 ["ns"],
    }
    /// Cache of work requests between MMIO ingest and the engines.
    wqe_cache: WqeCache {
        /// Number of sets of the cache of work requests; 1 (or 0) is a plain FIFO.
        sets: u64 ["count"],
        /// Number of work requests per set.
        ways: u64 ["count"],
        /// Transmit engine's additional time per READ or atomic that is fetched again.
        miss_read_tx_ns: f64 ["ns"],
        /// Receive engine's additional time per response whose request is fetched again.
        miss_read_rx_ns: f64 ["ns"],
        /// Transmit engine's additional time per WRITE or SEND that is fetched again.
        miss_write_tx_ns: f64 ["ns"],
    }
    /// Cache of address translations. The simulator does not model it.
    mtt: Mtt {
        /// Number of translations that the cache holds; 0: there is no cache. The simulator ignores it.
        entries: u64 ["count"],
        /// Bytes of memory that one translation covers. The simulator ignores it.
        page_bytes: u64 ["B"],
        /// Additional time of the card's engines per translation that is not cached. The simulator ignores it.
        miss_ns: f64 ["ns"],
    }
    /// Limits of a queue pair.
    qp: Qp {
        /// Most READs and atomics that a queue pair has outstanding as requester; further ones wait in the card.
        reads_max: u64 ["count"],
        /// Most bytes of an inline payload; the capabilities of cards report it.
        inline_max: u64 ["B"],
        /// Shortest time between requests of one queue pair that are fetched by DMA; 0: they may follow at once.
        fetch_spacing_ns: f64 ["ns"],
    }
    /// Doorbell registers, and the times for which posts hold their locks.
    lock: Lock {
        /// Number of low-latency registers per process: its first queue pairs get one each, without a lock.
        low_registers: u64 ["count"],
        /// Number of lockable registers that all other queue pairs of a process share round-robin, without register 0,
        /// which the driver keeps back; 0: there are no locks.
        shared_registers: u64 ["count"],
        /// Time for which a post holds the lock of its doorbell register.
        hold_ns: f64 ["ns"],
        /// Additional hold time of a post whose first request is a READ or atomic.
        read_extra_ns: f64 ["ns"],
        /// Additional hold time per thread that waits for the lock.
        per_waiter_ns: f64 ["ns"],
        /// Further hold time per waiting thread, if the poster's core is on a socket that the card is not attached to.
        per_far_waiter_ns: f64 ["ns"],
        /// Time until the lines of a shared queue have moved from another core, under the queue's lock.
        queue_ns: f64 ["ns"],
        /// Additional time per thread that waits for the lock of a shared queue.
        queue_per_waiter_ns: f64 ["ns"],
    }
    /// Costs of verbs for a core.
    cpu: CpuCosts {
        /// Core's time to post one request of one line, or a list's first request.
        post_ns: f64 ["ns"],
        /// Core's time per further line of a request that it writes.
        line_ns: f64 ["ns"],
        /// Core's time per further request of a list (the first costs `post_ns`).
        list_ns: f64 ["ns"],
        /// Core's time per completion that a poll finds.
        poll_ns: f64 ["ns"],
        /// Core's time per poll that finds no completion.
        poll_empty_ns: f64 ["ns"],
        /// Core's time to post a RECV, alone or as the first of a list.
        recv_ns: f64 ["ns"],
        /// Core's time per further RECV of a list.
        recv_list_ns: f64 ["ns"],
        /// Time from when bytes or a completion are visible until an idle core notices them, in addition to the delay
        /// that the position in its polling round causes.
        detect_ns: f64 ["ns"],
        /// Core's time per batch in benchmarks that post a batch and wait for all of it. Microbenchmarks charge it.
        batch_tail_ns: f64 ["ns"],
        /// Core's time to check one empty slot in a scan of memory. Programs charge it, verbs do not.
        slot_poll_ns: f64 ["ns"],
    }
    /// Times and limits of a core's memory accesses.
    memory: Memory {
        /// Time of a random memory access that misses all caches.
        dram_ns: f64 ["ns"],
        /// Time of a memory access that hits the last-level cache. In the simulator it holds only, and always, the
        /// regions that peers may write.
        llc_ns: f64 ["ns"],
        /// Time of a memory access that hits the second-level cache. The simulator ignores it.
        l2_ns: f64 ["ns"],
        /// Time to issue a prefetch.
        prefetch_ns: f64 ["ns"],
        /// Most prefetched lines in flight from DRAM per core, clamped to 1 to 32.
        prefetch_slots: u64 ["count"],
        /// Number of independent misses that overlap without prefetching. Only microbenchmarks use it.
        overlap: f64 ["factor"],
        /// Time per byte of a sequential access, after its first line.
        copy_ns_per_byte: f64 ["ns/B"],
        /// Bytes of a socket's last-level cache. The simulator ignores it.
        llc_bytes: u64 ["B"],
        /// Number of ways of the last-level cache. The simulator ignores it.
        llc_ways: u64 ["count"],
        /// Number of ways of the last-level cache that a card's writes may fill. The simulator ignores it.
        ddio_ways: u64 ["count"],
        /// 1: random accesses to tables miss all caches; 0: some hit. The simulator ignores it and does as with 1.
        tables_always_miss: u64 ["switch"],
    }
}
