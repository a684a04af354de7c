//! Mistakes that a campaign must find. Each is a switch of the server's options that no binary sets.

use drover_kv_herd::server::Flaw;

/// A mistake.
#[derive(Debug)]
pub struct Planted {
    /// As it is typed.
    pub name: &'static str,
    /// What is wrong then.
    pub about: &'static str,
    /// The switch.
    pub flaw: Flaw,
}

/// All of them.
pub const ALL: &[Planted] = &[
    Planted {
        name: "no-seq-check",
        about: "a request is executed whatever its sequence number says",
        flaw: Flaw::ForgetsResync,
    },
    Planted {
        name: "put-twice",
        about: "an update that arrives again is executed again",
        flaw: Flaw::ExecutesTwice,
    },
    Planted {
        name: "leftovers",
        about: "a worker that begins again executes what stands in the slots",
        flaw: Flaw::ExecutesLeftovers,
    },
    Planted {
        name: "no-checksum",
        about: "a request is executed though its checksum says that it has not landed",
        flaw: Flaw::IgnoresCrc,
    },
    Planted {
        name: "ids-at-once",
        about: "a client's number is given out again before the workers have let go of it",
        flaw: Flaw::ReusesIdsAtOnce,
    },
    Planted {
        name: "no-nop",
        about: "the pipeline is pushed on by new requests alone",
        flaw: Flaw::NoNop,
    },
];

impl Planted {
    /// The mistake of this name.
    pub fn named(name: &str) -> Option<&'static Planted> {
        ALL.iter().find(|planted| planted.name == name)
    }
}
