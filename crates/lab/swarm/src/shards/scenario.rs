//! Scenarios of services of shards: selections of kinds of trouble, one line each.

use super::kind::Kind::{self, *};
use crate::scenario::Scenario;
use crate::subject::Trouble;

/// Kinds that change only sizes and clocks, and go with any scenario.
const SIZES: &[Kind] = &[Skew, Narrow, Conflicts, Arrivals];

/// All scenarios of services of shards; the first is the default.
pub const ALL: &[Scenario<Kind>] = &[
    Scenario {
        name: "default",
        about: "a mixture of everything, other in every seed",
        always: &[],
        maybe: Kind::ALL,
    },
    Scenario {
        name: "calm",
        about: "nothing goes wrong",
        always: &[],
        maybe: SIZES,
    },
    Scenario {
        name: "packet",
        about: "the network loses packets",
        always: &[Packets],
        maybe: &[Tearing, Skew, Narrow, Conflicts, Large],
    },
    Scenario {
        name: "break",
        about: "connections break, before or after a request was carried out",
        always: &[Breaks],
        maybe: &[
            Packets,
            Tearing,
            Narrow,
            Conflicts,
            Large,
            SmallTables,
            Deaths,
            Conditions,
        ],
    },
    Scenario {
        name: "tear",
        about: "lines of what is read and written become visible one by one",
        always: &[Tearing],
        maybe: &[
            Packets, Stalls, Conflicts, Large, Pressure, Narrow, TornWords, Conditions,
        ],
    },
    Scenario {
        name: "service",
        about: "the service crashes and comes back empty, under another seed of its hash",
        always: &[Service],
        maybe: &[Packets, Stalls, Narrow, Conflicts, Large, Clients, SmallTables],
    },
    Scenario {
        name: "shard",
        about: "single shards crash and come back empty",
        always: &[Shards],
        maybe: &[Packets, Stalls, Narrow, Conflicts, Large, Clients, SmallTables],
    },
    Scenario {
        name: "client",
        about: "clients crash, others come",
        always: &[Clients, Arrivals],
        maybe: &[
            Packets,
            Breaks,
            Stalls,
            Narrow,
            Conflicts,
            Large,
            SmallTables,
            Deaths,
            Conditions,
        ],
    },
    Scenario {
        name: "death",
        about: "clients' processes die, while their machines live",
        always: &[Deaths],
        maybe: &[
            Packets,
            Breaks,
            Stalls,
            Narrow,
            Conflicts,
            Large,
            SmallTables,
            Pressure,
            Arrivals,
            Conditions,
        ],
    },
    Scenario {
        name: "stall",
        about: "cores stop for a while, some for about as long as a timer runs",
        always: &[Stalls, Pauses],
        maybe: &[
            Packets,
            Skew,
            Narrow,
            Conflicts,
            Large,
            Service,
            SmallTables,
            Pressure,
        ],
    },
    Scenario {
        name: "silence",
        about: "cores stop until the other end gives them up for dead, and go on",
        always: &[Silence],
        maybe: &[Packets, Skew, Narrow, Conflicts, Large, SmallTables],
    },
    Scenario {
        name: "skew",
        about: "clocks of cores differ by milliseconds, items expire",
        always: &[Skew, Expiry],
        maybe: &[Packets, Service, Pressure],
    },
    Scenario {
        name: "pressure",
        about: "memory for a few items: eviction, expiry, full stores",
        always: &[Pressure],
        maybe: &[Packets, Tearing, Expiry, Conflicts, Stalls],
    },
    Scenario {
        name: "table",
        about: "keys move in small tables that are nearly full, or grow, while they are read",
        always: &[SmallTables, Tearing],
        maybe: &[
            Packets, Arrivals, Narrow, Stalls, Pressure, Deaths, TornWords, Conditions,
        ],
    },
    Scenario {
        name: "large",
        about: "values longer than messages, over connections that break",
        always: &[Large],
        maybe: &[
            Packets, Breaks, Tearing, Conflicts, Clients, Service, Stalls, Oversize,
        ],
    },
    Scenario {
        name: "conflict",
        about: "everybody wants the same few keys",
        always: &[Conflicts],
        maybe: &[
            Packets, Breaks, Tearing, Stalls, Skew, Pressure, TornWords, Conditions,
        ],
    },
    Scenario {
        name: "crowd",
        about: "many clients that are silent most of the time",
        always: &[Crowd],
        maybe: &[Packets, Clients, Arrivals, Stalls, Narrow, Shards, SmallTables],
    },
    Scenario {
        name: "slow",
        about: "shards that pause after each step, so that operations take long",
        always: &[Slow],
        maybe: &[
            Packets, Breaks, Tearing, Arrivals, Narrow, Conflicts, Large, Service,
        ],
    },
];
