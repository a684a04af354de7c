//! The conformance suite on real devices, software RoCE included: everything in the conformance program of a system
//! except its rules. The network may lose packets, which no bed simulates.

use super::ground::{Ground, faults, pass_really};
use crate::kv_conformance::BedOptions;
use drover_base::Ns;
use drover_mem::{NativeCpu, timestamp};
use drover_verbs::OpenError;
use drover_verbs_ibv::{Ibv, IbvDevice};
use drover_verbs_suite::faulty::{FaultOptions, Faulty, FaultyDevice, lost_results};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The server's device and the clients' device.
static DEVICES: OnceLock<[IbvDevice; 2]> = OnceLock::new();
/// Time after which a rule counts as hanging.
const RULE_MAX: Duration = Duration::from_secs(180);
/// Times that a rule is played at most while the device is what fails: on a busy machine, two of five plays of the rule with the most READs.
const PLAYED_MAX: usize = 8;
/// Deadline of client operations. Emulated devices on a busy machine are slow, most of all with a megabyte on a lossy
/// network; the rules judge whether answers are right and arrive, not how fast.
const PATIENCE: Ns = Ns::from_s(60);

/// The [`Ground`] (fabric for tests) of the two real devices that [`run`] has opened, behind a wrapper that adds the faults that a rule
/// asks for, and looks whether results come. Only the rules that [`run`] runs can use it.
#[derive(Debug)]
pub struct Devices;

impl Devices {
    /// One of the devices, for a rule.
    fn wrapped(index: usize, options: &BedOptions) -> FaultyDevice<Ibv> {
        let device = &DEVICES.get().expect("opened by `run`")[index];
        let faults = FaultOptions {
            checks_results: true,
            ..faults(options)
        };
        FaultyDevice::new(device.clone(), faults).with_forger(options.forger.clone())
    }
}

impl Ground for Devices {
    type P = Faulty<Ibv>;

    const DEADLINE: Ns = PATIENCE;

    fn open(options: &BedOptions) -> FaultyDevice<Ibv> {
        Devices::wrapped(0, options)
    }

    fn for_clients(_: &FaultyDevice<Ibv>, options: &BedOptions) -> FaultyDevice<Ibv> {
        Devices::wrapped(1, options)
    }

    fn pass(_: &FaultyDevice<Ibv>, by: Ns) {
        pass_really(by);
    }
}

/// Rules (tests of the suite): name and function of each. [`kv_conformance_table!`](crate::kv_conformance_table) builds
/// such a table.
pub type Rules = &'static [(&'static str, fn())];

/// Runs `rules` on the devices of these names: the server on the first, the clients on the second; with one name both
/// use that device, without a name the one that [`IbvDevice::named`] chooses. Prints a line per rule and a summary. A rule
/// that takes more than 180 s has failed and ends the run. Returns failure if a device does not open or a rule fails.
pub fn run(rules: &[Rules], names: &[String]) -> ExitCode {
    match devices(names) {
        Ok(devices) => {
            for device in &devices {
                let choice = device.choice();
                println!("{} port {}: {}", choice.device, choice.port, choice.reason);
            }
            DEVICES.get_or_init(|| devices);
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    let (mut kept, mut broken) = (0, 0);
    for (name, rule) in rules.iter().copied().flatten() {
        let begun = timestamp();
        match judge(*rule) {
            Ok(()) => {
                kept += 1;
                let took = NativeCpu::ticks_to_ns(timestamp() - begun);
                println!("{name}: kept, {:.1} s", took as f64 / 1e9);
            }
            Err(End::Broken) => {
                broken += 1;
                println!("{name}: BROKEN, for the reason above");
            }
            // Its thread has the devices: what is left could not be trusted.
            Err(End::Hangs) => {
                broken += 1;
                println!(
                    "{name}: BROKEN: not done after {} s; the rest is not played",
                    RULE_MAX.as_secs()
                );
                break;
            }
        }
    }
    // As test runners end, so that it is counted as one.
    let verdict = if broken == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {kept} passed; {broken} failed; 0 ignored");
    match broken {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Opens the devices of these names; the second is the first if it has no name.
fn devices(names: &[String]) -> Result<[IbvDevice; 2], OpenError> {
    let name = |n: usize| names.get(n).map(String::as_str);
    let here = IbvDevice::named(name(0))?;
    match name(1) {
        None => Ok([here.clone(), here]),
        other => Ok([here, IbvDevice::named(other)?]),
    }
}

/// How a rule failed. Its panic message is on standard error.
enum End {
    Broken,
    Hangs,
}

/// Runs a rule; again, if the device failed it by completing a request without its result.
fn judge(rule: fn()) -> Result<(), End> {
    let mut lost = lost_results();
    for _ in 1..PLAYED_MAX {
        let end = play(rule);
        let lost_before = std::mem::replace(&mut lost, lost_results());
        if !matches!(end, Err(End::Broken)) || lost == lost_before {
            return end;
        }
        println!(
            "played again: known: software RoCE completes requests without their results when it repeats others"
        );
    }
    play(rule)
}

/// Runs a rule in a thread of its own, which may panic.
fn play(rule: fn()) -> Result<(), End> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        rule();
        // The receiver may have given up.
        let _ = tell.send(());
    });
    told.recv_timeout(RULE_MAX).map_err(|why| match why {
        RecvTimeoutError::Disconnected => End::Broken,
        RecvTimeoutError::Timeout => End::Hangs,
    })
}
