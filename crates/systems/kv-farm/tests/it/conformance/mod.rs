//! FaRM-KV passes the suite of key-value systems, and what its readers are told in simulated clusters.

mod race;
mod reads;

mod suite {
    drover_testkit::shard_suite!(drover_kv_farm::Farm);
}
