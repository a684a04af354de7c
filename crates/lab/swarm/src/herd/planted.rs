//! Mistakes that a campaign of HERD must find: mistakes of the server, which its type has as a parameter here, or of
//! the fabric.

use crate::subject::Planted;
use crate::workers::Wrong;
use drover_kv_herd::server::{Mistake, Variant};
use drover_store::{Mistake as InCache, Mistaken, Partition};

/// Variant of the simulated server: whether it makes a mistake, and whether it serves the format of HERD's paper. Only
/// simulated servers are built with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimVariant {
    /// Mistake that the server makes, if any.
    pub mistake: Option<Mistake>,
    /// Whether clients may use the format of HERD's paper.
    pub paper_format: bool,
}

impl Variant for SimVariant {
    type Sharing = Mistaken;

    fn plant(self, partition: &mut Partition<Mistaken>) {
        partition.plant(match self.mistake {
            Some(Mistake::InCache(mistake)) => Some(mistake),
            _ => None,
        });
    }

    fn makes(self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn paper_format(self) -> bool {
        self.paper_format
    }
}

/// All mistakes that campaigns of HERD must find, of the server or of the fabric.
pub const ALL: &[Planted<Wrong<Mistake>>] = &[
    Planted {
        name: "no-seq-check",
        about: "a request is executed whatever its sequence number says",
        scenario: "delay",
        mistake: Wrong::Server(Mistake::ForgetsResync),
    },
    Planted {
        name: "put-twice",
        about: "an update that arrives again is executed again",
        scenario: "loss",
        mistake: Wrong::Server(Mistake::ExecutesTwice),
    },
    Planted {
        name: "leftovers",
        about: "a worker that begins again executes what stands in the slots",
        scenario: "default",
        mistake: Wrong::Server(Mistake::ExecutesLeftovers),
    },
    Planted {
        name: "no-checksum",
        about: "a request is executed though its checksum says that it has not landed",
        scenario: "default",
        mistake: Wrong::Server(Mistake::IgnoresCrc),
    },
    Planted {
        name: "ids-at-once",
        about: "a client's number is given out again before the workers have let go of it",
        scenario: "default",
        mistake: Wrong::Server(Mistake::ReusesIdsAtOnce),
    },
    Planted {
        name: "no-nop",
        about: "the pipeline is pushed on by new requests alone",
        scenario: "default",
        mistake: Wrong::Server(Mistake::NoNop),
    },
    Planted {
        name: "believes-slots",
        about: "a worker that restarts learns the number of a slot's last request from the slot",
        scenario: "restart",
        mistake: Wrong::Server(Mistake::RestartBelievesSlots),
    },
    Planted {
        name: "rebuilds",
        about: "a long reply is built where an earlier one may still be sent from",
        scenario: "default",
        mistake: Wrong::Server(Mistake::RebuildsReplies),
    },
    Planted {
        name: "idles",
        about: "a worker says that it is idle though datagrams wait, because it ignored the last ones",
        scenario: "backlog",
        mistake: Wrong::Server(Mistake::IdlesBehindDatagrams),
    },
    Planted {
        name: "evicts-used",
        about: "an item leaves a log because it has been read",
        scenario: "pressure",
        mistake: Wrong::Server(Mistake::InCache(InCache::EvictsUsed)),
    },
    Planted {
        name: "renews-old",
        about: "what a longer value has replaced is kept at the tail of a log, and the longer value is lost",
        scenario: "pressure",
        mistake: Wrong::Server(Mistake::InCache(InCache::RenewsReplaced)),
    },
    Planted {
        name: "revives-ghost",
        about: "a PUT of a key that was evicted lately brings its old value back",
        scenario: "pressure",
        mistake: Wrong::Server(Mistake::InCache(InCache::RevivesEvicted)),
    },
    Planted {
        name: "splits-late",
        about: "the fabric cuts late WRITEs into lines and loses some of them",
        scenario: "packet",
        mistake: Wrong::Fabric,
    },
];
