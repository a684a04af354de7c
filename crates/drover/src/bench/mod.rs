//! `drover bench`: measures a server (one that it starts, unless an address is given) and rivals.

mod args;
mod load;
mod members;
mod page;
mod server;
mod turns;

pub use args::{Args, fuzz_args};

use crate::exit::{self, Failure};
use args::usage;
use drover_base::Ns;
use drover_bench::pin::{self, Cores};
use drover_bench::report::Report;
use drover_bench::session::{self, Clients, Plan, ServerFacts};
use drover_bench::workload::{KeyText, Tape};
use drover_bench::{Latency, Progress, helper_main, result_file};
use drover_client::{Fabric, Job, ServiceUrl};
use drover_control::{ControlAddr, ControlStream};
use drover_kv::{System, SystemJob, SystemTable, ask_service};
use drover_mem::NativeCpu;
use drover_verbs::Provider;
use load::{ClientSettings, UnderTest};
use server::{ServerPlan, ServerProcess};
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Name of the hidden command that runs [`helper`].
pub const HELPER: &str = "bench-helper";

/// Runs the benchmark and prints its table (to standard error with `--json`, which writes JSON). Writes a result file,
/// several with `--system auto`, and none with `--no-results`; with `--report` also a page.
pub fn run<T: SystemTable>(args: &Args) -> ExitCode {
    exit::from_result(bench::<T>(args))
}

/// Main function of processes that `bench` starts: its server, client processes, the other end of the ring that
/// measures the machine's bound, rivals. The first argument is the role.
pub fn helper<T: SystemTable>(arguments: Vec<OsString>) -> ExitCode {
    match arguments.split_first() {
        Some((role, rest)) if role == "serve" => server::serve::<T>(rest.to_vec()),
        Some((role, rest)) if role == "clients" => load::clients::<T>(rest.to_vec()),
        _ => helper_main(arguments),
    }
}

/// Refuses options about users and TLS where they would have no effect.
fn check_access(args: &Args) -> Result<(), Failure> {
    let refuse = |flag, what| {
        let text =
            format!("{flag}: a server that bench starts itself has no {what}: name one with --address");
        Err(usage(text))
    };
    match &args.access {
        _ if args.address.is_some() => Ok(()),
        access if access.tls.is_given() => refuse("--tls-ca", "TLS"),
        access if access.auth.is_given() => refuse("--auth-file", "users"),
        _ => Ok(()),
    }
}

fn bench<T: SystemTable>(args: &Args) -> Result<(), Failure> {
    args.check()?;
    check_access(args)?;
    if args.is_interleaved() {
        return turns::bench::<T>(args);
    }
    if let Some(text) = args.address.as_deref()
        && text.starts_with(ServiceUrl::SCHEME)
    {
        return members::bench::<T>(args, text);
    }
    let addr = match &args.address {
        None => None,
        Some(text) => {
            let addr = text.parse().map_err(usage)?;
            Some(args.access.of(args.device.of(&addr)?)?)
        }
    };
    let system = match &addr {
        None => args.system()?.unwrap_or(T::ALL[0]),
        Some(addr) => system_of(args, addr)?,
    };
    let mut plan = plan(
        args,
        system,
        args.workload.value_bytes()?,
        args.keys(Some(system)),
    )?;
    let server = server_plan(args, system, &plan)?;
    let progress = Progress::new(!args.output.quiet);
    let mut process = match &addr {
        Some(_) => None,
        None => {
            let addr = args.device.of(&own_address(args, system))?;
            Some(start(&mut plan, &server, &addr)?)
        }
    };
    plan.server.footprint = server.footprint();
    let addr = addr.or_else(|| Some(process.as_ref()?.addr.clone()));
    let addr = addr.expect("there is a server, ours or the one that was named");
    plan.fabric = Fabric::name(&addr).to_owned();
    let fabric = Fabric::towards(&addr)?;
    if let Some(choice) = fabric.choice() {
        eprintln!("RDMA device: {choice}");
    }
    let result = fabric.run(Measure {
        system,
        addr,
        settings: settings(args),
        plan: &plan,
        progress: &progress,
    });
    drop(progress);
    let ended = process.as_mut().and_then(ServerProcess::ended);
    let (mut report, latency) = result.map_err(|error| match ended {
        Some(end) => Failure::new(exit::UNAVAILABLE, format!("{error}; {end}")),
        None => Failure::new(exit::UNAVAILABLE, error),
    })?;
    report.counters.server_counters = process.map(ServerProcess::stop).unwrap_or_default();
    publish(args, &report, &latency)
}

