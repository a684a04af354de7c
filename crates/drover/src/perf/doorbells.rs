//! How often threads ring doorbells: one thread, then several, each with a queue pair of its own in one domain.
//!
//! Each thread posts WRITEs of 8 bytes, inline, one per list, so that every request is a doorbell. Both ends are on this
//! machine (in a simulated cluster, on two): what is compared is posting, not the way of the data.

use super::args::{Endpoints, usage};
use super::{Args, failure};
use crate::exit::Failure;
use drover_base::{Actor, Cpu, Ns};
use drover_client::{Fabric, Job};
use drover_mem::NativeCpu;
use drover_perf::{Client, End, Found, Outcome, PerfError, Plan, Server, join, players};
use drover_rt::cores::{cores, pin};
use drover_verbs::{
    Caps, Context, Device, Domain, DomainOptions, DoorbellReport, DoorbellSource, Doorbells, Provider,
};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Sim, World};
use serde::Serialize;
use std::sync::Barrier;

/// Time of a measurement, which there are two of.
const TIME: Ns = Ns::from_ms(300);
/// The same in a simulated cluster, in virtual time.
const SIMULATED: Ns = Ns::from_us(100);
/// Time after which a measurement is given up.
const LIMIT: Ns = Ns::from_s(10);
/// Steps between two looks at the clock.
const STEPS: usize = 256;
/// Requests of a thread in flight.
const DEPTH: u32 = 64;
/// Bytes of a WRITE.
const BYTES: u32 = 8;

/// What some threads did.
#[derive(Serialize)]
struct Row {
    threads: usize,
    /// Doorbells of all threads together, per microsecond.
    doorbells_per_us: f64,
    /// Users of each doorbell register; empty if that is not known, or there are none.
    register_users: Vec<usize>,
    /// How the registers are known: exact, granted, unknown, or none if the fabric has none.
    source: &'static str,
}

impl Row {
    fn new(threads: usize, doorbells_per_us: f64, report: DoorbellReport) -> Row {
        Row {
            threads,
            doorbells_per_us,
            register_users: report.users,
            source: match report.source {
                DoorbellSource::NoDoorbells => "none",
                DoorbellSource::Granted => "granted",
                DoorbellSource::Unknown => "unknown",
                DoorbellSource::Exact => "exact",
            },
        }
    }
}

/// Compares one thread with `threads`, on the fabric that `args` name, and prints the result.
pub fn compare(args: &Args, threads: usize) -> Result<(), Failure> {
    let (fabric, rows) = match args.place()? {
        Endpoints::Threads => {
            let measured = Measure { threads }.run::<Shm>(&ShmDevice::default());
            ("shm".to_string(), measured?)
        }
        Endpoints::Cluster(profile) => {
            let profile = Profile::named(&profile).map_err(usage)?;
            let fabric = format!("sim:{}, seed {}: simulated time", profile.name(), args.seed);
            let row = |count| simulated(&profile, args.seed, count).map_err(failure);
            (fabric, [row(1)?, row(threads)?])
        }
        Endpoints::Server(addr) | Endpoints::Client(addr) => {
            let opened = Fabric::serving(&args.device.of(&addr)?, ShmDevice::default())?;
            let choice = opened.choice().map(|choice| format!(", {choice}"));
            let fabric = format!("rdma{}", choice.unwrap_or_default());
            (fabric, opened.run(Measure { threads })?)
        }
    };
    print(args, &fabric, &rows);
    Ok(())
}

fn print(args: &Args, fabric: &str, rows: &[Row; 2]) {
    let [one, many] = rows;
    let ratio = many.doorbells_per_us / one.doorbells_per_us.max(f64::MIN_POSITIVE);
    if args.json {
        let whole = serde_json::json!({ "fabric": fabric, "doorbells": rows, "ratio": ratio });
        println!("{whole:#}");
        return;
    }
    println!("doorbells over {fabric}");
    println!(
        "{:>8} {:>14} {:>12}  register users",
        "threads", "doorbells/us", "per thread"
    );
    for row in rows {
        let users: Vec<String> = row.register_users.iter().map(usize::to_string).collect();
        let users = match users.is_empty() {
            true => row.source.to_string(),
            false => format!("{} ({})", users.join(" "), row.source),
        };
        let each = row.doorbells_per_us / row.threads as f64;
        println!(
            "{:>8} {:>14.3} {each:>12.3}  {users}",
            row.threads, row.doorbells_per_us
        );
    }
    println!("{} threads ring {ratio:.2} times as often as one", many.threads);
}

