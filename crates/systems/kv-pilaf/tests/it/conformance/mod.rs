//! Pilaf passes the suite of key-value systems, and what its readers are told in simulated clusters.

mod growth;
mod race;
mod reads;

mod suite {
    drover_testkit::shard_suite!(drover_kv_pilaf::Pilaf);
}

/// Pilaf's clients WRITE nothing at their server: no memory there is one client's.
#[test]
fn flaw_grants_writes_is_caught() {
    use drover_testkit::beds::providers::Loopback;
    use drover_testkit::beds::{ShardsBed, WithFaults};
    use drover_testkit::kv_conformance::key_mistake_is_caught;
    use drover_verbs_suite::faulty::KeyMistake;

    type Bed = ShardsBed<drover_kv_pilaf::Pilaf, WithFaults<Loopback>>;
    key_mistake_is_caught::<Bed>(KeyMistake::GrantsWrites);
}
