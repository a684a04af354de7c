//! [`OneSided`]: real systems whose GETs do not involve the server, as points of a figure.
//!
//! They are not the emulations that the papers compare with, which have no tables and compute no checksums: those are
//! in [`micro`](crate::micro). Verbs and memory accesses are charged; the systems' own code (checksums, decisions) is
//! not yet, so rates bound by a core, and latencies, are slightly too good.

use crate::figure::Job;
use crate::in_cluster::{Asked, InCluster, outcome};
use crate::micro::Outcome;
use drover_base::Ns;
use drover_kv::{ShardedJob, ShardedSystem, SystemTable, TableShape};
use drover_simcluster::{Load, Setup, Shards, run};
use drover_systems::System;

/// A system of shards with one of its tables, which is a curve of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// Name of the curve.
    pub name: &'static str,
    system: System,
    table: TableShape,
}

impl Form {
    /// Every system of shards with each of its tables, in the order of the table of systems.
    pub fn all() -> Vec<Form> {
        let forms = |&system: &System| {
            let tables = system.sharded(Tables).unwrap_or_default();
            let form = move |&(name, table)| Form { name, system, table };
            tables.iter().map(form)
        };
        System::ALL.iter().flat_map(forms).collect()
    }
}

struct Tables;

impl ShardedJob for Tables {
    type Answer = &'static [(&'static str, TableShape)];

    fn run<S: ShardedSystem>(self) -> Self::Answer {
        S::TABLES
    }
}

/// Set-up of a run of a system of shards; profile and seed come from the [`Job`].
#[derive(Clone, Debug)]
pub struct OneSided {
    /// The system and its table.
    pub form: Form,
    /// Cores of the server, one shard each; only PUTs use them.
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
    pub fn published(form: Form) -> OneSided {
        OneSided {
            form,
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
        let run = Run {
            one_sided: self,
            setup: &setup,
        };
        let found = self.form.system.sharded(run);
        let Ok(found) = found else {
            unreachable!("a form is of a system of shards");
        };
        outcome(&setup, &found)
    }
}

struct Run<'a> {
    one_sided: &'a OneSided,
    setup: &'a Setup,
}

impl ShardedJob for Run<'_> {
    type Answer = drover_simcluster::Outcome;

    fn run<S: ShardedSystem>(self) -> Self::Answer {
        let OneSided {
            form, cores, load, ..
        } = self.one_sided;
        let shards = Shards::<S>::for_keys(*cores, load.keys).with_table(form.table);
        run(self.setup, &shards)
    }
}
