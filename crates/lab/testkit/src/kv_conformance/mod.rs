//! The conformance suite that every key-value system passes on every provider. A system supplies a [`Bed`], which
//! starts a server, connects clients to it and lets it run. [`kv_calm_rules!`](crate::kv_calm_rules) and
//! [`kv_fault_rules!`](crate::kv_fault_rules) list the rules; [`kv_conformance_tests!`](crate::kv_conformance_tests)
//! generates one named test for each.
//!
//! The fault model: a fabric may lose, duplicate, delay, reorder and tear messages that are unreliable by contract
//! (UC WRITEs, UD SENDs), with the probabilities of [`Faults`], but never invents bytes; a server may crash at any step
//! and come back empty. Reliable connections may break while both ends live.

mod conditions;
mod driver;
mod faults;
mod isolation;
mod rules;

pub use conditions::*;
pub use driver::{Driver, Plan, value_bytes, value_id};
pub use faults::*;
pub use isolation::*;
pub use rules::*;

use drover_base::Cpu;
use drover_kv::{KvClient, Offers};
use drover_verbs::Provider;
use drover_verbs_suite::faulty::Forger;

/// Probabilities from 0 to 1, per message, of faults of an unreliable fabric. A bed ignores the faults that its fabric
/// cannot produce.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Probability that a message is lost.
    pub drop: f64,
    /// Probability that a message is delivered twice.
    pub duplicate: f64,
    /// Probability that a message is delivered late.
    pub delay: f64,
    /// Probability that a message is delivered after the next one.
    pub reorder: f64,
    /// Probability that the cache lines of a WRITE become visible one by one. A simulated network tears all messages if
    /// this is above 0.
    pub tear: f64,
    /// Probability that a list of requests breaks its reliable connection, before or after it is executed.
    pub breaks: f64,
}

/// Options of the server and the fabric that a [`Bed`] starts for a rule.
#[derive(Clone, Debug)]
pub struct BedOptions {
    /// Seed of the fabric, of its faults and of the operations that [`Driver`] draws.
    pub seed: u64,
    /// Number of partitions or shards of the server.
    pub partition_count: usize,
    /// Maximum number of operations in flight per client and partition.
    pub window: usize,
    /// Memory for items per partition, in bytes. HERD rounds it down to a power of two.
    pub memory_bytes: usize,
    /// Whether a full server refuses PUTs instead of evicting items.
    pub store_mode: bool,
    /// Maximum size of an item in bytes, key, value and the system's header together; larger ones are refused.
    pub item_bytes_max: usize,
    /// Faults of the fabric; the default has none.
    pub faults: Faults,
    /// A client that uses keys of others, where the bed applies faults.
    pub forger: Option<Forger>,
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
            forger: None,
        }
    }
}

/// One running system on one provider, which a test drives from one thread.
pub trait Bed: Sized {
    /// Provider of the fabric.
    type P: Provider;
    /// Type of the system's clients.
    type Client: KvClient<Self::P>;

    /// Opens a fabric and starts a server on it.
    ///
    /// # Panics
    /// If that fails.
    fn start(options: &BedOptions) -> Self;

    /// Creates a client and runs the bed until it is connected.
    ///
    /// # Panics
    /// If it does not connect.
    fn connect(&mut self) -> Self::Client;

    /// The core that the test and all clients run on; its clock gives the times in histories.
    fn cpu(&self) -> &<Self::P as Provider>::Cpu;

    /// Lets the server and the fabric run a little, or yields to their threads. Where time is virtual, it advances.
    fn step(&mut self);

    /// Kills the server without notice to its clients and starts an empty one at the same address. Returns `false` if
    /// this bed cannot do so.
    fn crash_and_restart(&mut self) -> bool;

    /// Lets `seconds` pass, so that items with a time to live expire: advances virtual time, or sleeps where time is
    /// real.
    fn pass_seconds(&mut self, seconds: u64);

    /// What the system offers. Rules skip the rest, and print what they skip.
    fn offers() -> Offers;

    /// Current time in nanoseconds of the clients' core, for histories.
    fn now(&self) -> u64 {
        self.cpu().refresh().0
    }
}

/// Generates a `#[test]` for each rule named, which runs it on the bed type `$bed`.
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

/// Builds a table of the rules named, for programs that run them on the bed type `$bed`: a `&[(&str, fn())]` of names
/// and functions.
#[macro_export]
macro_rules! kv_conformance_table {
    ($bed:ty: $($rule:ident),+ $(,)?) => {
        &[$((stringify!($rule), $crate::kv_conformance::$rule::<$bed> as fn())),+]
    };
}

/// Passes all rules for a fabric without faults (one of them crashes the server) to the macro `$with`, which is
/// `kv_conformance_tests` or `kv_conformance_table`.
#[macro_export]
macro_rules! kv_calm_rules {
    ($with:ident, $bed:ty) => {
        $crate::$with! { $bed:
        a_value_comes_back, overwriting_changes_length, zero_length_values, key_and_value_limits,
        delete_then_miss, binary_keys_and_values, ttl_expires, program_order_on_one_key,
        agrees_with_a_map, window_full_is_flow_control, large_values_round_trip,
        large_and_small_on_one_key, clients_are_linearizable, memory_pressure_never_lies,
        store_mode_says_full, survives_a_server_crash, conditions_and_versions, flags_and_touch,
        conditional_clients_are_linearizable }
    };
}

/// Passes all rules for a fabric with faults to the macro `$with`, which is `kv_conformance_tests` or
/// `kv_conformance_table`. The bed must apply [`Faults`].
#[macro_export]
macro_rules! kv_fault_rules {
    ($with:ident, $bed:ty) => {
        $crate::$with! { $bed:
        lost_messages, duplicated_messages, delayed_messages, reordered_messages, torn_writes,
        all_faults_at_once, conditional_updates_happen_once, foreign_rkey_changes_nothing,
        flaw_shares_domain_is_caught, flaw_grants_writes_is_caught }
    };
}
