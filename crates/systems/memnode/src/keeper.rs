//! [`Keeper`]: a thread that keeps a process in a pool, and brings it back when a node was lost and has returned.
//!
//! ```text
//! a node is lost      its operations fail, those on other nodes go on: the old identity keeps its leases there
//! enter again         another thread dials all nodes, again and again, more and more rarely: none of the others waits
//! all nodes answer    the returned node is told that the old identity has stopped there; a new identity is let in
//! the threads follow  each sees a new generation, joins the new pool, ends what it does in the old one, drops that
//! leave               with the last handle of the old pool its leases end in order
//! ```
//! A thread that follows brings no caches along: a restarted node has another incarnation, perhaps other roots.

use crate::activity::Activity;
use crate::client::ClientId;
use crate::pool::{Opened, Pool, PoolError, PoolOptions};
use drover_base::sync::{Arc, AtomicU64, Mutex, Ordering};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::Dial;
use drover_verbs::{Context, Provider};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{JoinHandle, park_timeout};
use std::time::Duration;

/// Longest sleep of a lease's thread: what it looks at beside the lease wakes nobody.
const SLEEP_MAX: Ns = Ns::from_ms(10);
/// Pause before the first attempt to enter again; it doubles with each.
const PAUSE_MIN: Ns = Ns::from_ms(50);
/// Longest pause between two attempts.
const PAUSE_MAX: Ns = Ns::from_s(5);

/// Keeps a process in a pool on a thread of its own, and enters the pool again, as another client, when nodes were lost and
/// are back. After it was dropped the lease lasts until nobody uses the pool any more; then the process leaves in order.
pub struct Keeper<P: Provider> {
    shared: Arc<Shared<P>>,
}

struct Shared<P: Provider> {
    /// The pool as last entered.
    pool: Mutex<Option<Pool<P>>>,
    generation: AtomicU64,
    is_over: AtomicBool,
    /// Threads of leases, the newest last.
    threads: Mutex<Vec<JoinHandle<()>>>,
    domain: P::Domain,
    dials: Box<dyn Fn() -> Vec<Dial> + Send + Sync>,
    options: PoolOptions,
}

impl<P: Provider> Keeper<P> {
    /// Enters the pool whose nodes `dials` makes dialers of, and waits until they have answered.
    ///
    /// # Errors
    /// [`PoolError`] if these are not all nodes of a pool of the options' kind, or they do not let us in.
    pub fn start(
        domain: &P::Domain,
        dials: impl Fn() -> Vec<Dial> + Send + Sync + 'static,
        options: PoolOptions,
    ) -> Result<Keeper<P>, PoolError> {
        let shared = Arc::new(Shared {
            pool: Mutex::new(None),
            generation: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            threads: Mutex::default(),
            domain: domain.clone(),
            dials: Box::new(dials),
            options,
        });
        let (tell, told) = sync_channel(1);
        let own = shared.clone();
        own.spawn(move |shared| first(&shared, &tell));
        let keeper = Keeper { shared };
        // The thread ends without a word only if it panics.
        told.recv().unwrap_or(Err(PoolError::NoNodes))?;
        Ok(keeper)
    }

    /// The pool as last entered.
    pub fn pool(&self) -> Pool<P> {
        let pool = self.shared.pool.lock().expect("no thread panics with it");
        pool.clone().expect("it was entered")
    }

    /// What the process does in the pool.
    pub fn activity(&self) -> &Activity {
        &self.shared.options.activity
    }

    /// Changes whenever the process has entered again: [`pool`](Keeper::pool) is another one then. To be looked at between
    /// operations, a load.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }
}

impl<P: Provider> Keeper<P> {
    /// Leaves the pool, and waits until that is done: until the caller's threads have dropped what they have of it.
    pub fn leave(self) {
        for thread in self.end() {
            // It panics only by a bug, and the panic has been printed.
            let _ = thread.join();
        }
    }

    fn end(&self) -> Vec<JoinHandle<()>> {
        self.shared.is_over.store(true, Ordering::Release);
        *self.shared.pool.lock().expect("no thread panics with it") = None;
        let threads = std::mem::take(&mut *self.shared.threads.lock().expect("no thread panics with it"));
        threads.iter().for_each(|thread| thread.thread().unpark());
        threads
    }
}

