//! [`Server`]: a running service, workers and acceptor in threads of their own; or in pieces.

use super::acceptor::Acceptor;
use super::mail::Command;
use super::options::ServerOptions;
use super::setup::Setup;
use super::stats::Silence;
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

/// How long the control thread may take to answer: it needs nobody for that.
const CONTROL_PATIENCE: Duration = Duration::from_secs(1);

/// What the owner of a running server wants of its control thread.
enum Ask {
    /// Serve the client at the other end.
    Adopt(ControlStream),
    /// Say how many clients there are.
    Stats(mpsc::Sender<ServiceStats>),
    /// Say goodbye to all clients and stop the workers.
    Stop,
}

/// A server in pieces: what lets clients in, and the workers in the order of their partitions.
pub type Pieces<P, V = Standard> = (Acceptor<P, V>, Vec<Worker<P, V>>);

/// A running server. Stops when dropped.
pub struct Server<P: Provider> {
    asks: Mailer<Ask>,
    workers: Vec<WorkerHandle>,
    group: ThreadGroup,
    _provider: PhantomData<fn() -> P>,
}

impl<P: Provider> Server<P> {
    /// Starts one thread per partition, and one for control channels, which clients open at `listeners`. `on_worker` runs
    /// first in each worker's thread, with the partition's index, for pinning.
    pub fn start(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Server<P>, StartError> {
        Server::start_with(device, listeners, options, on_worker, None)
    }

    /// The same with a [`CoActor`](drover_kv::CoActor) at each worker, which `co_actors` makes.
    pub fn start_with(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
        co_actors: Option<MakeCoActor<P>>,
    ) -> Result<Server<P>, StartError> {
        Server::start_as(device, listeners, options, on_worker, co_actors, Standard)
    }

    /// The same with [`Variant`], for tests.
    pub fn start_as(
        device: &P::Device,
        listeners: impl IntoIterator<Item = ControlListener>,
        options: &ServerOptions,
        on_worker: impl Fn(usize) + Send + Sync + 'static,
        co_actors: Option<MakeCoActor<P>>,
        variant: impl Variant,
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

    /// Becomes readable when the server has ended by itself; [`why`](Server::why) tells the reason.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.group.ended()
    }

    /// Why the server has ended by itself, if it has.
    pub fn why(&self) -> Option<String> {
        self.group.why()
    }

    /// The same in pieces, which the caller steps by hand in one thread.
    pub fn in_pieces(device: &P::Device, options: &ServerOptions) -> Result<Pieces<P>, StartError> {
        Server::in_pieces_as(device, options, Standard)
    }

    /// The same of a [`Variant`], for tests.
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

    /// Serves a client in this process, at the other end of `stream`.
    pub fn adopt(&self, stream: ControlStream) {
        self.ask_control(Ask::Adopt(stream));
    }

    /// Asks all workers what they did; waits for the answers, at most a few seconds.
    pub fn stats(&self) -> Option<ServiceStats> {
        self.ask(Duration::from_secs(5)).ok()
    }

    /// The same, waiting for at most `patience`, and as long again (at least a second) for the control thread. Errors: who
    /// did not answer, which is how a thread that hangs is found.
    pub fn ask(&self, patience: Duration) -> Result<ServiceStats, Silence> {
        let (asker, control) = mpsc::channel();
        self.ask_control(Ask::Stats(asker));
        let workers = Answers::ask(self.workers.len(), None, |index, reply| {
            self.workers[index].send(Command::Stats(reply));
        });
        let workers = workers.wait(patience);
        let control = control.recv_timeout(patience.max(CONTROL_PATIENCE));
        let stats = control.map_err(|_| Silence::Control)?;
        let workers = workers.map_err(Silence::Workers)?;
        Ok(ServiceStats { workers, ..stats })
    }

    fn ask_control(&self, ask: Ask) {
        // If it has ended, there is no answer, and the caller's wait times out.
        let _ = self.asks.send(ask);
    }

    /// Says goodbye to all clients and ends all threads.
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

/// Main function of the control thread.
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
