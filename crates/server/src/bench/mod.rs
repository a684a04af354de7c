//! `drover bench`: measures a server, its own if none is named, and what stands beside it.

mod args;
mod herd;

pub use args::{Args, fuzz_args};

use crate::exit::{self, Failure};
use crate::fabric::{self, Fabric, Job};
use args::usage;
use drover_base::Ns;
use drover_bench::bound::Placement;
use drover_bench::pin::{self, Cores};
use drover_bench::report::Report;
use drover_bench::session::{self, Plan, Wanted};
use drover_bench::workload::{KeyText, Tape};
use drover_bench::{Helper, Latency, Pace, Progress, helper_main, result_file};
use drover_mem::NativeCpu;
use drover_rt::control::ControlAddr;
use drover_verbs::Provider;
use herd::{Herd, Manner, ServerPlan, ServerProcess};
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// The hidden command that leads to [`helper`].
pub const HELPER: &str = "bench-helper";

/// Measures.
pub fn run(args: &Args) -> ExitCode {
    exit::from_result(bench(args))
}

/// What `bench` starts beside itself: its server, client processes, the bare ring's other end, rivals.
pub fn helper(arguments: Vec<OsString>) -> ExitCode {
    match arguments.split_first() {
        Some((role, rest)) if role == "serve" => herd::serve(rest.to_vec()),
        Some((role, rest)) if role == "clients" => herd::clients(rest.to_vec()),
        _ => helper_main(arguments),
    }
}

fn bench(args: &Args) -> Result<(), Failure> {
    args.check()?;
    let mut plan = plan(args)?;
    let server = server_plan(args, &plan)?;
    plan.footprint = server.footprint();
    let progress = Progress::new(!args.quiet);
    let (mut process, addr) = match &args.address {
        Some(text) => {
            let addr = text.parse().map_err(usage)?;
            (None, fabric::with_device(&addr, &args.device)?)
        }
        None => {
            let addr = fabric::with_device(&own_address(args), &args.device)?;
            let process = ServerProcess::start(&plan.helper, &server, &addr)
                .map_err(|error| Failure::new(exit::UNAVAILABLE, error))?;
            let addr = process.addr.clone();
            (Some(process), addr)
        }
    };
    plan.fabric = fabric::name(&addr).to_owned();
    let fabric = Fabric::towards(&addr)?;
    if let Some(choice) = fabric.choice() {
        eprintln!("RDMA device: {choice}");
    }
    let result = fabric.run(Measure {
        addr,
        manner: Manner {
            window: args.window,
            spin_us: args.spin_us,
        },
        plan: &plan,
        progress: &progress,
    });
    drop(progress);
    let ended = process.as_mut().and_then(ServerProcess::ended);
    let (report, latency) = result.map_err(|error| match ended {
        Some(end) => Failure::new(exit::UNAVAILABLE, format!("{error}; {end}")),
        None => Failure::new(exit::UNAVAILABLE, error),
    })?;
    drop(process);
    publish(args, &report, &latency)
}

/// One bench on the fabric that the server's address means.
struct Measure<'a> {
    addr: ControlAddr,
    manner: Manner,
    plan: &'a Plan,
    progress: &'a Progress,
}

impl Job for Measure<'_> {
    type Answer = Result<(Report, Latency), Box<dyn Error>>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        let herd = Herd::<P> {
            addr: self.addr,
            manner: self.manner,
            device: device.clone(),
        };
        session::run(&herd, self.plan, self.progress)
    }
}

/// Where a server that we start is to listen. Over RDMA it shares our device: what it sends goes out and comes back.
fn own_address(args: &Args) -> ControlAddr {
    let text = match args.fabric.as_str() {
        "rdma" => "rdma://127.0.0.1:0".to_owned(),
        _ => format!("shm:bench-{}", std::process::id()),
    };
    text.parse().expect("a short name, or a loopback address")
}

