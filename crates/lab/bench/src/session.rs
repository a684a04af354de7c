//! [`run`]: one whole `bench`: loads, warms up, takes interleaved samples of the system, the bounds and the rivals, and
//! computes the report.
//!
//! ```text
//! sample i:  probe | system at window W | probe | other keys | system at window 1 | bounds | rival 1 mode 1 | ...
//! ```
//! Samples are interleaved, so that disturbances of the machine affect all of them.

mod plan;

pub use plan::{Clients, Comparison, Plan, Sampling, ServerFacts, Wanted, WorkloadPlan};

use crate::bound::{Bound, Echo, EchoError, Pairs, Placement};
use crate::driver::{Client, Measured, Pace, RunOptions, SAMPLE_EVERY, since};
use crate::latency::Latency;
use crate::load_threads::{LoadThreads, System};
use crate::machine::Machine;
use crate::pin;
use crate::progress::Progress;
use crate::report::{
    CoreProbes, Lone, ProcessorTime, ReadsSummary, Report, RivalResult, RunInfo, Sample, SampleCounts,
};
use crate::rivals::{Entrant, Mode, Rival, RivalOptions, RivalTarget, Transport};
use crate::target::{NullTarget, TargetError};
use crate::verbs::VerbsByKind;
use crate::workload::{KeyText, Tape, TapeOptions, Values};
use crate::{Churned, ReadsPerGet, processor_time, result_file};
use drover_base::Ns;
use drover_mem::{LINE_BYTES, timestamp};
use plan::closed_loop;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;

/// Maximum duration of a sample of a bound.
const BOUND_TIME: Ns = Ns::from_ms(150);
/// Interval between checks of the cores' placement.
const LOOK_EVERY: Ns = Ns::from_ms(20);

/// Runs `plan` against `system`. Meanwhile the calling thread is pinned to the first client core: it measures the
/// bounds and drives the rivals itself. Returns the report, and the latencies in the throughput runs of all samples,
/// including samples that do not [count](Report::counts).
///
/// # Errors
/// A client could not connect; the system, the measurement of a bound, or a rival that had been loaded failed; or an
/// operation failed or returned a wrong value. A rival that cannot be started or loaded is only noted in the report.
///
/// # Panics
/// If the plan has no client core or no server core.
pub fn run<S: System>(
    system: &S,
    plan: &Plan,
    progress: &Progress,
) -> Result<(Report, Latency), Box<dyn Error>> {
    tied(plan, || {
        std::thread::scope(|scope| {
            let load_threads = system.load_threads(scope, plan)?;
            let mut stage = Stage::set(plan, progress, load_threads)?;
            stage.run_samples(progress)?;
            stage.turn_over(progress)?;
            stage.report.counters.verbs = system.verbs(plan)?;
            stage.finish()
        })
    })
}

/// Runs `measure` pinned to the first client core, only for that time: another run may follow, with servers on other
/// cores.
fn tied<R>(plan: &Plan, measure: impl FnOnce() -> Result<R, Box<dyn Error>>) -> Result<R, Box<dyn Error>> {
    pin::pinned(&plan.cores.client[..1], measure)?
}

/// A system under test as a `dyn` type, so that one list can hold systems with different types of clients. Every
/// [`System`] implements it.
pub trait Contestant {
    /// Starts the client threads or processes of `plan` and waits until all clients have connected.
    ///
    /// # Errors
    /// A client could not be pinned or connected, or its process could not be started.
    fn load_threads<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        plan: &Plan,
    ) -> Result<LoadThreads, Box<TargetError>>;

    /// The verbs of each kind of operation, counted by a client that is connected for that, while the other clients rest;
    /// `None` if clients do not count them. The keys of `plan` must have values.
    ///
    /// # Errors
    /// The client could not connect, or an operation failed.
    fn verbs(&self, plan: &Plan) -> Result<Option<VerbsByKind>, Box<dyn Error>>;
}

impl<S: System> Contestant for S {
    fn load_threads<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        plan: &Plan,
    ) -> Result<LoadThreads, Box<TargetError>> {
        match plan.clients.processes {
            0 | 1 => LoadThreads::start(scope, self, &plan.load_threads()),
            processes => {
                LoadThreads::start_processes(scope, self, &plan.helper, &plan.load_threads(), processes)
            }
        }
    }

    fn verbs(&self, plan: &Plan) -> Result<Option<VerbsByKind>, Box<dyn Error>> {
        if !self.counts_verbs() {
            return Ok(None);
        }
        let workload = &plan.workload;
        let mut keys = KeyText::new(workload.key_bytes, u64::from(workload.key_count), workload.seed)?;
        let mut values = Values::new(workload.value_bytes[0], workload.value_bytes[1]);
        let mut target = self.connect(plan.cores.client.len() as u32)?;
        let verbs = VerbsByKind::count(&mut target, &mut keys, &mut values, workload.key_count)?;
        Ok(verbs)
    }
}

