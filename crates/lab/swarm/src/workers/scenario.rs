//! Scenarios of services of workers: selections of kinds of trouble, one line each.

use super::kind::Kind::{self, *};
use crate::scenario::Scenario;
use crate::subject::Trouble;

/// Kinds that change only sizes and clocks, and go with any scenario.
const SIZES: &[Kind] = &[Skew, Narrow, Conflicts, Pipeline, ShortQueues];

/// All scenarios of services of workers; the first is the default.
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
        name: "loss",
        about: "requests and replies get lost",
        always: &[Loss],
        maybe: &[Packets, Skew, Narrow, Conflicts, Pipeline, ShortQueues],
    },
    Scenario {
        name: "duplicate",
        about: "requests and replies arrive twice",
        always: &[Duplicates],
        maybe: &[Loss, Skew, Narrow, Conflicts, Pipeline],
    },
    Scenario {
        name: "delay",
        about: "messages come late, or after later ones",
        always: &[Delays],
        maybe: &[Loss, Duplicates, Skew, Narrow, Conflicts],
    },
    Scenario {
        name: "tear",
        about: "requests land line by line",
        always: &[Tearing],
        maybe: &[Loss, Delays, Large, Narrow, Pipeline],
    },
    Scenario {
        name: "server",
        about: "the server crashes and comes back empty",
        always: &[Servers],
        maybe: &[Loss, Delays, Stalls, Narrow, Conflicts, Datagrams, Large],
    },
    Scenario {
        name: "worker",
        about: "workers begin again with an empty partition",
        always: &[Workers],
        maybe: &[Loss, Duplicates, Delays, Narrow, Conflicts, Datagrams, Pipeline],
    },
    Scenario {
        name: "client",
        about: "clients crash and others take their places",
        always: &[Clients],
        maybe: &[Loss, Delays, Workers, Narrow, Conflicts, Datagrams, Large],
    },
    Scenario {
        name: "goodbye",
        about: "clients say goodbye in the middle of things, and others come",
        always: &[Goodbyes],
        maybe: &[Loss, Delays, Stalls, Narrow, Conflicts, Datagrams, Large],
    },
    Scenario {
        name: "paper",
        about: "clients speak the paper's format over a network that loses messages",
        always: &[Paper],
        maybe: &[Loss, Workers, Clients, Stalls, Skew, Pipeline],
    },
    Scenario {
        name: "stall",
        about: "cores stop for a while",
        always: &[Stalls],
        maybe: &[Loss, Skew, Narrow, Conflicts, ShortQueues],
    },
    Scenario {
        name: "silence",
        about: "cores stop until the other end gives them up for dead, and go on",
        always: &[Silence],
        maybe: &[Loss, Skew, Narrow, Conflicts, Datagrams],
    },
    Scenario {
        name: "skew",
        about: "clocks of cores differ by milliseconds, items expire",
        always: &[Skew, Expiry],
        maybe: &[Loss, Workers],
    },
    Scenario {
        name: "pressure",
        about: "memory for a few items: eviction, expiry, full stores",
        always: &[Pressure],
        maybe: &[Loss, Duplicates, Expiry, Large, Pipeline],
    },
    Scenario {
        name: "narrow",
        about: "windows of one or two requests, slots of one or two lines, short send queues",
        always: &[Narrow, ShortQueues],
        maybe: &[Loss, Delays, Conflicts, Stalls],
    },
    Scenario {
        name: "datagram",
        about: "requests as datagrams",
        always: &[Datagrams],
        maybe: &[Loss, Duplicates, Delays, Clients, Workers, Narrow, Conflicts],
    },
    Scenario {
        name: "large",
        about: "values longer than slots, over connections that break",
        always: &[Large],
        maybe: &[
            Loss, Packets, Breaks, Delays, Tearing, Conflicts, Clients, Servers,
        ],
    },
    Scenario {
        name: "pause",
        about: "cores stop for about as long as a timer runs",
        always: &[Pauses],
        maybe: &[
            Loss,
            Skew,
            Narrow,
            Conflicts,
            Large,
            Servers,
            Workers,
            Clients,
            ShortQueues,
        ],
    },
    Scenario {
        name: "backlog",
        about: "requests as datagrams pile up while cores stop, machines crash, or both",
        always: &[Datagrams, Backlog],
        maybe: &[
            Pauses, Stalls, Silence, Loss, Duplicates, Delays, Servers, Clients, Workers, Narrow, Conflicts,
            Pipeline,
        ],
    },
    Scenario {
        name: "restart",
        about: "workers restart again and again, while messages come late or twice",
        always: &[Restarts],
        maybe: &[Loss, Narrow, Datagrams, Pauses, Pipeline, Large],
    },
    Scenario {
        name: "packet",
        about: "the network loses packets, and messages come late",
        always: &[Packets, Delays],
        maybe: &[Duplicates, Loss, Narrow, Conflicts, Large, Pauses],
    },
    Scenario {
        name: "conflict",
        about: "everybody wants the same few keys",
        always: &[Conflicts],
        maybe: &[Loss, Duplicates, Delays, Stalls, Skew],
    },
    Scenario {
        name: "storm",
        about: "most messages are lost",
        always: &[Storm],
        maybe: &[
            Delays, Workers, Narrow, Conflicts, Pressure, Large, Datagrams, Oversize,
        ],
    },
    Scenario {
        name: "ordered",
        about: "a fabric that keeps WRITEs and their order: operations on one key behind one another",
        always: &[Ordered],
        maybe: &[
            Skew,
            Large,
            Narrow,
            Conflicts,
            Pressure,
            Pipeline,
            ShortQueues,
            Oversize,
        ],
    },
    Scenario {
        name: "crowd",
        about: "more clients than are polled all the time, and no place for more",
        always: &[Crowd],
        maybe: &[
            Loss, Clients, Goodbyes, Stalls, Narrow, Datagrams, Pipeline, FullHouse,
        ],
    },
    Scenario {
        name: "shutdown",
        about: "the server says goodbye, another one takes its place",
        always: &[Shutdowns],
        maybe: &[Loss, Stalls, Conflicts, Large, Datagrams, FullHouse],
    },
    Scenario {
        name: "non-client",
        about: "peers that are no clients connect",
        always: &[NonClients],
        maybe: &[Loss, Clients, Goodbyes, Servers, Datagrams, Crowd, FullHouse],
    },
    Scenario {
        name: "limits",
        about: "values longer than the server takes, little space for what waits",
        always: &[Oversize, ShortWaits],
        maybe: &[Loss, Delays, Breaks, Narrow, Conflicts, Servers, Datagrams],
    },
];

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_kind_is_somewhere() {
        let names: BTreeSet<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), ALL.len());
        for &kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
        let kinds: BTreeSet<Kind> = (0..200).flat_map(|seed| ALL[0].kinds(seed)).collect();
        assert_eq!(kinds.len(), Kind::ALL.len());
    }

    #[test]
    fn leaving_a_kind_out_changes_no_other() {
        let all = Options::draw(3, &[Loss, Stalls, Skew]);
        let less = Options::draw(3, &[Loss, Skew]);
        assert_eq!(all.network.messages, less.network.messages);
        assert_eq!(all.machines.skew_max, less.machines.skew_max);
    }
}
