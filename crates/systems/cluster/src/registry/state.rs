//! [`RegistryState`]: what a registry holds, and what requests do to it.

use super::{RegistryReply, RegistryRequest, Transaction, View};
use crate::{Map, Member, MemberId, ServiceSettings};
use drover_base::Ns;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A registration.
struct Lease {
    member: Member,
    instance: u64,
    ttl: Ns,
    ends_at: Ns,
}

/// Members and map, in the memory of this process.
#[derive(Default)]
pub(super) struct RegistryState {
    /// By name.
    leases: BTreeMap<Arc<str>, Lease>,
    map: Option<Arc<Map>>,
    settings: Option<ServiceSettings>,
    revision: u64,
}

impl RegistryState {
    /// Ends the leases that have run out, and executes a request at `now`.
    pub(super) fn execute(&mut self, now: Ns, request: RegistryRequest) -> RegistryReply {
        self.expire(now);
        match request {
            RegistryRequest::Register {
                advert,
                instance,
                ttl,
            } => {
                if let Some(lease) = self.leases.get(advert.name()) {
                    let is_same = lease.instance == instance;
                    return if is_same {
                        RegistryReply::Registered(lease.member.id())
                    } else {
                        RegistryReply::NameTaken
                    };
                }
                self.revision += 1;
                let incarnation = self.revision;
                let member = Member { advert, incarnation };
                let (id, ends_at) = (member.id(), now + ttl);
                let lease = Lease {
                    member,
                    instance,
                    ttl,
                    ends_at,
                };
                self.leases.insert(id.name.clone(), lease);
                RegistryReply::Registered(id)
            }
            RegistryRequest::Renew(id) => match self.lease(&id) {
                Some(lease) => {
                    lease.ends_at = now + lease.ttl;
                    RegistryReply::Renewed
                }
                None => RegistryReply::LeaseLost,
            },
            RegistryRequest::Leave(id) => {
                if self.lease(&id).is_some() {
                    self.leases.remove(&id.name);
                    self.revision += 1;
                }
                RegistryReply::Left
            }
            RegistryRequest::Commit(transaction) => self.commit(transaction),
            RegistryRequest::Look => RegistryReply::View(self.view()),
            RegistryRequest::Settings(first) => {
                self.settings = self.settings.or(first);
                RegistryReply::Settings(self.settings)
            }
        }
    }

    /// Ends the leases that have run out by `now`.
    pub(super) fn expire(&mut self, now: Ns) {
        let before = self.leases.len();
        self.leases.retain(|_, lease| lease.ends_at > now);
        self.revision += (before - self.leases.len()) as u64;
    }

    /// Grows with every change.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn view(&self) -> View {
        let members = self.leases.values().map(|lease| lease.member.clone());
        View {
            revision: self.revision,
            members: Arc::new(members.collect()),
            map: self.map.clone(),
        }
    }

    fn lease(&mut self, id: &MemberId) -> Option<&mut Lease> {
        self.leases.get_mut(&id.name).filter(|lease| lease.member.is(id))
    }

    fn commit(&mut self, transaction: Transaction) -> RegistryReply {
        let epoch = self.map.as_ref().map_or(crate::Epoch::NONE, |map| map.epoch());
        let holds = transaction.map.epoch() == epoch.next()
            && transaction.alive.iter().all(|id| self.lease(id).is_some())
            && transaction.gone.iter().all(|id| self.lease(id).is_none());
        if !holds {
            return RegistryReply::Conflict;
        }
        self.map = Some(transaction.map);
        self.revision += 1;
        RegistryReply::Committed
    }
}
