//! Whole services in virtual time, where everything goes wrong that a seed has drawn.
//!
//! Each item is at one member, or at two. What goes wrong: members are stopped and go on, also in the middle of a request; they die and start again under the same name;
//! they are cut off from the registry, or from clients and each other; the registry is slow, loses requests, replies and views, or is away; clocks run
//! at different speeds; messages overtake each other, and those about copies come twice, and
//! late, or not at all. Meanwhile members are drained, join again, leave, and a further one comes. Each kind happens in about half of the seeds.
//! What does not: memory is not corrupted, and clocks differ by less than the [lease allows](drover_cluster::Registration).
//!
//! What must hold is in [`check`]; [`Flaw`] lists the mistakes that must be found, which only the hosts of this simulation
//! make, never the crate. `DROVER_SEED` repeats a run; [`seeds`] has the tests.

mod check;
mod client;
mod faults;
mod host;
mod replicas;
mod scenario;
mod seeds;
mod world;

use check::Broken;
use world::World;

/// A mistake that is planted on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    /// A member serves a shard that it once had, whatever later maps say.
    NoEpochCheck,
    /// A member decides with a time of long ago, so that its lease never seems to end.
    LeaseNotHonoured,
    /// An owner that is asked to freeze a shard sends what has changed and goes on serving.
    NoBarrier,
    /// A member forwards requests that were forwarded to it.
    ForwardsTwice,
    /// A member takes its items of an earlier tenure for those of a new one.
    KeepsOldItems,
    /// An owner replies before the keepers of copies have what the replies say.
    RepliesEarly,
    /// An owner says that a copy is complete without having sent the items of before, so that it is promoted without them.
    CompletesUnfilled,
    /// An owner that has waited long for a keeper goes on, though no map says that the copy has begun again.
    ReleasesUncommitted,
    /// A keeper takes messages about copies of an earlier tenure, of which it compares no numbers.
    TakesOldTenures,
    /// A keeper takes messages that are older than the last one it took.
    TakesOldNumbers,
    /// No mistake but an operator's choice: members serve on when they cannot reach the registry.
    ServesOn,
    /// No mistake but a broken assumption: members' clocks are less than two thirds as fast as the registry's.
    SlowClocks,
}

impl Flaw {
    fn is_about_copies(self) -> bool {
        use Flaw::*;
        matches!(
            self,
            RepliesEarly | CompletesUnfilled | ReleasesUncommitted | TakesOldTenures | TakesOldNumbers
        )
    }
}

/// What happened in a run, to see that it was worth it.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    operations: u64,
    elsewhere: u64,
    forwarded: u64,
    handed_over: u64,
    lost: u64,
    pauses: u64,
    crashes: u64,
    suppressed: u64,
    promoted: u64,
    completed_copies: u64,
    restarted_copies: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.operations += other.operations;
        self.elsewhere += other.elsewhere;
        self.forwarded += other.forwarded;
        self.handed_over += other.handed_over;
        self.lost += other.lost;
        self.pauses += other.pauses;
        self.crashes += other.crashes;
        self.suppressed += other.suppressed;
        self.promoted += other.promoted;
        self.completed_copies += other.completed_copies;
        self.restarted_copies += other.restarted_copies;
    }
}

/// Plays one seed, of a service in which so many members have each item.
fn run(seed: u64, replicas: u8, flaw: Option<Flaw>) -> Result<Counts, Broken> {
    let mut world = World::new(seed, replicas, flaw);
    world.play()?;
    Ok(world.counts())
}
