//! [`Forger`]: a client with the keys of another one.
//!
//! The keys of registered memory can be guessed, and a client's own queue pairs are its own to use. So a forger replaces the next
//! one-sided request that a client posts: it becomes a WRITE or READ of memory that somebody else was given. Test and devices
//! have handles of the same forger; the server's device, if it has one, tells it which memory is behind which key.
//!
//! What a context posts are numbers that it has for imported memory, which mean nothing to another context. So a context that
//! imports something also imports all that was given to others, as if it had guessed their keys.

use drover_mem::Region;
use drover_verbs::{
    Access, Export, ImportError, Payload, QpKind, Qpn, RemoteRegion, SendList, SendOp, SendWr, Wc, WcStatus,
    WrId,
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
    /// The memory itself, if the server's device has this forger.
    pub memory: Option<Region>,
    to: ContextNumber,
    export: Vec<u8>,
}

impl GivenKey {
    /// Whether `other` is a key of the same memory, which both clients were given.
    pub fn is(&self, other: &GivenKey) -> bool {
        self.export == other.export
    }

    /// Whether `other` is this key, as it was given to the same client.
    pub fn is_same(&self, other: &GivenKey) -> bool {
        self.is(other) && self.to == other.to
    }
}

/// A context of a device that has the forger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ContextNumber(u64);

/// What the next one-sided request becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forgery {
    /// A WRITE to the start of the memory, in place of a READ or WRITE.
    Write,
    /// A WRITE to the start of the memory, in place of a READ.
    WriteForRead,
    /// A READ of the start of the memory, in place of a READ.
    Read,
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
    has_erred: bool,
    contexts: u64,
    exported: Vec<(Vec<u8>, Region)>,
    imported: Vec<Import>,
    next: Option<(Forgery, Vec<u8>)>,
    /// Where the forged request completes, and as what.
    posted: Option<(ContextNumber, Qpn, WrId)>,
    forged: Option<Forged>,
}

/// Memory that a context has imported.
#[derive(Debug)]
struct Import {
    by: ContextNumber,
    export: Vec<u8>,
    remote: RemoteRegion,
    /// The context was given it; else it has guessed the key.
    is_given: bool,
}

