//! [`Forger`]: a client with the keys of another one.
//!
//! The keys of registered memory can be guessed, and a client's own queue pairs are its own to use. So a forger replaces the next
//! one-sided request that a client posts: it becomes a WRITE or READ of memory that somebody else was given. Test and devices
//! have handles of the same forger; the server's device, if it has one, tells it which memory is behind which key.

use drover_mem::Region;
use drover_verbs::{
    Access, Export, Payload, QpKind, Qpn, RemoteRegion, SendList, SendOp, SendWr, Wc, WcStatus, WrId,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes of a forged request.
const BYTES_MAX: u32 = 64;

/// A mistake that servers make with the memory of their clients, to test the tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyMistake {
    /// All memory is in one protection domain: [`isolated`](drover_verbs::Context::isolated) gives none.
    SharesDomain,
    /// Memory that may be READ may be WRITTEN, too.
    GrantsWrites,
}

/// Memory that a client was given.
#[derive(Clone, Debug)]
pub struct GivenKey {
    /// The memory, as the client imported it.
    pub remote: RemoteRegion,
    /// The memory itself, if the server's device has this forger.
    pub memory: Option<Region>,
    export: Vec<u8>,
}

impl GivenKey {
    /// Whether `other` is the same key: both clients were given it.
    pub fn is(&self, other: &GivenKey) -> bool {
        self.export == other.export
    }
}

/// What the next one-sided request becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forgery {
    /// A WRITE to the start of the memory, in place of a READ or WRITE.
    Write(RemoteRegion),
    /// A WRITE to the start of the memory, in place of a READ.
    WriteForRead(RemoteRegion),
    /// A READ of the start of the memory, in place of a READ.
    Read(RemoteRegion),
}

/// What came of a forged request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forged {
    /// No request was posted yet that could be replaced.
    No,
    /// It was posted, and has not completed.
    Posted,
    /// It was posted over an unreliable queue pair, whose requests complete whatever the peer does with them.
    Unreliable,
    /// It has completed.
    Completed(WcStatus),
}

/// A handle of a forger.
#[derive(Clone, Debug, Default)]
pub struct Forger(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    mistake: Option<KeyMistake>,
    exported: Vec<(Vec<u8>, Region)>,
    imported: Vec<(Vec<u8>, RemoteRegion)>,
    next: Option<Forgery>,
    posted: Option<(Qpn, WrId)>,
    forged: Option<Forged>,
}

impl Forger {
    /// A forger; servers whose devices have it make `mistake`.
    pub fn new(mistake: Option<KeyMistake>) -> Forger {
        let state = State {
            mistake,
            ..State::default()
        };
        Forger(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that clients have imported and not released, in this order.
    pub fn keys(&self) -> Vec<GivenKey> {
        let state = self.lock();
        let key = |(export, remote): &(Vec<u8>, RemoteRegion)| GivenKey {
            remote: *remote,
            // Numbers of keys may come again: the last memory has it.
            memory: (state.exported.iter().rev().find(|known| known.0 == *export))
                .map(|known| known.1.clone()),
            export: export.clone(),
        };
        state.imported.iter().map(key).collect()
    }

    /// Replaces the next one-sided request that can become `forgery`; `None`: none.
    pub fn forge(&self, forgery: Option<Forgery>) {
        let state = &mut *self.lock();
        (state.next, state.posted, state.forged) = (forgery, None, None);
    }

    /// What came of the last forgery.
    pub fn forged(&self) -> Forged {
        self.lock().forged.unwrap_or(Forged::No)
    }

    pub(super) fn makes(&self, mistake: KeyMistake) -> bool {
        self.lock().mistake == Some(mistake)
    }

    /// The rights that memory is registered with, where `access` was asked for.
    pub(super) fn rights(&self, access: Access) -> Access {
        match access.remote_read && self.makes(KeyMistake::GrantsWrites) {
            true => Access {
                remote_read: true,
                ..Access::REMOTE_WRITE
            },
            false => access,
        }
    }

    pub(super) fn exported(&self, export: &Export, region: &Region) {
        self.lock().exported.push((export.bytes.clone(), region.clone()));
    }

    pub(super) fn imported(&self, export: &Export, remote: RemoteRegion) {
        self.lock().imported.push((export.bytes.clone(), remote));
    }

    pub(super) fn forgot(&self, remote: &RemoteRegion) {
        self.lock().imported.retain(|known| known.1.rkey != remote.rkey);
    }

    /// Replaces a request of `list`, if one is to be replaced, in a copy of it in `space`.
    pub(super) fn replace(&self, (qpn, kind): (Qpn, QpKind), list: &SendList, space: &mut SendList) -> bool {
        let state = &mut *self.lock();
        let Some(forgery) = state.next else { return false };
        let Some(index) = list.wrs().iter().position(|wr| forgery.replaces(wr.op)) else {
            return false;
        };
        state.next = None;
        state.posted = Some((qpn, list.wrs()[index].wr_id));
        state.forged = Some(match kind {
            QpKind::Rc => Forged::Posted,
            QpKind::Uc | QpKind::Ud => Forged::Unreliable,
        });
        space.clear();
        for (at, wr) in list.wrs().iter().enumerate() {
            let payload = super::qp::copy_payload(list, wr.payload, space);
            let wr = match at == index {
                true => forgery.of(SendWr { payload, ..*wr }),
                false => SendWr {
                    op: space.copy_op(list, wr.op),
                    payload,
                    ..*wr
                },
            };
            space.push(wr);
        }
        true
    }

    /// Looks for the completion of the forged request.
    pub(super) fn completed(&self, wcs: &[Wc]) {
        let state = &mut *self.lock();
        let Some(posted) = state.posted else { return };
        if let Some(wc) = wcs.iter().find(|wc| (wc.qpn, wc.wr_id) == posted)
            && state.forged == Some(Forged::Posted)
        {
            state.forged = Some(Forged::Completed(wc.status));
        }
    }
}

impl Forgery {
    fn replaces(self, op: SendOp) -> bool {
        match op {
            SendOp::Read { .. } => true,
            SendOp::Write { imm: None, .. } => matches!(self, Forgery::Write(_)),
            _ => false,
        }
    }

    fn of(self, wr: SendWr) -> SendWr {
        let op = match self {
            Forgery::Write(region) | Forgery::WriteForRead(region) => SendOp::Write {
                remote: region.at(0),
                imm: None,
            },
            Forgery::Read(region) => SendOp::Read { remote: region.at(0) },
        };
        let payload = match wr.payload {
            Payload::Region(mut sge) => {
                sge.len = sge.len.min(BYTES_MAX);
                Payload::Region(sge)
            }
            other => other,
        };
        SendWr { op, payload, ..wr }
    }
}
