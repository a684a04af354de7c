//! [`Shards`]: every shard in a thread of its own, and one thread that lets clients in.

use crate::reception::{Answers, Door, Reception, Reply};
use drover_base::{Actor, Cpu, HashSeed, Progress};
use drover_kv::{Facts, OnCore, Service, Shard, ShardPlan, StartError};
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

/// Channels and questions that may wait for a shard to take them.
const MAIL_MAX: usize = 256;
/// Channels that have not said yet which shard they want, beyond those of clients.
const UNDECIDED_MAX: usize = 64;

/// What a shard is told.
pub(super) enum Mail {
    /// Serve the client at the other end.
    Adopt(ControlStream),
    /// Say what you have done.
    StatsQuery(Reply),
}

/// A service that runs. Stops when dropped.
struct Shards {
    doors: Arc<[Door]>,
    stoppers: Vec<Waker>,
    threads: Vec<JoinHandle<()>>,
    ended: PipeReader,
    why: Arc<Mutex<Option<String>>>,
}

/// What a shard's thread says when it is ready.
struct Ready {
    door: Door,
    stopper: Waker,
}

/// Starts `plan`'s shards of the system of `facts` on `device`, and lets clients in at `listeners`. `on_core` runs first in
/// each shard's thread, with its number: for pinning.
///
/// # Errors
/// Why it could not be started.
pub fn start<P: Provider<Cpu = NativeCpu>, S: Shard<P>>(
    device: &P::Device,
    facts: &'static Facts,
    plan: &ShardPlan,
    listeners: Vec<ControlListener>,
    on_core: OnCore,
) -> Result<Box<dyn Service>, StartError> {
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
    ) -> Result<Shards, StartError> {
        let cpu = NativeCpu::new(0);
        let seed = HashSeed::new(cpu.random(), cpu.random());
        let on_shard = Arc::new(on_shard);
        let (ended, end) = std::io::pipe().map_err(|source| StartError::System { what: "pipe", source })?;
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
            let ready = said.recv().unwrap_or_else(|_| Err(ended_early(index)));
            let ready = ready.map_err(|error| StartError::Shard {
                index,
                error: Box::new(error),
            })?;
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
    ) -> Result<(), StartError> {
        let handler = Reception::new(facts, self.doors.clone(), plan.clients_max);
        let options = ServerOptions {
            connections_max: plan.clients_max + UNDECIDED_MAX,
            ..ServerOptions::default()
        };
        let mut server = ControlServer::new(handler, options).map_err(|source| StartError::System {
            what: "waiting for clients",
            source,
        })?;
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

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
        let thread = Builder::new().name(name.clone()).spawn(work);
        let thread = thread.map_err(|error| StartError::Thread {
            name,
            reason: error.to_string(),
        })?;
        self.threads.push(thread);
        Ok(())
    }

    fn shut_down(&mut self) {
        // Nobody is let in any more before shards go.
        self.stoppers.iter().rev().for_each(Waker::wake);
        for thread in self.threads.drain(..) {
            // One that panicked has said so on its way.
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
        why.clone().unwrap_or_else(|| "it was asked to".to_owned())
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

/// Tells when a thread ends that nobody asked to.
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
        // The reader may have gone.
        let _ = (&*self.end).write(&[0]);
    }
}

/// A shard and its mail.
struct Resident<S> {
    shard: S,
    mail: Mailbox<Mail>,
    clients: Arc<AtomicUsize>,
    client_count: usize,
}

impl<S> Resident<S> {
    /// Takes what has come; whether something had.
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
            // Relaxed: a number for the reception to look at.
            self.0.clients.store(count, Ordering::Relaxed);
        }
        if any { Progress::Busy } else { progress }
    }
}

/// A shard's thread ended without a word: it panicked.
fn ended_early(index: usize) -> StartError {
    StartError::Thread {
        name: format!("drover-shard-{index}"),
        reason: "it ended before it was ready".to_owned(),
    }
}

/// A shard's thread, until it is asked to stop.
fn run<P: Provider, S: Shard<P>>(
    device: &P::Device,
    plan: &ShardPlan,
    index: usize,
    seed: HashSeed,
    say: &Sender<Result<Ready, StartError>>,
) -> Result<(), StartError> {
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
    // The starter may have given up; then it has dropped the way to stop us, too.
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
