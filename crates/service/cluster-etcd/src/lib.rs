//! [`EtcdRegistry`]: the registry of a service of several members, kept by etcd.
//!
//! | key below `drover/SERVICE/` | value | |
//! |---|---|---|
//! | `members/NAME` | [`Advert`](drover_cluster::Advert), instance `u64` | under the member's lease; its create revision is the incarnation |
//! | `epoch` | epoch of the map, decimal | what a transaction compares |
//! | `map` | [`Map`](drover_cluster::Map) | written with `epoch` |
//! | `settings` | [`ServiceSettings`](drover_cluster::ServiceSettings) | written once, by the first member |
//!
//! `settings` has the key of the hash and the secret by which members know each other: users of etcd that may read it count as
//! members and native clients.
//!
//! A thread of its own runs the client, so nothing here waits: requests go to the thread, events come back. It plans nothing and holds
//! no items; what must be true of a registry is said at [`Registry`].
//!
//! Why etcd keeps its promises: a lease lives from when it is granted, which is after the request was submitted; its time to live is rounded up to
//! seconds; a new leader of etcd gives every lease its whole time again. A renewal counts only after a read that a majority
//! confirms has found the registration, so one that an old leader has answered alone does not.
//!
//! ```no_run
//! use drover_base::Ns;
//! use drover_cluster::{Registry, RegistryRequest};
//! use drover_cluster_etcd::{EtcdOptions, EtcdRegistry};
//! let mut registry = EtcdRegistry::open(EtcdOptions::new("cache", &["http://10.0.0.1:2379"]))?;
//! registry.submit(Ns::ZERO, 1, RegistryRequest::Look);
//! println!("{:?}", registry.wait(std::time::Duration::from_secs(2)));
//! # Ok::<(), drover_cluster_etcd::OpenError>(())
//! ```
#![forbid(unsafe_code)]

mod connection;
mod keys;
mod no_answer;
mod parameters;
mod probe;
mod requests;
mod tls;
mod url;
mod watch;

pub use no_answer::{NoAnswer, NoAnswerKind};
pub use tls::EtcdTls;
pub use url::{BadServiceUrl, ServiceUrl};

use connection::Connection;
use drover_base::Ns;
use drover_cluster::{Registry, RegistryEvent, RegistryReply, RegistryRequest, ServiceSettings};
use keys::Keys;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Where etcd is, and which service is meant.
#[derive(Clone)]
pub struct EtcdOptions {
    /// Name of the service: 1 to 40 letters, digits, `-`, `_` or `.`.
    pub service: String,
    /// URLs of etcd's members; any that answers will do.
    pub endpoints: Vec<String>,
    /// User and password, if etcd wants them.
    pub user: Option<(String, String)>,
    /// Certificates, for endpoints with `https://`.
    pub tls: Option<EtcdTls>,
    /// A request without an answer after this time has failed.
    pub timeout: Duration,
}

impl EtcdOptions {
    /// A service at these endpoints, without a user, with requests of at most a second.
    pub fn new(service: &str, endpoints: &[&str]) -> EtcdOptions {
        EtcdOptions {
            service: service.to_string(),
            endpoints: endpoints.iter().map(|endpoint| endpoint.to_string()).collect(),
            user: None,
            tls: None,
            timeout: Duration::from_secs(1),
        }
    }
}

/// Reasons why a registry cannot be opened. That etcd does not answer is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name cannot be part of a key.
    #[error("{service:?} cannot be a service's name: 1 to 40 letters, digits, '-', '_' or '.'")]
    Service {
        /// The name.
        service: String,
    },
    /// Certificates or a key cannot be used.
    #[error("{parameters}: {why}")]
    Tls {
        /// The parameters of the URL that are to blame.
        parameters: String,
        /// What is wrong.
        why: String,
    },
    /// There is no thread to be had.
    #[error("cannot start the thread of the etcd client")]
    Thread(#[source] std::io::Error),
}

/// Ticket of requests that are waited for here; no caller has one so high.
const OWN_TICKET: u64 = u64::MAX;

