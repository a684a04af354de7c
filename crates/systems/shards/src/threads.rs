//! [`Shards`]: a thread per shard, and one control thread that accepts clients.

use crate::reception::{Answers, Door, Reception, Reply};
use drover_base::{Actor, Cpu, HashSeed, Progress};
use drover_kv::{Facts, OnCore, Service, Shard, ShardPlan};
use drover_mem::NativeCpu;
use drover_rt::acceptor::{ControlServer, ServerOptions};
use drover_rt::control::{ControlListener, ControlStream};
use drover_rt::{Mailbox, RunLoop, StopFlag, mailbox};
use drover_verbs::{Provider, Waker};
use std::io::{PipeReader, PipeWriter, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
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
    StatsQuery(Reply),
}

/// A running service. Stops when dropped.
struct Shards {
    doors: Arc<[Door]>,
    stoppers: Vec<Waker>,
    threads: Vec<JoinHandle<()>>,
    ended: PipeReader,
    why: Arc<Mutex<Option<String>>>,
}

/// A shard's thread is ready; the handles to it.
struct Ready {
    door: Door,
    stopper: Waker,
}

/// Starts the shards of `plan` on `device`, of the system described by `facts`, and accepts clients at `listeners`.
/// `on_core` runs first in each shard's thread, with the shard's index, for pinning.
///
/// # Errors
/// The reason, for people.
pub fn start<P: Provider<Cpu = NativeCpu>, S: Shard<P>>(
    device: &P::Device,
    facts: &'static Facts,
    plan: &ShardPlan,
    listeners: Vec<ControlListener>,
    on_core: OnCore,
) -> Result<Box<dyn Service>, String> {
    let shards = Shards::start::<P, S>(device, facts, plan, listeners, on_core)?;
    Ok(Box::new(shards))
}

impl Shards {
    fn start<P: Provider<Cpu = NativeCpu>, S: Shard<P>>(
        device: &P::Device,
        facts: &'static Facts,
        plan: &ShardPlan,
        listeners: Vec<ControlListener>,
        on_shard: OnCore,
    ) -> Result<Shards, String> {
        let cpu = NativeCpu::new(0);
        let seed = HashSeed::new(cpu.random(), cpu.random());
        let on_shard = Arc::new(on_shard);
        let (ended, end) = std::io::pipe().map_err(|error| error.to_string())?;
        let end = Arc::new(end);
        let mut shards = Shards {
            doors: Arc::from([]),
            stoppers: Vec::new(),
            threads: Vec::new(),
            ended,
            why: Arc::default(),
        };
        let mut starting = Vec::new();
        for index in 0..plan.shard_count {
            let (say, said) = channel();
            let (device, plan, on_shard) = (device.clone(), plan.clone(), on_shard.clone());
            let last_words = LastWords::new(&shards.why, &end, format!("shard {index}"));
            let work = move || {
                let mut last_words = last_words;
                on_shard(index);
                match run::<P, S>(&device, &plan, index, seed, &say) {
                    Ok(()) => last_words.was_asked = true,
                    Err(error) => drop(say.send(Err(error))),
                }
            };
            shards.spawn(format!("drover-shard-{index}"), work)?;
            starting.push(said);
        }
        let mut doors = Vec::new();
        for (index, said) in starting.into_iter().enumerate() {
            let ready = said.recv().unwrap_or_else(|_| Err("its thread ended".to_owned()));
            let ready = ready.map_err(|error| format!("shard {index}: {error}"))?;
            shards.stoppers.push(ready.stopper);
            doors.push(ready.door);
        }
        shards.doors = doors.into();
        shards.receive(
            facts,
            plan,
            listeners,
            LastWords::new(&shards.why, &end, "reception".into()),
        )?;
        Ok(shards)
    }

    fn receive(
        &mut self,
        facts: &'static Facts,
        plan: &ShardPlan,
        listeners: Vec<ControlListener>,
        last_words: LastWords,
    ) -> Result<(), String> {
        let handler = Reception::new(facts, self.doors.clone(), plan.clients_max);
        let options = ServerOptions {
            connections_max: plan.clients_max + UNDECIDED_MAX,
            ..ServerOptions::default()
        };
        let mut server = ControlServer::new(handler, options).map_err(|error| error.to_string())?;
        let waker = server.waker();
        server.handler().ring(waker.clone());
        listeners.into_iter().for_each(|listener| server.listen(listener));
        let stop = StopFlag::new();
        let flag = stop.clone();
        self.stoppers.push(Waker::new(move || {
            flag.set();
            waker.wake();
        }));
        self.spawn("drover-control".to_owned(), move || {
            let mut last_words = last_words;
            server.run(&NativeCpu::new(0), &stop);
            last_words.was_asked = true;
        })
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let thread = Builder::new().name(name.clone()).spawn(work);
        let thread = thread.map_err(|error| format!("thread {name}: {error}"))?;
        self.threads.push(thread);
        Ok(())
    }

    fn shut_down(&mut self) {
        // The control thread stops first, so that no client is accepted while shards stop.
        self.stoppers.iter().rev().for_each(Waker::wake);
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

impl Service for Shards {
    fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    fn why(&self) -> String {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().unwrap_or_else(|| "it was stopped".to_owned())
    }

    fn counters(&self, patience: Duration) -> Result<Vec<Vec<u64>>, String> {
        let mut answers = Answers::ask(&self.doors, None);
        loop {
            if let Some(all) = answers.complete() {
                return Ok(all);
            }
            if !answers.wait(patience) {
                return Err(format!("no answer from shards {:?}", answers.missing()));
            }
        }
    }

    fn stop(mut self: Box<Self>) {
        self.shut_down();
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Reports that a thread ended without being stopped.
struct LastWords {
    why: Arc<Mutex<Option<String>>>,
    end: Arc<PipeWriter>,
    who: String,
    was_asked: bool,
}

impl LastWords {
    fn new(why: &Arc<Mutex<Option<String>>>, end: &Arc<PipeWriter>, who: String) -> LastWords {
        LastWords {
            why: why.clone(),
            end: end.clone(),
            who,
            was_asked: false,
        }
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        if self.was_asked {
            return;
        }
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.get_or_insert(format!("{} has ended", self.who));
        drop(why);
        // The reader may have been closed.
        let _ = (&*self.end).write(&[0]);
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
                Mail::StatsQuery(reply) => reply.reply(self.shard.counters()),
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
    index: usize,
    seed: HashSeed,
    say: &Sender<Result<Ready, String>>,
) -> Result<(), String> {
    let shard = S::open(device, plan, index, seed)?;
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
    if say.send(Ok(ready)).is_err() {
        return Ok(());
    }
    let resident = Resident {
        shard,
        mail,
        clients,
        client_count: 0,
    };
    run_loop.run(&mut [&mut Post::<P, S>(resident, PhantomData)], &stop);
    Ok(())
}