impl<P: Provider> Drop for Keeper<P> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<P: Provider> Shared<P> {
    fn spawn(self: &Arc<Shared<P>>, run: impl FnOnce(Arc<Shared<P>>) + Send + 'static) {
        let shared = self.clone();
        let thread = std::thread::Builder::new().name("drover-lease".to_owned());
        match thread.spawn(move || run(shared)) {
            Ok(thread) => self
                .threads
                .lock()
                .expect("no thread panics with it")
                .push(thread),
            Err(error) => tracing::error!(%error, "no thread for the lease of a pool"),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn open(&self, stopped: Vec<(u32, ClientId)>) -> Result<Opened<P>, PoolError> {
        let options = PoolOptions {
            stopped,
            ..self.options.clone()
        };
        let idle = || park_timeout(Duration::from_micros(200));
        Pool::<P>::open(&self.domain, (self.dials)(), options, idle)
    }

    /// Makes a pool that was entered the one that threads use.
    fn publish(&self, pool: &Pool<P>) {
        *self.pool.lock().expect("no thread panics with it") = Some(pool.clone());
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// The thread of the first identity.
fn first<P: Provider>(shared: &Arc<Shared<P>>, tell: &SyncSender<Result<(), PoolError>>) {
    match shared.open(Vec::new()) {
        Ok(opened) => {
            shared.publish(&opened.0);
            let _ = tell.send(Ok(()));
            keep(shared, opened);
        }
        Err(error) => drop(tell.send(Err(error))),
    }
}

/// The thread of an identity that follows another, whose pool is `before`.
fn follow<P: Provider>(shared: &Arc<Shared<P>>, before: Pool<P>) {
    let (mut pause, mut said) = (PAUSE_MIN, String::new());
    loop {
        park_timeout(Duration::from_nanos(pause.0));
        if shared.is_over() {
            return;
        }
        let lost: Vec<usize> = (0..before.node_count())
            .filter(|&index| before.node(index).is_lost())
            .collect();
        // What is left of an operation ends soon: it has a deadline.
        if !lost.iter().all(|&index| before.has_stopped_at(index)) {
            continue;
        }
        let stopped = lost.iter().map(|&index| (index as u32, before.client()));
        match shared.open(stopped.collect()) {
            Ok(opened) => {
                tracing::warn!(
                    before = %before.client(),
                    client = %opened.0.client(),
                    "all memory nodes of the pool answer: entered again"
                );
                shared.publish(&opened.0);
                drop(before);
                return keep(shared, opened);
            }
            Err(error) => {
                let why = error.to_string();
                if why != said {
                    tracing::warn!(client = %before.client(), %why, "the pool is not whole; trying again");
                    said = why;
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// Keeps the lease until it is over, or another identity has followed and nobody uses this pool any more.
fn keep<P: Provider>(shared: &Arc<Shared<P>>, (pool, mut lease): Opened<P>) {
    let ctx = lease.context().clone();
    let own = shared.generation.load(Ordering::Acquire);
    let mut is_followed = false;
    loop {
        let now = ctx.cpu().refresh();
        if let Progress::Idle { wake_at } = lease.step(ctx.cpu()) {
            let sleep = wake_at.since(now).min(SLEEP_MAX);
            park_timeout(Duration::from_nanos(sleep.0));
        }
        let is_old = shared.is_over() || shared.generation.load(Ordering::Acquire) != own;
        // This handle and the lease's.
        if is_old && pool.handles() <= 2 {
            return pool.leave();
        }
        if shared.is_over() && pool.nodes().iter().all(|node| node.is_lost()) {
            return;
        }
        let any_lost = || {
            pool.nodes()
                .iter()
                .any(|node| node.is_lost() && !node.is_absent())
        };
        if !is_followed && !shared.is_over() && any_lost() {
            is_followed = true;
            let before = pool.clone();
            shared.spawn(move |shared| follow(&shared, before));
        }
    }
}
