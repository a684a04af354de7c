//! Set-ups that several figures share. Where a paper says "tuned", the window is our compromise.

use crate::cluster::Doorbells;
use crate::figure::Point;
use crate::micro::{Count, Issuers, Pacing, Posting, Targets, Verb, Verbs, Wiring};
use drover_verbs::QpKind;

/// Payload sizes of HERD's in-bound figures.
pub const SIZES: [usize; 17] = [
    4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 384, 512, 640, 768, 896, 1024,
];

/// A benchmark in which one thread posts a request to another machine and waits for its completion before the next.
pub fn alone(verb: Verb, kind: QpKind, bytes: usize, inline: bool) -> Verbs {
    Verbs {
        verb,
        kind,
        bytes,
        inline,
        words: 1,
        issuers: Issuers {
            machines: 1,
            processes: 1,
            threads: 1,
        },
        targets: Targets {
            machines: 1,
            processes: 1,
        },
        wiring: Wiring::OneToOne,
        queue_pairs: 1,
        posting: Posting::paced(Pacing::Window(1)),
        doorbells: Doorbells::Driver,
        count: Count::Issued,
    }
}

/// A benchmark in which `processes` threads, one per process, on each of `machines` machines post to one target
/// machine, with up to 8 requests outstanding each. The requests that the target serves count.
pub fn inbound(verb: Verb, kind: QpKind, bytes: usize, machines: usize, processes: usize) -> Verbs {
    Verbs {
        issuers: Issuers {
            machines,
            processes,
            threads: 1,
        },
        posting: Posting::paced(Pacing::Window(8)),
        count: Count::Served,
        ..alone(verb, kind, bytes, inlined(verb, bytes))
    }
}

/// A benchmark in which `processes` processes of one machine post, each to a different machine, with up to 8 requests
/// outstanding each.
pub fn outbound(verb: Verb, kind: QpKind, bytes: usize, inline: bool, processes: usize) -> Verbs {
    Verbs {
        issuers: Issuers {
            machines: 1,
            processes,
            threads: 1,
        },
        targets: Targets {
            machines: processes,
            processes: 1,
        },
        posting: Posting {
            signal_every: 4,
            ..Posting::paced(Pacing::Window(8))
        },
        ..alone(verb, kind, bytes, inline)
    }
}

/// Whether the figures send a payload of `bytes` inline: only for WRITE and SEND, and up to 188 bytes.
pub fn inlined(verb: Verb, bytes: usize) -> bool {
    matches!(verb, Verb::Write | Verb::Send) && bytes <= 188
}

/// For figures of papers later than HERD: makes a point on `apt`, HERD's cluster, use their faster posting loop (80 ns
/// of CPU time per post). Points on other profiles stay as they are.
pub fn lean_loop(point: Point) -> Point {
    if point.profile == "apt" {
        point.with("cpu.post_ns", 80.0)
    } else {
        point
    }
}
