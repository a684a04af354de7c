//! Connections that break at any request, before or after it was carried out: updates under way are unknown, none happens twice or
//! later, reads go on.

use drover_base::Ns;
use drover_kv_farm::Farm;
use drover_testkit::beds::{ShardsBed, WithFaults};
use drover_testkit::kv_conformance::{Bed, BedOptions, Driver, Plan};
use drover_testkit::linear::Model;
use drover_verbs::Provider;
use drover_verbs_suite::faulty::{FaultOptions, Faulty, FaultyDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};

type Breaking = Faulty<Loopback>;

/// A bed on whose fabric connections break.
struct BreakingBed(ShardsBed<Farm, WithFaults<Loopback>>);

impl Bed for BreakingBed {
    type P = Breaking;
    type Client = <ShardsBed<Farm, WithFaults<Loopback>> as Bed>::Client;

    fn start(options: &BedOptions) -> BreakingBed {
        let inner = LoopbackDevice::with_options(LoopbackOptions {
            seed: options.seed,
            tick: Ns::from_us(1),
            ..LoopbackOptions::default()
        });
        let faults = FaultOptions {
            rc_break: 0.004,
            ..FaultOptions::quiet(options.seed)
        };
        BreakingBed(ShardsBed::on(FaultyDevice::new(inner, faults), options))
    }

    fn connect(&mut self) -> Self::Client {
        self.0.connect()
    }

    fn cpu(&self) -> &<Breaking as Provider>::Cpu {
        self.0.cpu()
    }

    fn step(&mut self) {
        self.0.step();
    }

    fn crash_and_restart(&mut self) -> bool {
        self.0.crash_and_restart()
    }

    fn pass_seconds(&mut self, seconds: u64) {
        self.0.pass_seconds(seconds);
    }
}

/// A client that sent an update again after its connection broke would overwrite what another client has stored since.
#[test]
fn farm_an_update_whose_reply_was_lost_is_never_executed_again() {
    let mut unknown = 0;
    for seed in 1..=6 {
        let options = BedOptions {
            seed,
            ..BedOptions::default()
        };
        let plan = Plan {
            op_count: 800,
            ..Plan::default()
        };
        let mut driver = Driver::<BreakingBed>::new(&options, &plan);
        driver.run(&plan);
        driver.assert_linearizable(Model::Register);
        unknown += driver.indeterminate_count;
    }
    println!("{unknown} updates of unknown fate");
    assert!(
        unknown > 0,
        "no connection broke at the wrong moment: this test could not fail"
    );
}
