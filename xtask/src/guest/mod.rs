//! `cargo xtask guest`: drover over the kernel's software RoCE, in an emulated virtual machine that runs on any
//! machine, without privileges, from Debian's own packages.
//!
//! The packages are downloaded and unpacked once, not installed (`packages.rs`), and become a file system in memory
//! (`image.rs`, `cpio.rs`) with the kernel modules that software RoCE needs (`modules.rs`). A table lists the scenarios
//! (`scenarios.rs`, with the programs of `programs.rs`); one boot runs all of them. `init.sh` makes the devices and
//! runs the scripts; their output comes back through a serial line (`machine.rs`). The emulation tests correctness, not
//! speed.

mod cpio;
mod image;
mod machine;
mod modules;
mod packages;
mod programs;
mod scenarios;

use crate::command::{has, target_dir};
use crate::counts::Counts;
use crate::setup;
use crate::steps::{StepResult, Steps};
use cpio::Archive;
use machine::Machine;
use scenarios::{Network, Scenario};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Options of the guest.
#[derive(clap::Args)]
pub struct Args {
    /// Only scenarios whose names begin with this; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Lists all scenarios and runs none.
    #[arg(long)]
    pub list: bool,
    /// Packets lost on every wire, percent, instead of the scenarios' own values.
    #[arg(long)]
    pub loss: Option<u32>,
    /// Multiplies every scenario's time limit, for slow and busy machines.
    #[arg(long, default_value_t = 1)]
    pub patience: u32,
    /// Build profile of `drover`: `dev`, or `release` to measure.
    #[arg(long, default_value = DEV)]
    pub profile: String,
}

/// The profile of tests.
const DEV: &str = "dev";

impl Default for Args {
    fn default() -> Args {
        Args {
            only: Vec::new(),
            list: false,
            loss: None,
            patience: 1,
            profile: DEV.to_string(),
        }
    }
}

/// Programs needed here, their packages, and purposes.
const TOOLS: &[setup::Tool] = &[
    ("qemu-system-x86_64", "qemu-system-x86", "emulates the guest"),
    ("xz", "xz-utils", "unpacks kernel modules"),
];
/// Time limit until the first scenario begins. A quiet machine takes four seconds.
const BOOT_SECONDS: u32 = 90;

/// Prepares the emulator, the image and the examples while other builds run.
pub fn prepare() -> StepResult {
    tools(has)?;
    image::prepare(&folder())?;
    programs::build_examples(&programs::of(&scenarios::chosen(&[])?))
}

/// Builds image and programs, boots, and runs the scenarios, one step each.
pub fn run(steps: &mut Steps, args: &Args) {
    if args.list {
        steps.run("guest scenarios", || {
            let all = scenarios::all()?;
            all.iter().for_each(|scenario| println!("{}", scenario.name));
            Ok(Counts::default())
        });
        return;
    }
    let mut chosen = Vec::new();
    let mut machine = None;
    let ready = steps.run("guest tools", || tools(has))
        && steps.run("guest image", || image::prepare(&folder()))
        && steps.run("guest programs", || {
            chosen = scenarios::chosen(&args.only)?;
            programs::build(&programs::of(&chosen), &args.profile)
        })
        && steps.run("guest boot", || {
            machine = Some(boot(&chosen, args)?);
            Ok(Counts::default())
        });
    let Some(mut machine) = machine.filter(|_| ready) else {
        return;
    };
    for scenario in chosen {
        let name = scenario.name;
        let said = folder().join(format!("{name}.txt"));
        steps.run_with_time(&format!("guest {name}"), || match machine.follow(name, &said) {
            Ok((verdict, seconds)) => (verdict, Some(seconds)),
            Err(why) => (Err(why), None),
        });
    }
    machine.switch_off();
}

/// Installs the emulator if it is missing.
///
/// # Errors
/// It cannot be installed. That is a failure, because only the guest covers some bugs.
fn tools(has: impl Fn(&str) -> bool) -> StepResult {
    setup::install_where(TOOLS, has).map_err(|why| {
        format!("no emulator, so nothing runs over libibverbs here, and that is not optional: {why}")
    })
}

