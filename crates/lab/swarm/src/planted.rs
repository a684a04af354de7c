//! Mistakes of HERD that a campaign must find: of the server, whose type here has them as a parameter, or of the fabric.

use crate::options::Options;
use crate::subject;
use drover_kv_herd::server::{Mistake, Variant};

/// A mistake of HERD.
pub type Planted = subject::Planted<Wrong>;

/// Where a mistake is planted.
#[derive(Clone, Copy, Debug)]
pub enum Wrong {
    /// In the server.
    Server(Mistake),
    /// [`FaultOptions::splits_late`](drover_verbs_suite::faulty::FaultOptions::splits_late).
    Fabric,
}

/// The server of a run: with a mistake or without, with the paper's format or without. Only servers on a simulated fabric
/// are built as this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SimVariant {
    mistake: Option<Mistake>,
    /// Clients may speak the paper's format.
    pub(crate) paper_format: bool,
}

impl Variant for SimVariant {
    fn makes(self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn paper_format(self) -> bool {
        self.paper_format
    }
}

/// All mistakes.
pub const ALL: &[Planted] = &[
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
        name: "splits-late",
        about: "the fabric cuts late WRITEs into lines and loses some of them",
        scenario: "packet",
        mistake: Wrong::Fabric,
    },
];

/// The mistake called `name`.
pub fn named(name: &str) -> Option<&'static Planted> {
    ALL.iter().find(|planted| planted.name == name)
}

impl Wrong {
    /// Switches the mistake on.
    pub(crate) fn plant(self, options: &mut Options) {
        match self {
            Wrong::Server(mistake) => options.variant.mistake = Some(mistake),
            Wrong::Fabric => {
                options.network.messages.splits_late = true;
                // Frequent enough to be found in a few hundred seeds.
                (options.network.messages.delay, options.network.loss) = (0.1, 0.1);
            }
        }
    }
}
