//! [`Service`]: the registry of a service, for commands that may wait for its answer.

use super::{ServiceUrl, not_opened, refused};
use crate::exit::{self, Failure};
use drover_base::{Cpu, Ns};
use drover_cluster::{
    Draft, Map, Registry, RegistryEvent, RegistryReply, RegistryRequest, Transaction, View,
};
use drover_cluster_etcd::EtcdRegistry;
use drover_control::Credentials;
use drover_mem::NativeCpu;
use std::sync::Arc;
use std::time::Duration;

/// A request that failed is repeated after this time.
const PAUSE: Duration = Duration::from_millis(200);

/// A service, as its etcd knows it.
pub struct Service {
    url: ServiceUrl,
    registry: EtcdRegistry,
    patience: Duration,
    tickets: u64,
    clock: NativeCpu,
}

impl Service {
    /// A way to the service of `url`, as `user` of etcd. Requests wait `patience` for an answer.
    ///
    /// # Errors
    /// A file of the URL cannot be used, or there is no thread.
    pub fn open(
        url: &ServiceUrl,
        user: Option<&Credentials>,
        patience: Duration,
    ) -> Result<Service, Failure> {
        let mut options = url.options().map_err(|error| not_opened(url, &error))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        options.user = user
            .map(|user| (text(user.user()), text(user.secret())))
            .or(options.user);
        let registry = EtcdRegistry::open(options).map_err(|error| not_opened(url, &error))?;
        Ok(Service {
            url: url.clone(),
            registry,
            patience,
            tickets: 0,
            clock: NativeCpu::new(0),
        })
    }

    /// Its name and where its etcd is.
    pub fn url(&self) -> &ServiceUrl {
        &self.url
    }

    /// Members and map, and whether there is such a service at all.
    ///
    /// # Errors
    /// etcd does not answer or refuses, or knows no such service.
    pub fn look(&mut self) -> Result<(View, Arc<Map>), Failure> {
        let view = self.view()?;
        match view.map.clone() {
            Some(map) => Ok((view, map)),
            None => {
                let text = format!(
                    "{}: etcd knows no such service: no member has ever served it",
                    self.url
                );
                Err(Failure::new(exit::UNAVAILABLE, text))
            }
        }
    }

    /// What etcd knows.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn view(&mut self) -> Result<View, Failure> {
        match self.ask(&RegistryRequest::Look)? {
            RegistryReply::View(view) => Ok(view),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Members that have each item, as the service's settings say.
    ///
    /// # Errors
    /// etcd does not answer.
    pub fn replicas(&mut self) -> Result<u8, Failure> {
        match self.ask(&RegistryRequest::Settings(None))? {
            RegistryReply::Settings(settings) => Ok(settings.map_or(1, |settings| settings.replicas)),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Changes the map by `change`, again if somebody else has changed it meanwhile. Returns what is in force then.
    ///
    /// # Errors
    /// etcd does not answer or refuses, or `change` refuses.
    pub fn change(
        &mut self,
        change: impl Fn(&View, &mut Draft) -> Result<(), Failure>,
    ) -> Result<Arc<Map>, Failure> {
        loop {
            let (view, map) = self.look()?;
            let mut draft = Draft::after(&map);
            change(&view, &mut draft)?;
            let Some(next) = draft.finish() else {
                return Ok(map);
            };
            let map = Arc::new(next);
            let transaction = Transaction {
                map: map.clone(),
                alive: Vec::new(),
                gone: Vec::new(),
            };
            match self.ask(&RegistryRequest::Commit(transaction))? {
                RegistryReply::Committed => return Ok(map),
                RegistryReply::Conflict => {}
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    /// Waits for a change, at most for `longest`.
    pub fn next_change(&mut self, longest: Duration) -> Option<View> {
        let until = self.until(longest);
        loop {
            match self.registry.wait(self.rest(until))? {
                RegistryEvent::Changed(view) => return Some(view),
                RegistryEvent::Reply { .. } | RegistryEvent::Failed { .. } => {}
            }
        }
    }

    /// Asks until there is an answer, a refusal, or patience is over. A commit whose answer was lost is repeated, too: if it took effect, the
    /// second one conflicts, and the map that is looked at then has the change.
    fn ask(&mut self, request: &RegistryRequest) -> Result<RegistryReply, Failure> {
        let until = self.until(self.patience);
        loop {
            self.tickets += 1;
            self.registry.submit(Ns::ZERO, self.tickets, request.clone());
            if let Some(reply) = self.reply_to(self.tickets, until) {
                return Ok(reply);
            }
            let failure = self.registry.no_answer();
            if failure.is_final() {
                return Err(refused(&self.url, &failure));
            }
            if self.rest(until) <= PAUSE {
                return Err(self.silent());
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// The reply to the request with this ticket; `None`: it failed.
    fn reply_to(&mut self, expected: u64, until: Ns) -> Option<RegistryReply> {
        loop {
            match self.registry.wait(self.rest(until))? {
                RegistryEvent::Reply { ticket, reply } if ticket == expected => return Some(reply),
                RegistryEvent::Failed { ticket } if ticket == expected => return None,
                _ => {}
            }
        }
    }

    fn until(&self, wait: Duration) -> Ns {
        self.clock.refresh() + Ns::from_ms(wait.as_millis() as u64)
    }

    fn rest(&self, until: Ns) -> Duration {
        until.since(self.clock.refresh()).to_duration()
    }

    fn silent(&self) -> Failure {
        let text = format!(
            "{}: etcd does not answer within {} ms: check the address (`etcdctl endpoint health`) and the network",
            self.url,
            self.patience.as_millis()
        );
        Failure::new(exit::UNAVAILABLE, text)
    }

    fn unexpected(&self, reply: &RegistryReply) -> Failure {
        Failure::new(
            exit::SOFTWARE,
            format!("{}: unexpected answer {reply:?}", self.url),
        )
    }
}
