//! [`Server`]: a running service, with workers and acceptor in threads of their own; or in pieces that the caller
//! steps.

use super::acceptor::Acceptor;
use super::mail::Command;
use super::options::ServerOptions;
use super::setup::Setup;
use super::supervise::run_worker;
use super::variant::{Standard, Variant};
use super::worker::{Worker, WorkerHandle};
use drover_control::{ControlListener, ControlStream};
use drover_kv::{MakeCoActor, ServiceStats, StartError};
use drover_rt::{Mailbox, Mailer, WakeFd, unbounded_mailbox};
use drover_shards::{Answers, Hello, ThreadGroup, wait_for_all};
use drover_verbs::{Provider, Waker};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Shortest patience with the control thread, whose answer depends on no other thread.
const CONTROL_PATIENCE: Duration = Duration::from_secs(1);

/// A request of a running server's owner to its control thread.
enum Ask {
    /// Serve the client at the other end of this channel.
    Adopt(ControlStream),
    /// Report the statistics of clients.
    Stats(mpsc::Sender<ServiceStats>),
    /// Close all clients' channels and stop the workers.
    Stop,
}

/// A server in pieces, which the caller steps: the acceptor, and the workers in the order of their partitions.
pub type Pieces<P, V = Standard> = (Acceptor<P, V>, Vec<Worker<P, V>>);

/// A running server: workers and a control thread in this process. Dropping it stops the threads and waits until they
/// have ended.
pub struct Server<P: Provider> {
    asks: Mailer<Ask>,
    workers: Vec<WorkerHandle>,
    group: ThreadGroup,
    _provider: PhantomData<fn() -> P>,
}

impl<P: Provider> Server<P> {
    /// Starts one worker thread per partition, and a control thread that serves the clients that connect at
    /// `listeners`; returns when all are ready. `on_worker` runs first in each worker's thread, with the partition's
    /// index as its argument, for pinning.
    ///
    /// # Errors
    /// [`StartError`]; then none of the threads is left.
    pub fn start(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Server<P>, StartError> {
        Server::start_with(device, listeners, options, on_worker, None)
    }

    /// As [`start`](Server::start), and each worker shares its core with a [`CoActor`](drover_kv::CoActor) that
    /// `co_actors` makes; `None`: without co-actors.
    ///
    /// # Errors
    /// As [`start`](Server::start), also if a co-actor cannot be made.
    pub fn start_with(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
        co_actors: Option<MakeCoActor<P>>,
    ) -> Result<Server<P>, StartError> {
        Server::start_as(device, listeners, options, on_worker, co_actors, Standard)
    }

    /// As [`start_with`](Server::start_with), with a server that differs from the shipped one by `variant`, for tests.
    ///
    /// # Errors
    /// As [`start_with`](Server::start_with).
    pub fn start_as<V: Variant>(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
        co_actors: Option<MakeCoActor<P, V::Sharing>>,
        variant: V,
    ) -> Result<Server<P>, StartError> {
        let wake = WakeFd::new().map_err(|source| StartError::System {
            what: "waiting for clients",
            source,
        })?;
        let (setup, events) = Setup::<P, _>::new(device, options, variant, wake.waker())?;
        let on_worker: Arc<dyn Fn(usize) + Send + Sync> = Arc::new(on_worker);
        let mut group = ThreadGroup::new()?;
        let mut starting = Vec::new();
        for index in 0..options.partition_count {
            let (setup, on_worker, co_actors) = (setup.clone(), on_worker.clone(), co_actors.clone());
            let work = move |hello: &Hello<WorkerHandle>| {
                on_worker(index);
                run_worker(&setup, index, co_actors.as_ref(), hello);
                Ok(())
            };
            starting.push(group.start(format!("drover-worker-{index}"), work));
        }
        // Workers end when this is dropped: by the control thread's end, or because the start fails.
        let (ready, result) = wait_for_all(starting);
        let workers = ready.clone();
        let stop_workers = StopAtEnd(ready);
        result.map_err(|(_, error)| error)?;
        let (asks, mail) = unbounded_mailbox(wake.waker());
        let (handles, listeners) = (workers.clone(), listeners.into_iter().collect());
        let control = group.start("drover-control".to_owned(), move |hello| {
            let _stop_workers = stop_workers;
            let acceptor = Acceptor::new(&setup, handles, events);
            run_acceptor(acceptor, listeners, wake, mail, hello)
        });
        control.wait()?;
        let stop = asks.clone();
        // A control thread that has ended needs not be asked.
        group.stop_by(Waker::new(move || drop(stop.send(Ask::Stop))));
        Ok(Server {
            asks,
            workers,
            group,
            _provider: PhantomData,
        })
    }

    /// A descriptor that becomes readable when a thread of the server has ended without [`stop`](Server::stop), for the
    /// reason that [`why`](Server::why) returns.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.group.ended()
    }

