//! [`Connection`]: the client, made when it is first needed, and what every answer is checked for.

use crate::keys::Keys;
use crate::{EtcdOptions, NoAnswer, NoAnswerKind};
use drover_cluster::{BadMapBytes, MemberId};
use drover_control::DecodeError;
use etcd_client::{Client, ConnectOptions, ResponseHeader};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reasons why a request has failed. It may have taken effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Etcd(#[from] etcd_client::Error),
    /// The endpoints lead to another etcd than before: its revisions say nothing about ours.
    #[error("cluster {found:x} answers instead of {expected:x}: check the endpoints")]
    OtherCluster { expected: u64, found: u64 },
    #[error("etcd answers without a header")]
    NoHeader,
    #[error("{0}")]
    Map(#[from] BadMapBytes),
    #[error("the settings of the service cannot be read: {0}")]
    Settings(#[from] DecodeError),
}

impl Failure {
    /// The failure, for those who wait.
    fn no_answer(&self, user: Option<&str>) -> NoAnswer {
        let refusal = match self {
            Failure::Etcd(error) => refusal(error),
            _ => None,
        };
        NoAnswer {
            kind: match refusal {
                Some(_) => NoAnswerKind::User,
                None => NoAnswerKind::Silent,
            },
            why: match (refusal, user) {
                (None, _) => self.to_string(),
                (Some(message), Some(user)) => format!("the user {user}: {message}"),
                (Some(message), None) => format!("clients without a user: {message}"),
            },
        }
    }
}

/// What etcd says if it refuses the client itself.
fn refusal(error: &etcd_client::Error) -> Option<&str> {
    /// Numbers of gRPC's status codes.
    const INVALID_ARGUMENT: i32 = 3;
    const PERMISSION_DENIED: i32 = 7;
    const UNAUTHENTICATED: i32 = 16;
    let etcd_client::Error::GRpcStatus(status) = error else {
        return None;
    };
    let is_refusal = match i32::from(status.code()) {
        PERMISSION_DENIED | UNAUTHENTICATED => true,
        // A wrong password, or none where one is needed; other arguments are ours.
        INVALID_ARGUMENT => status.message().contains("user"),
        _ => false,
    };
    is_refusal.then(|| status.message())
}

/// What tasks share.
pub(crate) struct Connection {
    pub(crate) keys: Keys,
    options: EtcdOptions,
    client: tokio::sync::Mutex<Option<Client>>,
    /// Cluster that has answered; 0: none yet.
    cluster_id: AtomicU64,
    /// Leases of our own registrations.
    leases: Mutex<BTreeMap<MemberId, i64>>,
}

impl Connection {
    pub(crate) fn new(options: EtcdOptions, keys: Keys) -> Connection {
        Connection {
            keys,
            options,
            client: tokio::sync::Mutex::new(None),
            cluster_id: AtomicU64::new(0),
            leases: Mutex::default(),
        }
    }

    /// What is known of a request that has failed.
    pub(crate) fn no_answer(&self, failure: &Failure) -> NoAnswer {
        failure.no_answer(self.options.user.as_ref().map(|(name, _)| &**name))
    }

    /// Longest time of a request.
    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// The client; it reconnects by itself.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.options.timeout)
            .with_keep_alive(self.options.timeout, self.options.timeout)
            .with_keep_alive_while_idle(true);
        if let Some((user, password)) = &self.options.user {
            options = options.with_user(user, password).with_auto_token_refresh(true);
        }
        if let Some(tls) = &self.options.tls {
            options = options.with_tls(tls.options(self.options.timeout));
        }
        let connected = Client::connect(&self.options.endpoints, Some(options)).await?;
        Ok(client.insert(connected).clone())
    }

    /// Checks that an answer comes from the cluster that answered first. Returns the revision it is of.
    pub(crate) fn check(&self, header: Option<&ResponseHeader>) -> Result<u64, Failure> {
        let header = header.ok_or(Failure::NoHeader)?;
        let found = header.cluster_id();
        // Relaxed: the number publishes nothing.
        let first = self
            .cluster_id
            .compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed);
        match first {
            Err(expected) if expected != found => Err(Failure::OtherCluster { expected, found }),
            _ => Ok(header.revision() as u64),
        }
    }

    pub(crate) fn set_lease(&self, id: MemberId, lease: i64) {
        self.leases
            .lock()
            .expect("no method panics half way")
            .insert(id, lease);
    }

    pub(crate) fn lease(&self, id: &MemberId) -> Option<i64> {
        self.leases
            .lock()
            .expect("no method panics half way")
            .get(id)
            .copied()
    }
}