fn plan(caps: &Caps, time: Ns) -> Result<Plan, PerfError> {
    let op = "write-bw".parse().map_err(PerfError::Plan)?;
    let mut plan = Plan::new(op, caps);
    (plan.sizes, plan.post_list) = (vec![BYTES], 1);
    plan.tx_depth = DEPTH.min(plan.tx_depth);
    plan.inline_bytes = BYTES.min(caps.inline_bytes_max as u32);
    plan.duration = Some(time);
    Ok(plan)
}

/// Doorbells per microsecond that an actor has found.
fn rate(outcome: &Outcome) -> Result<f64, PerfError> {
    match outcome.take() {
        Some(Ok(Found::Rate { count, time, .. })) => Ok(count as f64 * 1e3 / time.0.max(1) as f64),
        Some(Err(error)) => Err(error),
        _ => Err(PerfError::Silent { patience: LIMIT }),
    }
}

/// An actor that posts to an end of the same context.
fn poster<P: Provider>(ctx: &P::Context) -> Result<(Client<P>, Outcome, Server<P>), PerfError> {
    let plan = plan(ctx.caps(), TIME)?;
    let (mut a, mut b) = (End::<P>::new(ctx, &plan)?, End::<P>::new(ctx, &plan)?);
    join([(ctx, &mut a), (ctx, &mut b)])?;
    let ((client, outcome), (server, _)) = players(&plan, [a, b], BYTES as usize);
    Ok((client, outcome, server))
}

/// Measures on real cores, each thread on one of its own as far as there are some.
struct Measure {
    threads: usize,
}

impl Job for Measure {
    type Answer = Result<[Row; 2], Failure>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        let row = |threads| real::<P>(device, threads).map_err(failure);
        Ok([row(1)?, row(self.threads)?])
    }
}

fn real<P: Provider<Cpu = NativeCpu>>(device: &P::Device, threads: usize) -> Result<Row, PerfError> {
    let domain = device.domain(&DomainOptions::with(Doorbells::PerContext))?;
    let cores: Vec<usize> = cores()
        .unwrap_or_default()
        .iter()
        .map(|core| core.index)
        .collect();
    let (ready, done) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    std::thread::scope(|scope| {
        let spawn = |n: usize| {
            let core = cores.get(n % cores.len().max(1)).copied();
            let (domain, ready, done) = (&domain, &ready, &done);
            scope.spawn(move || {
                if let Some(core) = core {
                    let _ = pin(core);
                }
                let made = domain.context().map_err(PerfError::from);
                let made = made.and_then(|ctx| Ok((poster::<P>(&ctx)?, ctx)));
                ready.wait();
                let found = made.and_then(|((mut client, outcome, server), ctx)| {
                    let start = ctx.cpu().refresh();
                    while !outcome.is_done() && ctx.cpu().refresh().since(start) < LIMIT {
                        (0..STEPS).for_each(|_| {
                            client.step(ctx.cpu());
                        });
                    }
                    let found = rate(&outcome);
                    drop((client, server));
                    Ok((found?, ctx))
                });
                done.wait(); // all contexts are there when the registers are looked at
                ready.wait();
                found.map(|(rate, _)| rate)
            })
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        ready.wait();
        done.wait();
        let report = domain.doorbells();
        ready.wait();
        let mut sum = 0.0;
        let count = threads.len();
        for thread in threads {
            sum += thread.join().expect("the thread ends")?;
        }
        Ok(Row::new(count, sum, report))
    })
}

fn simulated(profile: &Profile, seed: u64, threads: usize) -> Result<Row, PerfError> {
    let world = World::new(profile.clone(), 2, seed);
    let domain = world
        .device(0)
        .domain(&DomainOptions::with(Doorbells::PerContext))?;
    let mut outcomes = Vec::new();
    let mut kept = Vec::new();
    for _ in 0..threads {
        let (here, there) = (domain.context()?, world.device(1).context()?);
        let plan = plan(here.caps(), SIMULATED)?;
        let (mut a, mut b) = (End::<Sim>::new(&here, &plan)?, End::<Sim>::new(&there, &plan)?);
        join([(&here, &mut a), (&there, &mut b)])?;
        let ((client, outcome), (server, _)) = players(&plan, [a, b], BYTES as usize);
        world.spawn(&here, Box::new(client));
        outcomes.push(outcome);
        kept.push((here, there, server));
    }
    world.run_while(LIMIT, || outcomes.iter().any(|outcome| !outcome.is_done()));
    let rates = outcomes.iter().map(rate).collect::<Result<Vec<f64>, _>>()?;
    Ok(Row::new(threads, rates.iter().sum(), domain.doorbells()))
}
