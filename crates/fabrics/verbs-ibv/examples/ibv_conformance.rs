//! Runs every rule of the provider conformance suite on real devices, software RoCE included: `ibv_conformance [A [B]]`
//! plays the initiator on device A and the responder on device B, or both on the best device.
//!
//! A program and not a test, because it needs a device: `cargo xtask guest` creates one in a virtual machine.

use drover_verbs::{Device, OpenError, QpKind};
use drover_verbs_ibv::{Ibv, IbvDevice};
use drover_verbs_suite::conformance::{Check, MemoryChan, Role, Stop, rules, run_end};
use std::process::ExitCode;

/// A known deviation of a device, and why the device causes it.
struct Known {
    /// Vendor of the initiator's or the responder's device.
    vendor_id: u32,
    rule: &'static str,
    kind: QpKind,
    why: &'static str,
}

/// Vendor number of the kernel's software RoCE, which no card has. `[rdma-core providers/rxe]`
const SOFTWARE_ROCE: u32 = 0xff_ffff;

/// A rule listed here that passes after all is reported.
const KNOWN: &[Known] = &[
    Known {
        vendor_id: SOFTWARE_ROCE,
        rule: "atomics_unaligned_refused",
        kind: QpKind::Rc,
        why: "its user part refuses them at posting, so no completion says it",
    },
    Known {
        vendor_id: SOFTWARE_ROCE,
        rule: "send_longer_than_recv",
        kind: QpKind::Rc,
        why: "tells both ends of an operation that failed, without naming the length",
    },
    Known {
        vendor_id: SOFTWARE_ROCE,
        rule: "read_unit_is_seen_whole",
        kind: QpKind::Rc,
        why: "the kernel copies with string instructions, which other cores may see end within a word",
    },
];

#[derive(Default)]
struct Tally {
    kept: usize,
    skipped: usize,
    known: usize,
    broken: usize,
}

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [here, there] = match devices(&names) {
        Ok(devices) => devices,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    for device in [&here, &there] {
        let choice = device.choice();
        let vendor = device.vendor_id();
        println!(
            "{} port {} of vendor {vendor:#x}: {}",
            choice.device, choice.port, choice.reason
        );
    }
    println!("{:?}", here.caps());
    let vendors = [&here, &there].map(IbvDevice::vendor_id);
    let mut tally = Tally::default();
    for rule in rules::<Ibv>() {
        for &kind in rule.kinds {
            let check = play(rule.name, kind, [here.clone(), there.clone()]);
            let known = KNOWN.iter().find(|known| known.is(rule.name, kind, vendors));
            tally.note(rule.name, kind, check, known);
        }
    }
    let Tally {
        kept,
        skipped,
        known,
        broken,
    } = tally;
    println!("{known} known differences of the device");
    // Ends like a test runner, so that it is counted as one.
    let verdict = if broken == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {kept} passed; {broken} failed; {skipped} ignored");
    match broken {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The devices of these names; the second defaults to the first.
fn devices(names: &[String]) -> Result<[IbvDevice; 2], OpenError> {
    let name = |n: usize| names.get(n).map(String::as_str);
    let here = IbvDevice::named(name(0))?;
    match name(1) {
        None => Ok([here.clone(), here]),
        other => Ok([here, IbvDevice::named(other)?]),
    }
}

/// Runs both ends of a rule, each in a thread. If both fail, the reason other than the loss of the other end counts.
fn play(name: &'static str, kind: QpKind, devices: [IbvDevice; 2]) -> Check {
    let [initiator, responder] = devices;
    let [here, there] = MemoryChan::pair();
    std::thread::scope(|scope| {
        let responding =
            scope.spawn(move || run_end::<Ibv>(name, kind, Role::Responder, responder, Box::new(there)));
        let ours = run_end::<Ibv>(name, kind, Role::Initiator, initiator, Box::new(here));
        let panicked = |_| Err(Stop::Broken("the responder panicked".to_string()));
        let theirs = responding.join().unwrap_or_else(panicked);
        match ours {
            Err(Stop::Broken(how)) if how.contains("has gone") => theirs.and(Err(Stop::Broken(how))),
            ours => ours.and(theirs),
        }
    })
}

impl Known {
    fn is(&self, rule: &str, kind: QpKind, vendors: [u32; 2]) -> bool {
        self.rule == rule && self.kind == kind && vendors.contains(&self.vendor_id)
    }
}

impl Tally {
    fn note(&mut self, rule: &str, kind: QpKind, check: Check, known: Option<&Known>) {
        let (count, line) = match (check, known) {
            (Ok(()), None) => (&mut self.kept, "kept".to_string()),
            (Ok(()), Some(_)) => (
                &mut self.kept,
                "kept, although it is listed as a known difference".to_string(),
            ),
            (Err(Stop::Skipped(why)), _) => (&mut self.skipped, format!("skipped: {why}")),
            (Err(Stop::Broken(how)), Some(Known { why, .. })) => {
                (&mut self.known, format!("known: {why} ({how})"))
            }
            (Err(Stop::Broken(how)), None) => (&mut self.broken, format!("BROKEN: {how}")),
        };
        *count += 1;
        println!("{rule} over {kind:?}: {line}");
    }
}
