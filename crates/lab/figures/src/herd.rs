//! [`Herd`]: the real key-value system in a simulated cluster, as a point of a figure.
//!
//! Nothing is emulated: servers and clients are those of `drover-kv-herd`, their tables hold items, every GET finds its
//! value or counts as a miss. Cores have the jitter of an ordinary system.

use crate::figure::{Job, Point};
use crate::in_cluster::{Asked, InCluster, outcome};
use crate::micro::Outcome;
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::control::Format;
use drover_kv_herd::server::{ReplyOptions, ServeMode, ServerOptions};
use drover_simcluster::{Load, Setup};

/// Variant of server and clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// As published: the paper's slots, its two-stage pipeline advanced by no-ops, one post per request and reply.
    Paper,
    /// As we ship it: our slots, batches of the available requests, one doorbell per list.
    Batches,
}

/// A set-up without profile and seed.
#[derive(Clone, Debug)]
pub struct Herd {
    /// Variant of server and clients.
    pub style: Style,
    /// Cores of the server, one partition each.
    pub cores: usize,
    /// Number of client processes.
    pub clients: usize,
    /// Number of machines with clients.
    pub machines: usize,
    /// Operations in flight per client.
    pub depth: usize,
    /// Maximum operations in flight per client and core: a power of two.
    pub window: usize,
    /// Operations of the clients.
    pub load: Load,
    /// Maximum size of values that are inline in replies, bytes.
    pub inline_bytes_max: usize,
}

/// Keys in all partitions together: the tables are twenty times the size of a core's caches.
const KEYS: u64 = 120_000;

/// Parts of the model and the set-ups chosen after a held-out value had been seen, in addition to the parameters that
/// are marked so.
pub const SEEN: [&str; 3] = [
    "herd-12: the curves `window 4 to each core`",
    "first-level cache of a core, last-level cache for what cards write (docs/herd-costs.md)",
    "herd-7: prefetched lines are remembered until they are used",
];

impl Herd {
    /// Six cores, 51 clients on 17 machines, 4 operations each, 5 % PUTs, items of 48 bytes; replies inline up to 144
    /// bytes `[HERD §5.1, §5.3]`.
    pub fn published() -> Herd {
        Herd {
            style: Style::Paper,
            cores: 6,
            clients: 51,
            machines: 17,
            depth: 4,
            window: 4,
            load: Load {
                keys: KEYS,
                ..Load::new()
            },
            inline_bytes_max: 144,
        }
    }

    /// Both styles as curves that are compared with the same published one.
    pub fn both_styles(self, profile: &'static str, series: &'static str, x: f64) -> [Point; 2] {
        let batches = Herd {
            style: Style::Batches,
            ..self.clone()
        };
        let batches = batches.point(profile, format!("{series} in batches"), x);
        let against = Some(series);
        [self.point(profile, series, x), Point { against, ..batches }]
    }

    /// The service in the simulated cluster.
    pub fn service(&self) -> drover_simcluster::Herd {
        drover_simcluster::Herd {
            server: ServerOptions {
                partition_count: self.cores,
                replies: ReplyOptions {
                    inline_bytes_max: self.inline_bytes_max,
                    ..self.style.server().replies
                },
                ..self.style.server()
            },
            client: ClientOptions {
                window: self.window,
                ..self.style.client()
            },
            format: self.style.format(),
        }
    }

    /// The set-up of the simulated cluster.
    pub fn setup(&self, job: &Job<'_>) -> Setup {
        let asked = Asked {
            clients: self.clients,
            machines: self.machines,
            depth: self.depth,
            load: self.load.clone(),
        };
        asked.setup(job)
    }
}

impl InCluster for Herd {
    fn clients(&self) -> usize {
        self.clients
    }

    fn with_clients(&self, clients: usize) -> Herd {
        Herd {
            clients,
            ..self.clone()
        }
    }

    fn run(&self, job: &Job<'_>) -> Outcome {
        let setup = self.setup(job);
        outcome(&setup, &drover_simcluster::run(&setup, &self.service()))
    }
}

impl Style {
    fn server(self) -> ServerOptions {
        let usual = ServerOptions {
            idle_sweeps: 1,
            ..ServerOptions::default()
        };
        match self {
            Style::Batches => usual,
            Style::Paper => ServerOptions {
                mode: ServeMode::Pipeline { drain: false },
                ..usual
            },
        }
    }

    fn format(self) -> Format {
        match self {
            Style::Batches => Format::D,
            Style::Paper => Format::P,
        }
    }

    fn client(self) -> ClientOptions {
        match self {
            Style::Batches => ClientOptions::default(),
            Style::Paper => ClientOptions {
                post_batch: 1,
                ..ClientOptions::default()
            },
        }
    }
}