/// A queue pair that posts.
#[derive(Clone, Copy)]
pub(super) struct Poster {
    pub(super) qpn: Qpn,
    pub(super) kind: QpKind,
    pub(super) context: ContextNumber,
    /// The context whose completion queue its requests complete in.
    pub(super) completes_in: ContextNumber,
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
        let key = |import: &Import| GivenKey {
            // Numbers of keys may come again: the last memory has it.
            memory: (state.exported.iter().rev())
                .find(|known| known.0 == import.export)
                .map(|known| known.1.clone()),
            to: import.by,
            export: import.export.clone(),
        };
        let given = state.imported.iter().filter(|import| import.is_given);
        given.map(key).collect()
    }

    /// Replaces the next one-sided request that can become `forgery`, by a request for the memory of `key`.
    pub fn forge(&self, forgery: Forgery, key: &GivenKey) {
        let state = &mut *self.lock();
        (state.next, state.posted, state.forged) = (Some((forgery, key.export.clone())), None, None);
    }

    /// Replaces no request.
    pub fn stop(&self) {
        let state = &mut *self.lock();
        (state.next, state.posted, state.forged) = (None, None, None);
    }

    /// What came of the last forgery.
    pub fn forged(&self) -> Forged {
        self.lock().forged.unwrap_or(Forged::No)
    }

    /// Whether there was a chance to make the mistake.
    pub fn has_erred(&self) -> bool {
        self.lock().has_erred
    }

    /// Makes `mistake`, if it is the forger's, where one can be made.
    pub(super) fn errs(&self, mistake: KeyMistake) -> bool {
        let state = &mut *self.lock();
        let errs = state.mistake == Some(mistake);
        state.has_erred |= errs;
        errs
    }

    /// The rights that memory is registered with, where `access` was asked for. In a domain of one client's own, others cannot use
    /// more of them.
    pub(super) fn rights(&self, access: Access, is_isolated: bool) -> Access {
        let may_err = access.remote_read && !access.remote_write && !is_isolated;
        match may_err && self.errs(KeyMistake::GrantsWrites) {
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

    /// The number of a context that is opened.
    pub(super) fn opened(&self) -> ContextNumber {
        let state = &mut *self.lock();
        state.contexts += 1;
        ContextNumber(state.contexts)
    }

    /// The context `by` was given `export`, and has imported it as `remote`. It imports everything that others were given, too, by
    /// `import`.
    pub(super) fn imported(
        &self,
        by: ContextNumber,
        export: &Export,
        remote: RemoteRegion,
        import: impl Fn(&Export) -> Result<RemoteRegion, ImportError>,
    ) {
        let state = &mut *self.lock();
        let one = |export: &[u8], remote, is_given| Import {
            by,
            export: export.to_vec(),
            remote,
            is_given,
        };
        state.imported.push(one(&export.bytes, remote, true));
        let known = |export: &[u8]| {
            state
                .imported
                .iter()
                .any(|own| own.by == by && own.export == export)
        };
        let others = state
            .imported
            .iter()
            .filter(|other| other.is_given && !known(&other.export));
        let guess = |other: &Import| {
            let export = Export {
                bytes: other.export.clone(),
                fds: Vec::new(),
            };
            // Memory may be gone by now: then its key opens nothing.
            let remote = import(&export).ok()?;
            Some(one(&other.export, remote, false))
        };
        let guessed: Vec<Import> = others.filter_map(guess).collect();
        state.imported.extend(guessed);
    }

    pub(super) fn forgot(&self, by: ContextNumber, remote: &RemoteRegion) {
        let is_it = |import: &Import| import.by == by && import.remote.rkey == remote.rkey;
        self.lock().imported.retain(|import| !is_it(import));
    }

    /// Replaces a request of `list`, if one is to be replaced, in a copy of it in `space`.
    pub(super) fn replace(&self, poster: Poster, list: &SendList, space: &mut SendList) -> bool {
        let state = &mut *self.lock();
        let Some((forgery, export)) = &state.next else {
            return false;
        };
        let forgery = *forgery;
        let is_it = |import: &&Import| import.by == poster.context && import.export == *export;
        let Some(remote) = state.imported.iter().find(is_it).map(|import| import.remote) else {
            return false;
        };
        let Some(index) = list.wrs().iter().position(|wr| forgery.replaces(wr.op)) else {
            return false;
        };
        state.next = None;
        state.posted = Some((poster.completes_in, poster.qpn, list.wrs()[index].wr_id));
        state.forged = Some(match poster.kind {
            QpKind::Rc => Forged::Posted,
            QpKind::Uc | QpKind::Ud => Forged::Unreliable,
        });
        space.clear();
        for (at, wr) in list.wrs().iter().enumerate() {
            let payload = super::qp::copy_payload(list, wr.payload, space);
            let wr = match at == index {
                true => forgery.of(remote, SendWr { payload, ..*wr }),
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

    /// Looks for the completion of the forged request among those in a queue of the context `of`.
    pub(super) fn completed(&self, of: ContextNumber, wcs: &[Wc]) {
        let state = &mut *self.lock();
        let Some(posted) = state.posted else { return };
        if let Some(wc) = wcs.iter().find(|wc| (of, wc.qpn, wc.wr_id) == posted)
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
            SendOp::Write { imm: None, .. } => self == Forgery::Write,
            _ => false,
        }
    }

    fn of(self, region: RemoteRegion, wr: SendWr) -> SendWr {
        let remote = region.at(0);
        let op = match self {
            Forgery::Write | Forgery::WriteForRead => SendOp::Write { remote, imm: None },
            Forgery::Read => SendOp::Read { remote },
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