/// Runs several systems interleaved: loads and warms up each, then takes rounds of one sample of each, so that
/// disturbances of the machine affect all of them. Each round begins with another system. The plans should differ only
/// in system and server: the number of rounds is the first plan's [`Sampling::repeats`], and [`Sampling::wanted`] is
/// ignored. Returns one report and one histogram of latencies per system, in the order of `contestants`.
///
/// # Errors
/// The error of the first system that fails.
///
/// # Panics
/// If a plan has no client core or no server core.
pub fn run_by_turns(
    contestants: &[(&dyn Contestant, &Plan)],
    progress: &Progress,
) -> Result<Vec<(Report, Latency)>, Box<dyn Error>> {
    let Some((_, first)) = contestants.first() else {
        return Ok(Vec::new());
    };
    let repeats = first.sampling.repeats;
    tied(first, || {
        std::thread::scope(|scope| {
            let mut stages = Vec::new();
            for &(contestant, plan) in contestants {
                let load_threads = contestant.load_threads(scope, plan)?;
                stages.push(Stage::set(plan, progress, load_threads)?);
            }
            let count = stages.len();
            let counter = progress.phase("measuring, interleaved", (repeats * count * 2) as u64);
            for round in 0..repeats {
                for turn in 0..count {
                    let stage = &mut stages[(round + turn) % count];
                    let sample = stage.sample(&counter)?;
                    stage.report.samples.push(sample);
                }
            }
            for (stage, (contestant, plan)) in stages.iter_mut().zip(contestants) {
                stage.turn_over(progress)?;
                stage.report.counters.verbs = contestant.verbs(plan)?;
            }
            stages.into_iter().map(Stage::finish).collect()
        })
    })
}

/// Everything that runs during the samples.
struct Stage<'a> {
    plan: &'a Plan,
    load_threads: LoadThreads,
    echo: Echo,
    pairs: Option<Pairs>,
    rivals: Vec<SystemUnderTest>,
    report: Report,
    latency: Latency,
}

