//! [`HostingSystem`]: a system whose services host co-actors on the cores of their workers, beside native clients, and
//! whose items can outlive the process in a memory file.

use crate::{CoActors, OnCore, Service, ServiceStats, StartError, System};
use drover_base::{HashSeed, Ns};
use drover_cluster::ServedShards;
use drover_control::ControlListener;
use drover_mem::NativeCpu;
use drover_store::{PartitionOptions, WarmFile};
use drover_verbs::Provider;
use std::sync::Arc;
use std::time::Duration;

/// A system whose workers own [partitions](drover_store::Partition) and share their cores with
/// [co-actors](crate::CoActor).
pub trait HostingSystem: System {
    /// Options of each partition (one per worker) of a service of this plan.
    fn partition(plan: &Self::Plan) -> PartitionOptions;

    /// As [`start`](System::start), but with the co-actors, memory file, hash seed and clock of `hosting`.
    ///
    /// # Errors
    /// [`StartError`] if the service could not be started.
    fn start_hosting<P: Provider<Cpu = NativeCpu>>(
        device: &P::Device,
        plan: &Self::Plan,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
        hosting: Hosting<P>,
    ) -> Result<Box<dyn HostingService>, StartError>;
}

/// What a hosting service is started with besides its plan: the function that makes its co-actors, and the memory file,
/// hash seed and clock that it shares with them and with earlier processes.
pub struct Hosting<P: Provider> {
    /// The co-actors of the workers; `None`: they have none.
    pub co_actors: Option<CoActors<P>>,
    /// Memory file of the partitions; `None`: their memory is private. If there is one, its
    /// [`seed`](WarmFile::seed) must be the [`hash_seed`](Hosting::hash_seed) here.
    pub memory_file: Option<Arc<WarmFile>>,
    /// Secret of the key hash of all partitions; `None`: random.
    pub hash_seed: Option<HashSeed>,
    /// Seconds that the clock for expiry shows at the start of the server: the age of the memory file, otherwise 0.
    pub start_s: u32,
    /// Start of the server on the clock of the provider's cores ([`Cpu::now`](drover_base::Cpu::now)); `None`: when the
    /// service is started.
    pub started: Option<Ns>,
    /// Shards that this member of a service of several serves to native clients; `None`: it serves every key. With it,
    /// [`hash_seed`](Hosting::hash_seed) is that of the whole service.
    pub served: Option<Arc<ServedShards>>,
}

impl<P: Provider> Default for Hosting<P> {
    fn default() -> Hosting<P> {
        Hosting {
            co_actors: None,
            memory_file: None,
            hash_seed: None,
            start_s: 0,
            started: None,
            served: None,
        }
    }
}

/// A running service of a [`HostingSystem`].
pub trait HostingService: Service {
    /// Statistics of all workers. Blocks at most `patience` for each worker's answer, and at most `patience`, or a
    /// second if that is longer, for the control thread's.
    ///
    /// # Errors
    /// A text that names the threads that did not answer.
    fn stats(&self, patience: Duration) -> Result<ServiceStats, String>;
}

/// A job that is generic over hosting systems.
pub trait HostingJob {
    /// Result of the job.
    type Answer;

    /// Runs the job with system `S`.
    fn run<S: HostingSystem>(self) -> Self::Answer;
}
