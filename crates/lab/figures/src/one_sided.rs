//! [`OneSided`]: real systems whose GETs do not involve the server, as points of a figure.
//!
//! They are not the emulations that the papers compare with, which have no tables and compute no checksums: those are
//! in [`micro`](crate::micro). Verbs and memory accesses are charged; the systems' own code (checksums, decisions) is
//! not yet, so rates bound by a core, and latencies, are slightly too good.

use crate::figure::Job;
use crate::in_cluster::{Asked, InCluster, outcome};
use crate::micro::Outcome;
use drover_base::Ns;
use drover_index::hopscotch::SlotKind;
use drover_simcluster::{Farm, Load, Pilaf, run};

/// A one-sided system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Pilaf: a GET reads an entry, then the record.
    Pilaf,
    /// FaRM-KV with values of up to 32 bytes in its table: a GET reads a neighbourhood.
    Farm,
    /// FaRM-KV with values outside its table: a GET reads a neighbourhood, then the object.
    FarmOutside,
}

/// A set-up without profile and seed.
#[derive(Clone, Debug)]
pub struct OneSided {
    /// The system.
    pub system: System,
    /// Cores of the server, one shard each; GETs need none.
    pub cores: usize,
    /// Number of client processes.
    pub clients: usize,
    /// Number of machines with clients.
    pub machines: usize,
    /// Operations in flight per client.
    pub depth: usize,
    /// Operations of the clients.
    pub load: Load,
}

/// Keys in all shards together: three quarters of 2^15 slots.
const KEYS: u64 = 24_576;

/// Limit of a step: a shard answers all waiting requests in one step, at most somewhat more than the published set-up
/// has in flight.
const STEP_CAP: Ns = Ns::from_us(500);

impl OneSided {
    /// HERD's set-up: 51 clients on 17 machines, 4 operations each, 5 % PUTs, items of 48 bytes `[HERD §5.1, §5.3]`,
    /// one core, a table that is three quarters full.
    pub fn published(system: System) -> OneSided {
        OneSided {
            system,
            cores: 1,
            clients: 51,
            machines: 17,
            depth: 4,
            load: Load {
                keys: KEYS,
                ..Load::new()
            },
        }
    }
}

impl InCluster for OneSided {
    fn clients(&self) -> usize {
        self.clients
    }

    fn with_clients(&self, clients: usize) -> OneSided {
        OneSided {
            clients,
            ..self.clone()
        }
    }

    fn run(&self, job: &Job<'_>) -> Outcome {
        let asked = Asked {
            clients: self.clients,
            machines: self.machines,
            depth: self.depth,
            load: self.load.clone(),
        };
        let mut setup = asked.setup(job);
        setup.world.step_cap = STEP_CAP;
        let (cores, share) = (self.cores, self.load.keys / self.cores as u64);
        let farm = |kind| Farm {
            shards: cores,
            kind,
            ..Farm::for_keys(share)
        };
        let found = match self.system {
            System::Pilaf => {
                let pilaf = Pilaf {
                    shards: cores,
                    ..Pilaf::for_keys(share)
                };
                run(&setup, &pilaf)
            }
            System::Farm => run(&setup, &farm(SlotKind::Wide)),
            System::FarmOutside => run(&setup, &farm(SlotKind::Narrow)),
        };
        outcome(&setup, &found)
    }
}