    /// Why a thread of the server, the first if there are several, has ended without [`stop`](Server::stop); `None` if
    /// none has.
    pub fn why(&self) -> Option<String> {
        self.group.why()
    }

    /// Makes a server without threads and listeners: the caller [adopts](Acceptor::adopt) clients' channels, and steps
    /// acceptor and workers, all in this thread.
    ///
    /// # Errors
    /// [`StartError`], as [`start`](Server::start).
    pub fn in_pieces(device: &P::Device, options: &ServerOptions) -> Result<Pieces<P>, StartError> {
        Server::in_pieces_as(device, options, Standard)
    }

    /// As [`in_pieces`](Server::in_pieces), of a server that differs from the shipped one by `variant`, for tests.
    ///
    /// # Errors
    /// As [`in_pieces`](Server::in_pieces).
    pub fn in_pieces_as<V: Variant>(
        device: &P::Device,
        options: &ServerOptions,
        variant: V,
    ) -> Result<Pieces<P, V>, StartError> {
        let (setup, events) = Setup::<P, V>::new(device, options, variant, Waker::new(|| ()))?;
        let workers = (0..options.partition_count)
            .map(|index| Worker::new(&setup, index))
            .collect::<Result<Vec<_>, _>>()?;
        let handles = workers.iter().map(Worker::handle).collect();
        Ok((Acceptor::new(&setup, handles, events)?, workers))
    }

    /// Serves the client at the other end of `stream`, as if it had connected at a listener. If the control thread has
    /// ended, the channel is closed.
    pub fn adopt(&self, stream: ControlStream) {
        self.ask_control(Ask::Adopt(stream));
    }

    /// Statistics of all workers and of the clients. Blocks for at most 5 s per answer; `None` if a thread did not
    /// answer.
    pub fn stats(&self) -> Option<ServiceStats> {
        self.ask(Duration::from_secs(5)).ok()
    }

    /// Statistics of all workers and of the clients. Blocks for at most `patience` per worker, and at most `patience`,
    /// or a second if that is longer, for the control thread.
    ///
    /// # Errors
    /// The threads that did not answer, which is how a thread that hangs is found; if the control thread is one of
    /// them, only that.
    pub fn ask(&self, patience: Duration) -> Result<ServiceStats, String> {
        let (asker, control) = mpsc::channel();
        self.ask_control(Ask::Stats(asker));
        let workers = Answers::ask(self.workers.len(), None, |index, reply| {
            self.workers[index].send(Command::Stats(reply));
        });
        let workers = workers.wait(patience);
        let control = control.recv_timeout(patience.max(CONTROL_PATIENCE));
        let stats = control.map_err(|_| "the control thread does not answer")?;
        let workers = workers.map_err(|silent| silent.to_string())?;
        Ok(ServiceStats { workers, ..stats })
    }

    fn ask_control(&self, ask: Ask) {
        // If it has ended, there is no answer, and the caller's wait times out.
        let _ = self.asks.send(ask);
    }

    /// Closes all clients' channels and blocks until all threads have ended: co-actors may take 2 s to finish.
    pub fn stop(mut self) {
        self.group.stop();
    }
}

/// Stops workers when the control thread ends, however it does.
struct StopAtEnd(Vec<WorkerHandle>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        for worker in &self.0 {
            worker.send(Command::Stop);
        }
    }
}

/// Main function of the control thread. Returns an error if the server ended because a worker gave up.
fn run_acceptor<P: Provider, V: Variant>(
    acceptor: Result<Acceptor<P, V>, StartError>,
    listeners: Vec<ControlListener>,
    wake: WakeFd,
    mut mail: Mailbox<Ask>,
    hello: &Hello<()>,
) -> Result<(), String> {
    let mut acceptor = match acceptor {
        Ok(acceptor) => acceptor,
        Err(error) => {
            hello.say(Err(error));
            return Ok(());
        }
    };
    if !hello.say(Ok(())) {
        return Ok(());
    }
    acceptor.listen(listeners, wake);
    while !acceptor.is_stopped() {
        acceptor.turn();
        while let Some(ask) = mail.recv() {
            match ask {
                Ask::Adopt(stream) => acceptor.adopt(stream),
                // The caller may have stopped waiting.
                Ask::Stats(asker) => drop(asker.send(acceptor.stats())),
                Ask::Stop => acceptor.stop(),
            }
        }
    }
    acceptor.failure().map_or(Ok(()), Err)
}
