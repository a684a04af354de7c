//! `cargo xtask guest`: the conformance suite of verbs over the kernel's software RoCE, in a virtual machine that any
//! machine can run: emulated, without privileges, from Debian's own packages.
//!
//! The packages are downloaded and unpacked once, not installed (`packages.rs`), and become a file system in memory
//! (`image.rs`, `cpio.rs`) with the kernel modules that software RoCE needs (`modules.rs`). `init.sh` makes the devices
//! and runs the program; what it says comes back through a serial line, its exit status in the last line of that.
//! Emulated, it shows that things are right and nothing about how fast they are.

mod cpio;
mod image;
mod modules;
mod packages;

use crate::command::{self, cargo, run_tests, target_dir};
use crate::setup;
use crate::steps::{StepResult, Steps};
use cpio::Archive;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to run and on which devices.
#[derive(clap::Args)]
pub struct Args {
    /// Two devices with a wire between them, instead of one that talks to itself.
    #[arg(long)]
    pub pair: bool,
    /// Packets lost on the wire of a pair, percent.
    #[arg(long, default_value_t = 0, requires = "pair")]
    pub loss: u32,
    /// Seconds until the guest is given up.
    #[arg(long, default_value_t = 300)]
    pub seconds: u32,
}

/// Programs needed here, their packages, and what for.
const TOOLS: &[setup::Tool] = &[
    ("qemu-system-x86_64", "qemu-system-x86", "emulates the guest"),
    ("xz", "xz-utils", "unpacks kernel modules"),
];
/// The program that plays the suite.
const PROGRAM: &str = "ibv_conformance";
/// What the last line of a guest begins with, before the exit status.
const STATUS: &str = "guest: exit status ";

/// Builds image and program, boots, and reads what the program says.
pub fn run(steps: &mut Steps, args: &Args) {
    let ready = steps.run("guest tools", || setup::install(TOOLS))
        && steps.run("guest image", || image::prepare(&folder()))
        && steps.run("guest program", || {
            command::run(&mut cargo(&[
                "build",
                "--quiet",
                "-p",
                "drover-verbs-ibv",
                "--example",
                PROGRAM,
            ]))
        });
    if ready {
        steps.run(
            if args.pair {
                "guest, two devices"
            } else {
                "guest, one device"
            },
            || boot(args),
        );
    }
}

/// Where packages and images are kept.
fn folder() -> PathBuf {
    target_dir("guest")
}

fn boot(args: &Args) -> StepResult {
    let folder = folder();
    let initrd = folder.join("initrd");
    write_initrd(args, &initrd).map_err(|e| format!("writing {}: {e}", initrd.display()))?;
    let (console, out) = (folder.join("console.txt"), folder.join("out.txt"));
    fs::write(&out, "").map_err(|e| format!("writing {}: {e}", out.display()))?;
    let ended = command::run(&mut emulator(args, &folder, &initrd, &console, &out));
    let text = fs::read_to_string(&out).unwrap_or_default();
    let Some((said, status)) = text.rsplit_once(STATUS) else {
        let console = fs::read_to_string(&console).unwrap_or_default();
        let why = ended.err().unwrap_or_else(|| "it ended".to_string());
        return Err(format!(
            "{why} before the guest told its exit status; it said:\n{text}\nand on its console:\n{console}"
        ));
    };
    // Passed through a program of ours, so that the program's closing line is counted like a test runner's.
    let counted = run_tests(Command::new("cat").arg(save(&folder, said)?));
    match status.trim() {
        "0" => counted,
        status => {
            let counts = counted?;
            match counts.failed {
                0 => Err(format!("the program in the guest ended with {status}")),
                _ => Ok(counts),
            }
        }
    }
}

fn save(folder: &Path, said: &str) -> Result<PathBuf, String> {
    let path = folder.join("said.txt");
    fs::write(&path, said.replace('\r', "")).map_err(|e| format!("writing {}: {e}", path.display()))?;
    Ok(path)
}

/// The base image, and behind it what is different in this run: the kernel unpacks both.
fn write_initrd(args: &Args, to: &Path) -> std::io::Result<()> {
    let mut run = Archive::default();
    let program = target_dir("debug").join("examples").join(PROGRAM);
    run.file("init", 0o755, include_bytes!("init.sh").to_vec());
    run.file("app/program", 0o755, fs::read(program)?);
    let topology = if args.pair { "pair" } else { "loop" };
    let environment = format!("TOPOLOGY={topology}\nLOSS={}\n", args.loss);
    run.file("app/environment", 0o644, environment.into_bytes());
    let mut bytes = fs::read(folder().join(image::BASE))?;
    bytes.extend(run.finish());
    fs::write(to, bytes)
}

/// Not KVM, also where there is some: what runs here runs everywhere. Two processors, because polling programs on one
/// wait for each other by the scheduler's tick.
fn emulator(args: &Args, folder: &Path, initrd: &Path, console: &Path, out: &Path) -> Command {
    let serial = |path: &Path| format!("file:{}", path.display());
    let mut command = Command::new("timeout");
    command.args([
        "-k",
        "5",
        &args.seconds.to_string(),
        "nice",
        "-n",
        "10",
        "qemu-system-x86_64",
    ]);
    command.args([
        "-M",
        "q35",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "384",
    ]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-serial", &serial(console), "-serial", &serial(out)]);
    command
        .arg("-kernel")
        .arg(folder.join(image::KERNEL))
        .arg("-initrd")
        .arg(initrd);
    command.args(["-append", "console=ttyS0 panic=-1 quiet tsc=reliable"]);
    command
}