/// Folder of packages, images and the scenarios' output.
fn folder() -> PathBuf {
    target_dir("guest")
}

fn boot(scenarios: &[Scenario], args: &Args) -> Result<Machine, String> {
    let folder = folder();
    let initrd = folder.join("initrd");
    write_initrd(scenarios, args, &initrd).map_err(|e| format!("writing {}: {e}", initrd.display()))?;
    let seconds: u32 = scenarios::groups(scenarios).map(scenarios::seconds_of).sum();
    let (kernel, console) = (folder.join(image::KERNEL), folder.join("console.txt"));
    Machine::boot(&kernel, &initrd, console, BOOT_SECONDS + seconds * args.patience)
}

/// Writes the base image followed by this run's archive: the kernel unpacks both.
fn write_initrd(scenarios: &[Scenario], args: &Args, to: &Path) -> std::io::Result<()> {
    let mut run = Archive::default();
    run.file("init", 0o755, include_bytes!("init.sh").to_vec());
    for program in programs::of(scenarios) {
        run.file(
            &format!("app/{}", program.name()),
            0o755,
            program.contents(&args.profile, &folder())?,
        );
    }
    let mut order = String::new();
    for scenario in scenarios {
        let name = scenario.name;
        let script = format!("{}{}\n", include_str!("scripts/common.sh"), scenario.script);
        run.file(&format!("scenarios/{name}/script"), 0o644, script.into_bytes());
        let environment = environment(scenario, args);
        run.file(
            &format!("scenarios/{name}/environment"),
            0o644,
            environment.into_bytes(),
        );
    }
    for group in scenarios::groups(scenarios) {
        let names: Vec<&str> = group.iter().map(|scenario| scenario.name).collect();
        // Writing to a `String` cannot fail.
        let _ = writeln!(order, "{}", names.join(" "));
    }
    run.file("scenarios/order", 0o644, order.into_bytes());
    let together = scenarios::TOGETHER.to_string();
    run.file("scenarios/together", 0o644, together.into_bytes());
    let mut bytes = fs::read(folder().join(image::BASE))?;
    bytes.extend(run.finish());
    fs::write(to, bytes)
}

/// Variables of a scenario for `init.sh`.
fn environment(scenario: &Scenario, args: &Args) -> String {
    let (b, b_addr, loss, delay) = match scenario.network {
        Network::Itself => ("rxe0", "10.9.0.1", 0, 0),
        Network::Wire { loss } => ("rxe1", "10.9.0.2", args.loss.unwrap_or(loss), 0),
        Network::SlowWire { delay } => ("rxe1", "10.9.0.2", 0, delay),
    };
    let seconds = scenario.seconds * args.patience;
    format!(
        "A=rxe0\nA_ADDR=10.9.0.1\nB={b}\nB_ADDR={b_addr}\nLOSS={loss}\nDELAY={delay}\nSECONDS_MAX={seconds}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_emulator_it_says_so_and_fails() {
        let nothing = |_: &str| false;
        assert_eq!(
            tools(nothing),
            Err(
                "no emulator, so nothing runs over libibverbs here, and that is not optional: missing tools; \
                 install them with: sudo apt-get install qemu-system-x86 xz-utils"
                    .to_string()
            )
        );
        let all = |_: &str| true;
        assert_eq!(tools(all), Ok(Counts::default()));
    }

    #[test]
    fn a_loss_of_ones_own_is_for_wires_only() {
        let scenario = |network| Scenario {
            name: "x",
            network,
            programs: &[],
            script: "true",
            seconds: 10,
        };
        let args = Args {
            loss: Some(7),
            patience: 3,
            ..Args::default()
        };
        assert_eq!(
            environment(&scenario(Network::Wire { loss: 5 }), &args),
            "A=rxe0\nA_ADDR=10.9.0.1\nB=rxe1\nB_ADDR=10.9.0.2\nLOSS=7\nDELAY=0\nSECONDS_MAX=30\n"
        );
        assert_eq!(
            environment(&scenario(Network::Itself), &args),
            "A=rxe0\nA_ADDR=10.9.0.1\nB=rxe0\nB_ADDR=10.9.0.1\nLOSS=0\nDELAY=0\nSECONDS_MAX=30\n"
        );
    }
}
