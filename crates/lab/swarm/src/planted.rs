//! Mistakes of HERD that a campaign must find. Each is a switch that no binary sets: of the server's options, or of the fabric.

use crate::options::Options;
use crate::subject;
use drover_kv_herd::server::Flaw;

/// A mistake of HERD.
pub type Planted = subject::Planted<Mistake>;

/// Where the switch is.
#[derive(Clone, Copy, Debug)]
pub enum Mistake {
    /// In the server.
    Server(Flaw),
    /// [`FaultOptions::splits_late`](drover_verbs_suite::faulty::FaultOptions::splits_late).
    Fabric,
}

/// All of them.
pub const ALL: &[Planted] = &[
    Planted {
        name: "no-seq-check",
        about: "a request is executed whatever its sequence number says",
        scenario: "delay",
        mistake: Mistake::Server(Flaw::ForgetsResync),
    },
    Planted {
        name: "put-twice",
        about: "an update that arrives again is executed again",
        scenario: "loss",
        mistake: Mistake::Server(Flaw::ExecutesTwice),
    },
    Planted {
        name: "leftovers",
        about: "a worker that begins again executes what stands in the slots",
        scenario: "default",
        mistake: Mistake::Server(Flaw::ExecutesLeftovers),
    },
    Planted {
        name: "no-checksum",
        about: "a request is executed though its checksum says that it has not landed",
        scenario: "default",
        mistake: Mistake::Server(Flaw::IgnoresCrc),
    },
    Planted {
        name: "ids-at-once",
        about: "a client's number is given out again before the workers have let go of it",
        scenario: "default",
        mistake: Mistake::Server(Flaw::ReusesIdsAtOnce),
    },
    Planted {
        name: "no-nop",
        about: "the pipeline is pushed on by new requests alone",
        scenario: "default",
        mistake: Mistake::Server(Flaw::NoNop),
    },
    Planted {
        name: "believes-slots",
        about: "a worker that restarts learns the number of a slot's last request from the slot",
        scenario: "restart",
        mistake: Mistake::Server(Flaw::RestartBelievesSlots),
    },
    Planted {
        name: "rebuilds",
        about: "a long reply is built where an earlier one may still be sent from",
        scenario: "default",
        mistake: Mistake::Server(Flaw::RebuildsReplies),
    },
    Planted {
        name: "idles",
        about: "a worker says that it is idle though datagrams wait, because it ignored the last ones",
        scenario: "backlog",
        mistake: Mistake::Server(Flaw::IdlesBehindDatagrams),
    },
    Planted {
        name: "splits-late",
        about: "the fabric cuts late WRITEs into lines and loses some of them",
        scenario: "packet",
        mistake: Mistake::Fabric,
    },
];

/// The mistake of this name.
pub fn named(name: &str) -> Option<&'static Planted> {
    ALL.iter().find(|planted| planted.name == name)
}

impl Mistake {
    /// Switches it on.
    pub(crate) fn plant(self, options: &mut Options) {
        match self {
            Mistake::Server(flaw) => options.server.flaw = Some(flaw),
            Mistake::Fabric => {
                options.messages.splits_late = true;
                // Often enough for a few hundred seeds.
                (options.messages.delay, options.loss) = (0.1, 0.1);
            }
        }
    }
}
