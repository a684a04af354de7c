//! [`Shards`]: a thread per shard, and one control thread that accepts clients.

use crate::answers::Reply;
use crate::reception::{Door, Reception, ask};
use crate::thread_group::{Hello, ThreadGroup, wait_for_all};
use drover_base::{Actor, HashSeed, Progress};
use drover_control::acceptor::ControlServer;
use drover_control::{ControlListener, ControlStream};
use drover_kv::{Facts, OnCore, Service, Shard, ShardPlan, StartError};
use drover_mem::NativeCpu;
use drover_rt::{Mailbox, RunLoop, StopFlag, WakeFd, mailbox};
use drover_verbs::{Provider, Waker};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Capacity of a shard's mailbox: channels and queries.
const MAIL_MAX: usize = 256;
/// Connections that have not selected a shard yet, in addition to those of clients.
const UNDECIDED_MAX: usize = 64;

/// A message to a shard's thread.
pub(super) enum Mail {
    /// Serve the client at the other end.
    Adopt(ControlStream),
    /// Report the counters.
    StatsQuery(Reply<Vec<u64>>),
}

/// A running service. Stops when dropped.
struct Shards {
    doors: Arc<[Door]>,
    group: ThreadGroup,
}

/// A shard's thread is ready; the handles to it.
struct Ready {
    door: Door,
    stopper: Waker,
}

/// Starts the shards of `plan` on `device`, of the system described by `facts`, and a control thread that accepts
/// clients at `listeners`. `on_core` runs first in each shard's thread, with the shard's index, for pinning. Returns
/// when all threads are ready; the service runs until the result is stopped or dropped.
///
/// # Errors
/// [`StartError`] if a thread or a shard cannot be started; then all others are stopped.
pub fn start<P: Provider<Cpu = NativeCpu>, S: Shard<P>>(
    device: &P::Device,
    facts: &'static Facts,
    plan: &ShardPlan,
    listeners: Vec<ControlListener>,
    on_core: OnCore,
) -> Result<Box<dyn Service>, StartError> {
    let seed = HashSeed::drawn(plan.table.hash, &NativeCpu::new(0));
    let on_core = Arc::new(on_core);
    let common = S::Common::default();
    let mut group = ThreadGroup::new()?;
    let mut starting = Vec::new();
    for index in 0..plan.shard_count {
        let (device, plan, on_core, common) = (device.clone(), plan.clone(), on_core.clone(), common.clone());
        let work = move |hello: &Hello<Ready>| {
            on_core(index);
            run::<P, S>(&device, &plan, (index, seed, &common), hello);
            Ok(())
        };
        starting.push(group.start(format!("drover-shard-{index}"), work));
    }
    let (ready, result) = wait_for_all(starting);
    let mut doors = Vec::new();
    for ready in ready {
        group.stop_by(ready.stopper);
        doors.push(ready.door);
    }
    result.map_err(|(index, error)| StartError::Shard {
        index,
        error: Box::new(error),
    })?;
    let doors: Arc<[Door]> = doors.into();
    // The control thread starts last and stops first, so that no client is accepted while shards stop.
    receive(&mut group, facts, plan, listeners, doors.clone())?;
    Ok(Box::new(Shards { doors, group }))
}

/// Starts the control thread, which accepts clients.
fn receive(
    group: &mut ThreadGroup,
    facts: &'static Facts,
    plan: &ShardPlan,
    listeners: Vec<ControlListener>,
    doors: Arc<[Door]>,
) -> Result<(), StartError> {
    let wake = WakeFd::new().map_err(|source| StartError::System {
        what: "waiting for clients",
        source,
    })?;
    let waker = wake.waker();
    let handler = Reception::new(facts, doors, plan.clients_max, waker.clone());
    let mut server = ControlServer::new(handler, plan.clients_max + UNDECIDED_MAX);
    server.wake_by(wake);
    listeners.into_iter().for_each(|listener| server.listen(listener));
    let stop = StopFlag::new();
    let flag = stop.clone();
    group.stop_by(Waker::new(move || {
        flag.set();
        waker.wake();
    }));
    let starting = group.start("drover-control".to_owned(), move |hello| {
        hello.say(Ok(()));
        server.run(&NativeCpu::new(0), &stop);
        Ok(())
    });
    starting.wait()
}

impl Service for Shards {
    fn ended(&self) -> BorrowedFd<'_> {
        self.group.ended()
    }

    fn why(&self) -> String {
        self.group.why().unwrap_or_else(|| "it was stopped".to_owned())
    }

    fn counters(&self, patience: Duration) -> Result<Vec<Vec<u64>>, String> {
        let answers = ask(&self.doors, None).wait(patience);
        answers.map_err(|silent| format!("no answer from shards {:?}", silent.0))
    }

    fn stop(mut self: Box<Self>) {
        self.group.stop();
    }
}

/// A shard and its mailbox.
struct Resident<S> {
    shard: S,
    mail: Mailbox<Mail>,
    clients: Arc<AtomicUsize>,
    client_count: usize,
}

impl<S> Resident<S> {
    /// Handles all mail; returns whether there was any.
    fn take_mail<P: Provider>(&mut self) -> bool
    where
        S: Shard<P>,
    {
        let mut any = false;
        while let Some(mail) = self.mail.recv() {
            any = true;
            match mail {
                Mail::Adopt(stream) => self.shard.adopt(stream),
                Mail::StatsQuery(reply) => reply.send(self.shard.counters()),
            }
        }
        any
    }
}

/// [`Resident`] on its provider.
struct Post<P, S>(Resident<S>, PhantomData<fn() -> P>);

impl<P: Provider, S: Shard<P>> Actor<P::Cpu> for Post<P, S> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let any = self.0.take_mail::<P>();
        let progress = self.0.shard.step(cpu);
        let count = self.0.shard.client_count();
        if count != self.0.client_count {
            self.0.client_count = count;
            // Relaxed: the control thread needs only an approximate count.
            self.0.clients.store(count, Ordering::Relaxed);
        }
        if any { Progress::Busy } else { progress }
    }
}

/// Main function of a shard's thread; returns when the thread is asked to stop.
fn run<P: Provider, S: Shard<P>>(
    device: &P::Device,
    plan: &ShardPlan,
    (index, seed, common): (usize, HashSeed, &S::Common),
    hello: &Hello<Ready>,
) {
    let shard = match S::open(device, plan, index, seed, common) {
        Ok(shard) => shard,
        Err(error) => {
            hello.say(Err(error));
            return;
        }
    };
    let ctx = shard.context();
    let (mailer, mail) = mailbox(MAIL_MAX, drover_verbs::Context::waker(&*ctx));
    let clients = Arc::new(AtomicUsize::new(0));
    let stop = StopFlag::new();
    let mut run_loop = RunLoop::<P>::new(&ctx, plan.idle);
    let ready = Ready {
        door: Door {
            mailer,
            clients: clients.clone(),
        },
        stopper: run_loop.stopper(&stop),
    };
    // The starter may have given up; in that case it has also dropped the stopper.
    if !hello.say(Ok(ready)) {
        return;
    }
    let resident = Resident {
        shard,
        mail,
        clients,
        client_count: 0,
    };
    run_loop.run(&mut [&mut Post::<P, S>(resident, PhantomData)], &stop);
}