/// Starts a server of ours and adds its table and its processor time to the report.
fn start<T: SystemTable>(
    plan: &mut Plan,
    server: &ServerPlan<T>,
    addr: &ControlAddr,
) -> Result<ServerProcess, Failure> {
    let process = ServerProcess::start(&plan.helper, server, addr)
        .map_err(|error| Failure::new(exit::UNAVAILABLE, error))?;
    plan.server.pid = Some(process.pid());
    plan.server.table = server.table(plan.workload.key_count);
    Ok(process)
}

fn settings(args: &Args) -> ClientSettings {
    ClientSettings {
        window: args.load.window,
        spin_us: args.pace.spin_us(),
        transfer: args.load.transfer,
        objective: args.load.objective,
    }
}

/// System of the server at `addr`. An error if it is not the one requested.
fn system_of<T: SystemTable>(args: &Args, addr: &ControlAddr) -> Result<T, Failure> {
    // First refuse addresses that carry no data.
    Fabric::towards(addr)?;
    let unavailable = |error: &dyn std::fmt::Display| Failure::new(exit::UNAVAILABLE, error);
    let mut stream = ControlStream::connect(addr, ANSWER).map_err(|error| unavailable(&error))?;
    let info = ask_service(&mut stream, &NativeCpu::new(0), ANSWER).map_err(|error| unavailable(&error))?;
    let system = T::named(&info.system).ok_or_else(|| {
        unavailable(&format!(
            "the server's system is {}, which this program does not know",
            info.system
        ))
    })?;
    match args.system::<T>()? {
        Some(asked) if asked != system => Err(usage(format!(
            "--system {asked}: the server at {addr} speaks {system}"
        ))),
        _ => Ok(system),
    }
}

/// Time limit for a server to report its system.
const ANSWER: Ns = Ns::from_s(5);

/// One benchmark on the fabric of the server's address.
struct Measure<'a, T> {
    system: T,
    addr: ControlAddr,
    settings: ClientSettings,
    plan: &'a Plan,
    progress: &'a Progress,
}

impl<T: SystemTable> Job for Measure<'_, T> {
    type Answer = Result<(Report, Latency), Box<dyn Error>>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        let device = device.clone();
        self.system.run(MeasureOn::<P, T> {
            device,
            measure: self,
        })
    }
}

struct MeasureOn<'a, P: Provider, T> {
    device: P::Device,
    measure: Measure<'a, T>,
}

impl<P: Provider<Cpu = NativeCpu>, T: SystemTable> SystemJob for MeasureOn<'_, P, T> {
    type Answer = Result<(Report, Latency), Box<dyn Error>>;

    fn run<S: System>(self) -> Self::Answer {
        let measure = self.measure;
        let tested = UnderTest::<P, S>::new(measure.addr, measure.settings, self.device);
        session::run(&tested, measure.plan, measure.progress)
    }
}

/// Address of a server that we start. Over RDMA it shares our device: its traffic leaves the device and comes back.
fn own_address<T: SystemTable>(args: &Args, system: T) -> ControlAddr {
    let text = match (args.fabric.as_str(), system) {
        ("rdma", _) => "rdma://127.0.0.1:0".to_owned(),
        (_, system) => format!("shm:bench-{}-{system}", std::process::id()),
    };
    text.parse().expect("a short name, or a loopback address")
}