/// A way to the registry. Dropping it ends its thread; a registration lives on until its lease ends.
pub struct EtcdRegistry {
    /// `None` only while it is dropped.
    requests: Option<UnboundedSender<(u64, RegistryRequest)>>,
    events: Receiver<RegistryEvent>,
    /// How etcd is reached.
    options: EtcdOptions,
    /// Why the last request that failed has failed.
    failure: Arc<Mutex<NoAnswer>>,
    thread: Option<JoinHandle<()>>,
}

impl EtcdRegistry {
    /// Starts the thread, which connects when there is something to ask.
    ///
    /// # Errors
    /// [`OpenError`]: the service has no proper name, or there is no thread.
    pub fn open(options: EtcdOptions) -> Result<EtcdRegistry, OpenError> {
        let Some(keys) = Keys::of(&options.service) else {
            let service = options.service;
            return Err(OpenError::Service { service });
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(OpenError::Thread)?;
        let (requests, to_do) = unbounded_channel();
        let (report, events) = channel();
        let connection = Arc::new(Connection::new(options.clone(), keys));
        let failure = Arc::<Mutex<NoAnswer>>::default();
        let failed = failure.clone();
        let body = move || runtime.block_on(serve(connection, to_do, report, failed));
        let thread = std::thread::Builder::new().name("etcd".to_string()).spawn(body);
        Ok(EtcdRegistry {
            requests: Some(requests),
            events,
            options,
            failure,
            thread: Some(thread.map_err(OpenError::Thread)?),
        })
    }

    /// The next event, for callers that have nothing else to do: waits for it for at most `longest`.
    pub fn wait(&mut self, longest: Duration) -> Option<RegistryEvent> {
        self.events.recv_timeout(longest).ok()
    }

    /// The settings of the service, for callers that cannot go on without: `None` if there are none yet. `first` become its settings
    /// in that case. Asks once, and waits for the answer. Events that come meanwhile are dropped, so it is called before members are followed.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn settings(&mut self, first: Option<ServiceSettings>) -> Result<Option<ServiceSettings>, NoAnswer> {
        self.submit(Ns::ZERO, OWN_TICKET, RegistryRequest::Settings(first));
        loop {
            match self.events.recv() {
                Ok(RegistryEvent::Reply {
                    ticket: OWN_TICKET,
                    reply: RegistryReply::Settings(settings),
                }) => return Ok(settings),
                Ok(RegistryEvent::Failed { ticket: OWN_TICKET }) => return Err(self.no_answer()),
                Ok(_) => {}
                // The thread has panicked.
                Err(_) => return Err(self.no_answer()),
            }
        }
    }

    /// Why the last request that failed has failed. Where that may be a matter of TLS, it connects to find out, and waits for that: for callers
    /// that have nothing else to do.
    pub fn no_answer(&self) -> NoAnswer {
        let failure = self
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match failure.is_final() {
            true => failure,
            false => probe::tls_problem(&self.options).unwrap_or(failure),
        }
    }
}

impl Registry for EtcdRegistry {
    fn submit(&mut self, _: Ns, ticket: u64, request: RegistryRequest) {
        let requests = self.requests.as_ref().expect("open until it is dropped");
        // The thread ends only after this end; if it has panicked, no event ever comes, as from an etcd that is away.
        let _ = requests.send((ticket, request));
    }

    fn poll(&mut self, _: Ns) -> Option<RegistryEvent> {
        self.events.try_recv().ok()
    }
}

impl Drop for EtcdRegistry {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// Executes requests, each as a task, and reports changes, until nobody can ask any more.
async fn serve(
    connection: Arc<Connection>,
    mut requests: UnboundedReceiver<(u64, RegistryRequest)>,
    report: Sender<RegistryEvent>,
    failure: Arc<Mutex<NoAnswer>>,
) {
    tokio::spawn(watch::watch(connection.clone(), report.clone()));
    while let Some((ticket, request)) = requests.recv().await {
        let (connection, report, failure) = (connection.clone(), report.clone(), failure.clone());
        tokio::spawn(async move {
            let event = match requests::execute(&connection, request).await {
                Ok(reply) => RegistryEvent::Reply { ticket, reply },
                Err(error) => {
                    tracing::debug!(%error, "etcd does not answer");
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = connection.no_answer(&error);
                    RegistryEvent::Failed { ticket }
                }
            };
            // Nobody listens any more if the registry was dropped meanwhile.
            let _ = report.send(event);
        });
    }
}