impl<'a> Stage<'a> {
    fn set(
        plan: &'a Plan,
        progress: &Progress,
        load_threads: LoadThreads,
    ) -> Result<Stage<'a>, Box<dyn Error>> {
        let mut report = Report {
            system: plan.system.clone(),
            fabric: plan.fabric.clone(),
            run: RunInfo {
                commit: env!("DROVER_COMMIT").to_owned(),
                seed: plan.workload.seed,
                machine: Machine::this(),
                time: result_file::now(),
            },
            reads: ReadsSummary {
                table: plan.server.table,
                ..ReadsSummary::default()
            },
            ..Report::default()
        };
        if plan.load {
            let counter = progress.phase(
                format!("loading {} keys", plan.workload.key_count),
                u64::from(plan.workload.key_count),
            );
            load_threads.load(0..plan.workload.key_count, plan.clients.window.max(16), &counter)?;
        }
        let rivals = systems_under_test(plan, progress, &mut report.compared.rivals_missing);
        let echo = Echo::start(&plan.helper, plan.cores.server[0])?;
        let pairs = match plan.comparison.bound {
            true => Some(Pairs::new(
                plan.server.footprint[0] as usize,
                plan.server.footprint[1] as usize,
                plan.workload.seed,
            )?),
            false => None,
        };
        let pages = pairs
            .as_ref()
            .map_or_else(String::new, |p| p.page_kind().to_string());
        report.workload = plan.report_workload(driver_ns(plan)?, pages);
        report.notes = notes(plan);
        progress.phase("warming up", 1);
        if plan.sampling.warm_up > Ns::ZERO {
            let options = plan.clients.run_options(plan.sampling.warm_up);
            load_threads.run(plan.cores.client.len(), &options)?;
        }
        Ok(Stage {
            plan,
            load_threads,
            echo,
            pairs,
            rivals,
            report,
            latency: Latency::new(),
        })
    }

    fn run_samples(&mut self, progress: &Progress) -> Result<(), Box<dyn Error>> {
        let steps = 2 + usize::from(self.plan.comparison.bound) + self.rivals.len();
        let counter = progress.phase("measuring", (self.plan.sampling.repeats * steps) as u64);
        let began = timestamp();
        self.report.counted.wanted_placement = self.plan.sampling.wanted.map(|wanted| wanted.placement);
        self.report.counted.wants_full_speed =
            self.plan.sampling.wanted.is_some_and(|wanted| wanted.full_speed);
        while self.report.wanted_count() < self.plan.sampling.repeats && self.await_placement(began)? {
            let sample = self.sample(&counter)?;
            self.report.samples.push(sample);
            let counted = self.report.wanted_count() * steps;
            counter.store(counted as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until the cores are in the wanted placement. Returns false if the time limit is over.
    #[allow(
        clippy::disallowed_methods,
        reason = "waits for the machine, between measurements"
    )]
    fn await_placement(&mut self, began: u64) -> Result<bool, Box<dyn Error>> {
        let Some(wanted) = self.plan.sampling.wanted else {
            return Ok(true);
        };
        while !self.is_as(wanted)? {
            if since(began) > wanted.patience {
                self.report.notes.push(format!(
                    "the cores were not {}{} for long enough: {} of {} samples after {:.0} s",
                    wanted.placement,
                    if wanted.full_speed {
                        " and at full speed"
                    } else {
                        ""
                    },
                    self.report.wanted_count(),
                    self.plan.sampling.repeats,
                    since(began).0 as f64 / 1e9
                ));
                return Ok(false);
            }
            std::thread::sleep(LOOK_EVERY.to_duration());
        }
        Ok(true)
    }

    /// Whether the cores are now in the wanted placement.
    fn is_as(&mut self, wanted: Wanted) -> Result<bool, EchoError> {
        let full_speed = self.report.note_core_speed(&self.echo.core_ns()?);
        let in_place = Placement::of(self.echo.probe_ns()?) == wanted.placement;
        Ok(in_place && (full_speed || !wanted.full_speed))
    }

    /// Takes one sample of everything.
    fn sample(&mut self, counter: &AtomicU64) -> Result<Sample, Box<dyn Error>> {
        // The two runs alternate in order: the first one of a sample directly follows the wait for the cores.
        let other_first = self.report.samples.len() % 2 == 1;
        let early = if other_first { self.sample_beside()? } else { None };
        let mut sample = self.sample_system()?;
        counter.fetch_add(1, Ordering::Relaxed);
        sample.beside_ops = if other_first { early } else { self.sample_beside()? };
        sample.window1 = self.sample_window1(&sample)?;
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(pairs) = &mut self.pairs {
            sample.bound = Some(sample_bound(self.plan, &mut self.echo, pairs)?);
            counter.fetch_add(1, Ordering::Relaxed);
        }
        sample.cores.rtt_ns[2] = self.echo.probe_ns()?;
        sample.cores.placement = Some(Placement::among(&sample.cores.rtt_ns));
        for contender in &mut self.rivals {
            sample.rivals.push(contender.sample(self.plan)?);
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Ok(sample)
    }

    fn sample_system(&mut self) -> Result<Sample, Box<dyn Error>> {
        let plan = self.plan;
        let options = plan.clients.run_options(plan.sampling.time);
        let speed_before = self.echo.core_ns()?;
        let before = self.echo.probe_ns()?;
        let used = plan.server.pid.and_then(processor_time::cpu_ns);
        let measured = self.load_threads.run(plan.cores.client.len(), &options)?;
        let used_now = plan.server.pid.and_then(processor_time::cpu_ns);
        let after = self.echo.probe_ns()?;
        let core_ns = [speed_before, self.echo.core_ns()?];
        self.report.note_core_speed(core_ns.as_flattened());
        honest(&measured)?;
        self.latency.merge(&measured.latency);
        Ok(Sample {
            throughput_ops: measured.ops_per_s(),
            hit_rate: measured.counts.hit_rate(),
            counts: SampleCounts {
                ops: measured.counts.ops,
                verified: measured.counts.verified,
                elapsed_ns: measured.elapsed.0,
                slowest_share: measured.rates.slowest_share(),
            },
            latency_us: measured.latency.summary(),
            cores: CoreProbes {
                rtt_ns: [before, after, after],
                placement: None,
                core_ns: Some(core_ns),
            },
            reads: measured.reads,
            calls: measured.calls,
            processor_time: ProcessorTime {
                server_ns: processor_time::per_op(used, used_now, measured.counts.ops),
                client_ns: Some(measured.processor_time.0 as f64 / measured.counts.ops.max(1) as f64),
            },
            ..Sample::default()
        })
    }

    /// Operations per second with the second popularity, if there is one.
    fn sample_beside(&mut self) -> Result<Option<f64>, Box<dyn Error>> {
        let plan = self.plan;
        if plan.workload.beside.is_none() {
            return Ok(None);
        }
        let options = RunOptions {
            other_tape: true,
            ..plan.clients.run_options(plan.sampling.time)
        };
        let measured = self.load_threads.run(plan.cores.client.len(), &options)?;
        honest(&measured)?;
        Ok(Some(measured.ops_per_s()))
    }

    /// Results of one client with one operation in flight; those of the sample itself if it was such a run.
    fn sample_window1(&mut self, sample: &Sample) -> Result<Lone, Box<dyn Error>> {
        let plan = self.plan;
        if plan.clients.window == 1 && plan.cores.client.len() == 1 && plan.clients.pace == Pace::Closed {
            return Ok(Lone {
                throughput_ops: sample.throughput_ops,
                latency_us: sample.latency_us,
            });
        }
        let options = closed_loop(1, plan.sampling.side_time());
        let measured = self.load_threads.run(1, &options)?;
        honest(&measured)?;
        Ok(Lone {
            throughput_ops: measured.ops_per_s(),
            latency_us: measured.latency.summary(),
        })
    }

    /// Replaces all keys, as often as requested, and measures the GETs' READs then. It follows the samples, which are
    /// of the freshly filled table.
    fn turn_over(&mut self, progress: &Progress) -> Result<(), Box<dyn Error>> {
        let (plan, turnovers) = (self.plan, self.plan.turnovers);
        if turnovers == 0 {
            return Ok(());
        }
        let all = u64::from(plan.workload.key_count) * u64::from(turnovers);
        let counter = progress.phase(
            format!("replacing {} keys, {turnovers} times", plan.workload.key_count),
            all,
        );
        for _ in 0..turnovers {
            let (count, window) = (plan.workload.key_count, plan.clients.window.max(16));
            self.load_threads.churn(count, 0..count, window, &counter)?;
        }
        let options = plan.clients.run_options(plan.sampling.side_time());
        let measured = self.load_threads.run(plan.cores.client.len(), &options)?;
        honest(&measured)?;
        let reads = measured.reads.unwrap_or_default();
        self.report.reads.churned =
            ReadsPerGet::under_churn(&reads, plan.server.table.as_ref()).map(|reads_per_get| Churned {
                turnovers,
                reads_per_get,
            });
        Ok(())
    }

    fn finish(mut self) -> Result<(Report, Latency), Box<dyn Error>> {
        self.report.summarize();
        let note = self.report.placement_note();
        self.report.notes.extend(note);
        Ok((self.report, self.latency))
    }
}

/// Fails if any answers were wrong: such a measurement is worthless.
fn honest(measured: &Measured) -> Result<(), Box<TargetError>> {
    let counts = &measured.counts;
    match (counts.corrupt, counts.failed) {
        (0, 0) => Ok(()),
        (corrupt, failed) => Err(TargetError::new(format!(
            "{corrupt} values were not what was written, {failed} operations failed, of {}",
            counts.ops
        ))),
    }
}

fn sample_bound(plan: &Plan, echo: &mut Echo, pairs: &mut Pairs) -> Result<Bound, Box<dyn Error>> {
    let time = plan.sampling.time.min(BOUND_TIME);
    let ring_ops = echo.ring_ops(plan.clients.window, LINE_BYTES, time)?;
    let reply_bytes = plan.workload.value_bytes[1].max(1).next_multiple_of(LINE_BYTES);
    let reply_ring_ops = match reply_bytes {
        LINE_BYTES => ring_ops,
        _ => echo.ring_ops(plan.clients.window, reply_bytes, time)?,
    };
    let ring_rtt_ns = 1e9 / echo.ring_ops(1, LINE_BYTES, time)?;
    let socket_rtt_us = echo.socket_rtt_us(Ns(time.0 / 4))?;
    // On the server's core, where the server does its reads.
    let (dram_pair_ops, dram_pair_ns) = pin::pinned(&plan.cores.server[..1], || {
        (pairs.batched_ops(time), pairs.dependent_ns(time))
    })?;
    Ok(Bound {
        ring_ops,
        reply_ring_ops,
        reply_bytes,
        dram_pair_ops,
        ring_rtt_ns,
        dram_pair_ns,
        socket_rtt_us,
    })
}

/// Cost of the load generator with a null target, nanoseconds per operation.
fn driver_ns(plan: &Plan) -> Result<f64, Box<dyn Error>> {
    let tape = Tape::new(&TapeOptions {
        entry_count: 1 << 16,
        ..plan.workload.tape()
    });
    let mut client = client_of(plan, NullTarget::default(), tape)?;
    let options = closed_loop(plan.clients.window, Ns::from_ms(20));
    client.run(&options)?;
    Ok(1e9 / client.run(&options)?.ops_per_s())
}

fn client_of<T: crate::Target>(plan: &Plan, target: T, tape: Tape) -> Result<Client<T>, Box<dyn Error>> {
    let keys = KeyText::new(
        plan.workload.key_bytes,
        u64::from(tape.index_count()),
        plan.workload.seed,
    )?;
    let values = Values::new(plan.workload.value_bytes[0], plan.workload.value_bytes[1]);
    Ok(Client::new(target, tape, keys, values, 0))
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if plan.clients.window > 1 && plan.clients.pace == Pace::Closed {
        notes.push(format!(
            "latencies at window {} are those of one operation in {SAMPLE_EVERY}; at window 1 of every one",
            plan.clients.window
        ));
    }
    if plan.cores.shared {
        notes.push(
            "cores are shared: there are fewer than workers and clients, which let each other run".to_owned(),
        );
    }
    if !plan.comparison.rivals.is_empty() && plan.cores.client.len() > 1 {
        notes.push("rivals are driven from one client core".to_owned());
    }
    notes
}

/// A rival in one mode with its connected client. The modes of one transport share the server process.
struct SystemUnderTest {
    name: String,
    mode: Mode,
    client: Client<RivalTarget>,
    /// Dropping the last reference ends the server.
    server: std::rc::Rc<Rival>,
}

fn systems_under_test(plan: &Plan, progress: &Progress, missing: &mut Vec<String>) -> Vec<SystemUnderTest> {
    let mut all = Vec::new();
    for entrant in &plan.comparison.rivals {
        if entrant.find().is_none() {
            missing.push(format!("{} is not installed", entrant.name()));
            continue;
        }
        for transport in [Transport::Unix, Transport::Tcp] {
            match systems_over(entrant, transport, plan, progress) {
                Ok(some) => all.extend(some),
                // If a rival fails here, the others are still measured.
                Err(error) => missing.push(format!("{} over {transport:?}: {error}", entrant.name())),
            }
        }
    }
    // Order by mode, so that comparable results are measured within the same seconds.
    all.sort_by_key(|contender: &SystemUnderTest| Mode::ALL.iter().position(|mode| *mode == contender.mode));
    all
}

fn systems_over(
    entrant: &Entrant,
    transport: Transport,
    plan: &Plan,
    progress: &Progress,
) -> Result<Vec<SystemUnderTest>, Box<dyn Error>> {
    let options = RivalOptions {
        cores: plan.cores.server.clone(),
        shared: plan.cores.shared,
        item_count: u64::from(plan.workload.key_count),
        item_bytes: (plan.workload.key_bytes + plan.workload.value_bytes[1]) as u64,
    };
    let modes = Mode::ALL.into_iter();
    let modes: Vec<Mode> = modes
        .filter(|mode| mode.transport == transport && plan.comparison.wants(mode))
        .collect();
    let (name, program) = (entrant.name(), entrant.find().ok_or("it is gone")?);
    let mut all = Vec::new();
    if modes.is_empty() {
        return Ok(all);
    }
    let server = Rival::start_program(entrant.kind, &program, transport, &plan.helper, &options)?;
    let server = std::rc::Rc::new(server);
    for mode in modes {
        let tape = Tape::new(&TapeOptions {
            entry_count: 1 << 20,
            ..plan.workload.tape()
        });
        let mut client = client_of(plan, server.client(&mode)?, tape)?;
        if all.is_empty() {
            let counter = progress.phase(format!("loading {name}"), u64::from(plan.workload.key_count));
            client.load(0..plan.workload.key_count, mode.window(), &counter)?;
        }
        all.push(SystemUnderTest {
            name: name.clone(),
            mode,
            client,
            server: server.clone(),
        });
    }
    Ok(all)
}

impl SystemUnderTest {
    fn sample(&mut self, plan: &Plan) -> Result<RivalResult, Box<dyn Error>> {
        let options = closed_loop(self.mode.window(), plan.sampling.side_time());
        let before = self.server.cpu_ns();
        let measured = self.client.run(&options)?;
        honest(&measured)?;
        let after = self.server.cpu_ns();
        Ok(RivalResult {
            name: self.name.clone(),
            server_ns: processor_time::per_op(before, after, measured.counts.ops),
            mode: self.mode.name.to_owned(),
            throughput_ops: measured.ops_per_s(),
            hit_rate: measured.counts.hit_rate(),
            latency_us: measured.latency.summary(),
        })
    }
}
