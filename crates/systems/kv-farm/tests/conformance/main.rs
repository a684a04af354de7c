//! FaRM-KV passes the suite of key-value systems, and what its readers are told in simulated clusters.

#[path = "../../../../lab/testkit/shards/bed.rs"]
mod bed;
mod breaks;
#[path = "../../../kv-herd/tests/conformance/rooms.rs"]
mod clusters;
#[path = "../../../kv-herd/tests/conformance/fabrics.rs"]
mod fabrics;
#[path = "../../../kv-herd/tests/conformance/ground.rs"]
mod ground;
#[path = "../../../../lab/testkit/shards/once.rs"]
mod once;
mod race;
mod reads;
#[path = "../../../../lab/testkit/shards/sim_bed.rs"]
mod sim_bed;
#[path = "../../../../lab/testkit/shards/suite.rs"]
mod suite;
mod system;

/// How its readers are told what to do, and what they count.
mod readers {
    pub use drover_kv_farm::client::ClientStats;
    pub use drover_kv_farm::logic::Miss;
}