fn plan(args: &Args) -> Result<Plan, Failure> {
    let mix = args.mix()?;
    let cores = pin::allowed_cores().map_err(system)?;
    KeyText::new(args.key_size, u64::from(args.keys), args.seed).map_err(usage)?;
    Ok(Plan {
        system: args.system.clone(),
        fabric: args.fabric.clone(),
        popularity: args.popularity(&mix),
        beside: args.beside(),
        mix,
        key_count: args.keys,
        key_bytes: args.key_size,
        value_bytes: args.value_bytes()?,
        window: args.window * args.server_cores,
        pace: args.rate.map_or(Pace::Closed, Pace::Open),
        time: seconds(args.seconds),
        repeats: args.repeats,
        wanted: wanted(args),
        warm_up: seconds(args.warm_up),
        seed: args.seed,
        cores: Cores::choose(&cores, args.server_cores, args.client_count()),
        processes: args.processes,
        bound: args.bound,
        footprint: [0; 2],
        rivals: args.rivals()?,
        rival_modes: args.vs_modes.clone(),
        load: true,
        helper: Helper::current(&[HELPER]).map_err(system)?,
    })
}

fn wanted(args: &Args) -> Option<Wanted> {
    let placement = Placement::named(args.placement.as_deref()?)?;
    Some(Wanted {
        placement,
        patience: seconds(args.patience),
    })
}

/// How large the server must be: also what the bound's reads go over.
fn server_plan(args: &Args, plan: &Plan) -> Result<ServerPlan, Failure> {
    let value_bytes_max = plan.value_bytes[1];
    // Keys that inserts will add count too.
    let inserts = (plan.mix.insert_share * 1.3 * f64::from(1 << 22) * args.client_count() as f64) as u64;
    let item_count = u64::from(plan.key_count) + inserts;
    if item_count >= u64::from(Tape::KEYS_MAX) {
        return Err(usage(format!(
            "--keys {}: too many with the inserts of this mix",
            args.keys
        )));
    }
    Ok(ServerPlan {
        cores: plan.cores.server.clone(),
        item_count,
        item_bytes: drover_store::item_bytes(plan.key_bytes, value_bytes_max),
        window: args.window,
        value_bytes_max,
    })
}

fn seconds(seconds: f64) -> Ns {
    Ns((seconds * 1e9) as u64)
}

/// Prints the table, writes the files.
fn publish(args: &Args, report: &Report, latency: &Latency) -> Result<(), Failure> {
    match &args.json {
        None => print!("{report}"),
        Some(path) => {
            eprint!("{report}");
            write_json(path, report)?;
        }
    }
    if let Some(path) = &args.hdr {
        std::fs::write(path, latency.to_hdr_text()).map_err(|e| file_error(path, &e))?;
    }
    if args.no_results {
        return Ok(());
    }
    let Some(directory) = args.results.clone().or_else(result_file::default_directory) else {
        eprintln!("no result file: no --results, and neither XDG_STATE_HOME nor HOME is set");
        return Ok(());
    };
    match result_file::write(&directory, report, latency) {
        Ok(path) => eprintln!("\nresult file: {}", path.display()),
        // The figures are on the screen; a full disk does not make them wrong.
        Err(error) if args.results.is_none() => {
            eprintln!("\nno result file: {}: {error}", directory.display())
        }
        Err(error) => return Err(file_error(&directory, &error)),
    }
    Ok(())
}

fn write_json(path: &Path, report: &Report) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(report).expect("a report is JSON");
    let written = if path == Path::new("-") {
        writeln!(std::io::stdout(), "{text}")
    } else {
        File::create(path).and_then(|mut file| writeln!(file, "{text}"))
    };
    written.map_err(|error| file_error(path, &error))
}

fn file_error(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(exit::OS_ERROR, format!("{}: {error}", path.display()))
}

fn system(error: std::io::Error) -> Failure {
    Failure::new(exit::OS_ERROR, error)
}