fn plan<T: SystemTable>(args: &Args, system: T, value_bytes: [usize; 2], keys: u32) -> Result<Plan, Failure> {
    let cores = pin::allowed_cores().map_err(os_error)?;
    let (workload, load) = (args.workload.plan(keys, value_bytes, args.seed)?, &args.load);
    let turnovers = args.turnovers(system, workload.mix.insert_share > 0.0)?;
    // The replaced keys and their replacements are all different.
    let generations = 1 + u64::from(turnovers);
    KeyText::new(workload.key_bytes, u64::from(keys) * generations, args.seed).map_err(usage)?;
    Ok(Plan {
        system: system.to_string(),
        fabric: args.fabric.clone(),
        workload,
        clients: Clients {
            window: load.window * load.server_cores,
            pace: args.pace.pace(),
            processes: load.processes,
        },
        sampling: args.sampling.plan(),
        cores: Cores::choose(&cores, load.server_cores, load.client_count()),
        comparison: args.comparison.plan()?,
        load: true,
        helper: args.helper(HELPER)?,
        server: ServerFacts::default(),
        turnovers,
    })
}

/// Sizes of the server; the bound's reads cover the same memory.
fn server_plan<T: SystemTable>(args: &Args, system: T, plan: &Plan) -> Result<ServerPlan<T>, Failure> {
    let value_bytes_max = plan.workload.value_bytes[1];
    // Includes keys that inserts will add.
    let inserts =
        (plan.workload.mix.insert_share * 1.3 * f64::from(1 << 22) * args.load.client_count() as f64) as u64;
    let item_count = u64::from(plan.workload.key_count) + inserts;
    if item_count >= u64::from(Tape::KEYS_MAX) {
        return Err(usage(format!(
            "--keys {}: too many with the inserts of this mix",
            plan.workload.key_count
        )));
    }
    Ok(ServerPlan {
        system,
        cores: plan.cores.server.clone(),
        item_count,
        key_bytes: plan.workload.key_bytes,
        window: args.load.window,
        value_bytes_max,
        hash: args.load.hash,
    })
}

/// Prints the table and writes the files.
fn publish(args: &Args, report: &Report, latency: &Latency) -> Result<(), Failure> {
    match &args.output.json {
        None => print!("{report}"),
        Some(path) => {
            eprint!("{report}");
            write_json(path, report)?;
        }
    }
    if let Some(path) = &args.output.hdr {
        std::fs::write(path, latency.to_hdr_text()).map_err(|e| file_error(path, &e))?;
    }
    write_page(
        args,
        &[page::Section {
            value_size: report.workload.operations.value_size,
            reports: std::slice::from_ref(report),
        }],
    )?;
    write_result(args, report, latency)
}

/// Writes the page about the runs, if one is wanted.
fn write_page(args: &Args, sections: &[page::Section<'_>]) -> Result<(), Failure> {
    match &args.output.report {
        None => Ok(()),
        Some(folder) => page::write(folder, sections).map_err(|error| file_error(folder, &error)),
    }
}

/// Writes the result file, if one is wanted.
fn write_result(args: &Args, report: &Report, latency: &Latency) -> Result<(), Failure> {
    if args.output.no_results {
        return Ok(());
    }
    let Some(directory) = args
        .output
        .results
        .clone()
        .or_else(result_file::default_directory)
    else {
        eprintln!("no result file: no --results, and neither XDG_STATE_HOME nor HOME is set");
        return Ok(());
    };
    match result_file::write(&directory, report, latency) {
        Ok(path) => eprintln!("\nresult file: {}", path.display()),
        // The table has been printed; a full disk does not invalidate it.
        Err(error) if args.output.results.is_none() => {
            eprintln!("\nno result file: {}: {error}", directory.display())
        }
        Err(error) => return Err(file_error(&directory, &error)),
    }
    Ok(())
}

fn write_json(path: &Path, report: &impl serde::Serialize) -> Result<(), Failure> {
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

fn os_error(error: std::io::Error) -> Failure {
    Failure::new(exit::OS_ERROR, error)
}
