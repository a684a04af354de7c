//! HERD passes the suite of key-value systems: client and server in one thread, deterministic on loopback,
//! with real memory traffic on shm.

mod bed;
mod identical;
mod sim_bed;

use bed::{Ground, PiecesBed};
use drover_base::Ns;
use drover_testkit::kv_conformance::BedOptions;
use drover_verbs::faulty::{FaultOptions, Faulty, FaultyDevice};
use drover_verbs::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_sim::Sim;
use sim_bed::SimBed;

impl Ground for Loopback {
    fn open(options: &BedOptions) -> LoopbackDevice {
        LoopbackDevice::with_options(LoopbackOptions {
            seed: options.seed,
            tick: Ns::from_us(1),
            ..LoopbackOptions::default()
        })
    }

    fn pass(device: &LoopbackDevice, by: Ns) {
        device.advance(by);
    }
}

impl Ground for Shm {
    fn open(_: &BedOptions) -> ShmDevice {
        ShmDevice::default()
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "time to live is counted in seconds of a real clock here"
    )]
    fn pass(_: &ShmDevice, by: Ns) {
        std::thread::sleep(by.to_duration());
    }
}

/// What the bed is asked for, in the words of the wrapper.
pub fn faults(options: &BedOptions) -> FaultOptions {
    let asked = options.faults;
    FaultOptions {
        drop: asked.drop,
        duplicate: asked.duplicate,
        delay: asked.delay,
        reorder: asked.reorder,
        tear: asked.tear,
        ..FaultOptions::quiet(options.seed)
    }
}

impl<P: Ground> Ground for Faulty<P> {
    fn open(options: &BedOptions) -> FaultyDevice<P> {
        FaultyDevice::new(P::open(options), faults(options))
    }

    fn pass(device: &FaultyDevice<P>, by: Ns) {
        P::pass(device.inner(), by);
    }
}

/// The rules that need no faults.
macro_rules! calm_rules {
    ($bed:ty) => {
        drover_testkit::kv_conformance_tests!($bed:
            a_value_comes_back, overwriting_changes_length, zero_length_values, key_and_value_limits,
            delete_then_miss, binary_keys_and_values, ttl_expires, program_order_on_one_key,
            agrees_with_a_map, window_full_is_flow_control, large_values_round_trip,
            large_and_small_on_one_key, clients_are_linearizable, memory_pressure_never_lies,
            store_mode_says_full, survives_a_server_crash);
    };
}

mod loopback {
    use super::*;
    calm_rules!(PiecesBed<Loopback>);
}

mod shm {
    use super::*;
    calm_rules!(PiecesBed<Shm>);
}

mod sim {
    use super::*;
    calm_rules!(SimBed<Sim>);
}

/// The rules that want a fabric that misbehaves.
macro_rules! fault_rules {
    ($bed:ty) => {
        drover_testkit::kv_conformance_tests!($bed:
            lost_messages, duplicated_messages, delayed_messages, reordered_messages, torn_writes,
            all_faults_at_once);
    };
}

mod faulty_loopback {
    use super::*;
    fault_rules!(PiecesBed<Faulty<Loopback>>);
}

mod faulty_shm {
    use super::*;
    fault_rules!(PiecesBed<Faulty<Shm>>);
}

mod sim_network {
    use super::*;
    drover_testkit::kv_conformance_tests!(SimBed<Sim>: lost_messages, torn_writes, all_faults_at_once);
}

mod faulty_sim {
    use super::*;
    fault_rules!(SimBed<Faulty<Sim>>);
}
