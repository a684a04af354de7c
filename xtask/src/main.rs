//! `cargo xtask`: every chore of the workspace. CI runs `cargo xtask ci` and nothing else, so a local run that passes
//! also passes there.
//!
//! Each chore is one module; [`steps`] runs them, times them and prints the table at the end.
#![forbid(unsafe_code)]

mod bench;
mod campaign;
mod check;
mod ci;
mod cluster;
mod command;
mod counts;
mod coverage;
mod deploy;
mod failures;
mod fuzz;
mod guest;
mod instructions;
mod loom;
mod memcached;
mod miri;
mod package;
mod python;
mod report;
mod seed;
mod setup;
mod sim;
mod steps;
mod syscalls;
mod systems;
mod tests;
mod tidy;
mod venv;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use steps::Steps;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Every chore of the workspace.",
    arg_required_else_help = true
)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Formatting, clippy and tidy: under a minute when warm; run it before every commit.
    Check,
    /// All tests of the workspace, doctests and examples; installs their requirements first.
    Test,
    /// Rules that the compiler does not check: dependency edges, sizes, paths, sources, links, licences.
    Tidy,
    /// What operators run, examples/deploy, checked by the tools for it; installs those first.
    Deploy,
    /// Small lock-free pieces under the loom model checker.
    Loom,
    /// base, mem, index and store under Miri (nightly toolchain).
    Miri,
    /// Run each fuzzer for a while, after a canary has proven that crashes are noticed.
    Fuzz(fuzz::Args),
    /// `drover bench` with fixed arguments; leaves a result file in results/.
    Bench,
    /// Instructions per GET and PUT, against docs/instructions.toml; fails above +3 %.
    Instructions(instructions::Args),
    /// Servers and clients in simulated clusters with faults, thousands of seeds.
    Sim(sim::Args),
    /// Every scenario in turn, with fresh seeds, until the time is over; records the seeds run.
    Campaign(campaign::Args),
    /// Branches of the protocol that the campaigns of simulated clusters never reach, against docs/sim-coverage.md.
    Coverage(coverage::Args),
    /// System calls of a server under load, counted by strace.
    Syscalls,
    /// Kills client or server at random points under load, many times.
    Kill(tests::KillArgs),
    /// Four honest clients of each system beside one that rewrites everything it can reach, for --seconds.
    Hostile(tests::HostileArgs),
    /// Stops client, server or both for up to 10 s under load (SIGSTOP), many times: all clients are served again.
    Pause(tests::PauseArgs),
    /// Kills, stops, cuts off, drains members of a service in network namespaces under load, and restarts its etcd.
    Cluster(cluster::Args),
    /// Read one key after every write of another, a million times, by each kind of client: a full cache must keep it.
    Lives(tests::LivesArgs),
    /// Races of one-sided readers in simulated clusters that tear READs, 2,000 seeds each: found without confirmation,
    /// absent with it.
    Races,
    /// Record histories of both kinds of clients, on a real server and in one thread by seeds, and check them.
    History(tests::HistoryArgs),
    /// Scenarios over the kernel's software RoCE, in an emulated machine that needs no privileges.
    Guest(guest::Args),
    /// memcached's own test suite, from Debian's source package, against `drover serve`.
    MemcachedSuite(memcached::suite::Args),
    /// Manual pages, from the command line, into target/man.
    Man,
    /// The Debian package, by cargo-deb, which is installed if it is missing.
    Deb,
    /// The Python package: its wheel, its suite, and pymemcache's tests with its client.
    Python,
    /// The header of libdrover, by cbindgen, which is installed if it is missing.
    Header(package::header::Args),
    /// The Debian package installed, run by systemd, used and purged, on a machine of its own in namespaces; needs root.
    Installed,
    /// The container image built, run, used and stopped, by buildah; needs root.
    Image,
    /// The report of all figures in a browser: no label overlaps or is clipped; pictures in target/report.
    Report,
    /// Real clients from their registries (Python, Node, Rust), each running its tests against drover.
    Clients(memcached::clients::Args),
    /// Send the same random commands to drover and to memcached: their answers must be the same.
    Differ(memcached::differ::Args),
    /// Misuse a server: its memory must stay bounded, other clients served, and no resources left behind.
    Abuse(memcached::abuse::Args),
    /// Have the conversations of our tests with memcached itself: it must answer as they say.
    Transcripts,
    /// Hit rates of drover and memcached with the same memory, for the same streams of requests.
    Hitrate(memcached::hitrate::Args),
    /// Build Debian's newest memcached, to measure against it, and hold docs/from-memcached.md against it.
    NewestMemcached,
    /// Installs the tools that the other chores need (Debian packages).
    Setup,
    /// All steps of CI.
    Ci(ci::Args),
}

fn main() -> ExitCode {
    let mut steps = Steps::new();
    match Args::parse().chore {
        Chore::Check => check::run(&mut steps),
        Chore::Test => {
            setup::run(&mut steps);
            tests::run(&mut steps);
        }
        Chore::Tidy => check::tidy(&mut steps),
        Chore::Deploy => deploy::run(&mut steps),
        Chore::Loom => loom::run(&mut steps),
        Chore::Miri => miri::run(&mut steps),
        Chore::Fuzz(args) => fuzz::run_all(&mut steps, &args),
        Chore::Bench => bench::run(&mut steps),
        Chore::Instructions(args) => instructions::run(&mut steps, &args),
        Chore::Sim(args) => sim::run(&mut steps, &args),
        Chore::Campaign(args) => campaign::run(&mut steps, &args),
        Chore::Coverage(args) => coverage::run(&mut steps, &args),
        Chore::Syscalls => syscalls::run(&mut steps),
        Chore::Kill(args) => tests::kill(&mut steps, &args),
        Chore::Hostile(args) => tests::hostile(&mut steps, &args),
        Chore::Pause(args) => tests::pause(&mut steps, &args),
        Chore::Cluster(args) => cluster::run(&mut steps, &args),
        Chore::Lives(args) => tests::lives(&mut steps, &args),
        Chore::Races => tests::races(&mut steps),
        Chore::History(args) => tests::history(&mut steps, &args),
        Chore::Guest(args) => guest::run(&mut steps, &args),
        Chore::MemcachedSuite(args) => memcached::suite::run(&mut steps, &args),
        Chore::Man => package::man(&mut steps),
        Chore::Deb => package::deb(&mut steps),
        Chore::Python => python::run(&mut steps),
        Chore::Header(args) => package::header::run(&mut steps, &args),
        Chore::Installed => package::installed::run(&mut steps),
        Chore::Image => package::image::run(&mut steps),
        Chore::Report => report::run(&mut steps),
        Chore::Clients(args) => memcached::clients::run(&mut steps, &args),
        Chore::Differ(args) => memcached::differ::run(&mut steps, &args),
        Chore::Abuse(args) => memcached::abuse::run(&mut steps, &args),
        Chore::Transcripts => steps.run_in_turn(vec![memcached::transcripts::work()]),
        Chore::Hitrate(args) => memcached::hitrate::run(&mut steps, &args),
        Chore::NewestMemcached => memcached::newest::run(&mut steps),
        Chore::Setup => setup::run(&mut steps),
        Chore::Ci(args) => ci::run(&mut steps, &args),
    }
    steps.finish()
}
