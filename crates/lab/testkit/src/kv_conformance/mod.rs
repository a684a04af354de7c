//! The suite that every key-value system passes on every provider. A system supplies a [`Bed`]: how to start
//! a server, connect clients to it, and let it run. [`kv_calm_rules!`](crate::kv_calm_rules) and [`kv_fault_rules!`](crate::kv_fault_rules) list
//! the rules; [`kv_conformance_tests!`](crate::kv_conformance_tests) stamps one named test for each.
//!
//! The fault model: a fabric may lose, duplicate, delay, reorder and tear what is unreliable by contract
//! (UC WRITEs, UD SENDs), with the probabilities of [`Faults`]; a server may crash at any step and come back
//! empty. It may not invent bytes.

mod driver;
mod faults;
mod rules;

pub use driver::{Driver, Plan, value_bytes, value_id};
pub use faults::*;
pub use rules::*;

use drover_base::Cpu;
use drover_kv::KvClient;
use drover_verbs::Provider;

/// Probabilities per message of what an unreliable fabric may do.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Lost.
    pub drop: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Delivered late.
    pub delay: f64,
    /// Overtaken by a later one.
    pub reorder: f64,
    /// Landed line by line in any order (WRITEs).
    pub tear: f64,
}

/// What a rule wants of its server.
#[derive(Clone, Debug)]
pub struct BedOptions {
    /// Seed of everything random.
    pub seed: u64,
    /// Partitions (server cores).
    pub partition_count: usize,
    /// Operations in flight per client and partition.
    pub window: usize,
    /// Item memory per partition, bytes.
    pub memory_bytes: usize,
    /// Refuse instead of evicting.
    pub store_mode: bool,
    /// Largest item, bytes.
    pub item_bytes_max: usize,
    /// What the fabric does to messages.
    pub faults: Faults,
}

impl Default for BedOptions {
    fn default() -> BedOptions {
        BedOptions {
            seed: 1,
            partition_count: 2,
            window: 8,
            memory_bytes: 1 << 20,
            store_mode: false,
            item_bytes_max: 1 << 20,
            faults: Faults::default(),
        }
    }
}

/// One system on one provider, ready for tests.
pub trait Bed: Sized {
    /// The fabric.
    type P: Provider;
    /// The system's client.
    type Client: KvClient<Self::P>;

    /// Starts a server.
    fn start(options: &BedOptions) -> Self;

    /// Connects a client, completely.
    fn connect(&mut self) -> Self::Client;

    /// The core that tests and clients run on.
    fn cpu(&self) -> &<Self::P as Provider>::Cpu;

    /// Lets the server and the fabric run a little; where they have threads of their own, yields. Time passes.
    fn step(&mut self);

    /// Kills the server without a word and starts an empty one at the same address. `false`: this bed cannot.
    fn crash_and_restart(&mut self) -> bool;

    /// Seconds to wait out a time to live: moves virtual time, or sleeps where time is real.
    fn pass_seconds(&mut self, seconds: u64);

    /// Now, for histories.
    fn now(&self) -> u64 {
        self.cpu().refresh().0
    }
}

/// Stamps rules as `#[test]`s for the bed type `$bed`.
#[macro_export]
macro_rules! kv_conformance_tests {
    ($bed:ty: $($rule:ident),+ $(,)?) => {
        $(
            #[test]
            fn $rule() {
                $crate::kv_conformance::$rule::<$bed>();
            }
        )+
    };
}

/// Rules with their names, for programs that play them on the bed type `$bed`: a `&[(&str, fn())]`.
#[macro_export]
macro_rules! kv_conformance_table {
    ($bed:ty: $($rule:ident),+ $(,)?) => {
        &[$((stringify!($rule), $crate::kv_conformance::$rule::<$bed> as fn())),+]
    };
}

/// Gives the rules that want no faults of the fabric to `$with`, which is `kv_conformance_tests` or
/// `kv_conformance_table`.
#[macro_export]
macro_rules! kv_calm_rules {
    ($with:ident, $bed:ty) => {
        $crate::$with! { $bed:
        a_value_comes_back, overwriting_changes_length, zero_length_values, key_and_value_limits,
        delete_then_miss, binary_keys_and_values, ttl_expires, program_order_on_one_key,
        agrees_with_a_map, window_full_is_flow_control, large_values_round_trip,
        large_and_small_on_one_key, clients_are_linearizable, memory_pressure_never_lies,
        store_mode_says_full, survives_a_server_crash }
    };
}

/// The same with the rules that want a fabric that misbehaves.
#[macro_export]
macro_rules! kv_fault_rules {
    ($with:ident, $bed:ty) => {
        $crate::$with! { $bed:
        lost_messages, duplicated_messages, delayed_messages, reordered_messages, torn_writes,
        all_faults_at_once }
    };
}
