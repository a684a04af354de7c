//! [`drover_client`]: who may use it, and for how long.

use crate::outcomes::Outcomes;
use crate::status::drover_status::{self, *};
use ::drover_client::Pipeline;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::ThreadId;

/// A client with sessions at a service, for the thread that connected it.
#[allow(non_camel_case_types)]
pub struct drover_client {
    owner: ThreadId,
    /// The value of [`FORKS`] when it was connected.
    forks: u32,
    inner: UnsafeCell<Inner>,
}

/// What calls use.
pub struct Inner {
    pub pipeline: Pipeline,
    pub outcomes: Outcomes,
}

/// Number of times that this process is a child of the one that loaded the library.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn has_forked() {
    // Relaxed: a child begins with the thread that forked alone.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has [`FORKS`] count.
fn count_forks() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function only changes an atomic number, which a child may do after `fork`. Should there be no memory to note it,
        // children are not recognised.
        unsafe { libc::pthread_atfork(None, None, Some(has_forked)) };
    });
}

impl drover_client {
    /// A client of this thread's, for C to keep.
    pub fn leak(pipeline: Pipeline) -> *mut drover_client {
        count_forks();
        let inner = Inner {
            pipeline,
            outcomes: Outcomes::default(),
        };
        let client = Box::into_raw(Box::new(drover_client {
            owner: std::thread::current().id(),
            forks: FORKS.load(Ordering::Relaxed),
            inner: UnsafeCell::new(inner),
        }));
        live::begins(client);
        client
    }

    /// The client at `client`, if this thread may use it.
    ///
    /// # Safety
    /// `client` is null or came from [`leak`](drover_client::leak), and it was not [freed](drover_client::free) since. During
    /// `'a` there is no other use of it by this thread.
    pub unsafe fn of<'a>(client: *mut drover_client) -> Result<&'a mut Inner, drover_status> {
        // SAFETY: the caller keeps what is required.
        let client = unsafe { drover_client::checked(client) }?;
        // SAFETY: only the thread that owns the client comes here, and its caller keeps that it does so once at a time.
        Ok(unsafe { &mut *client.inner.get() })
    }

    /// Ends the client.
    ///
    /// # Safety
    /// Those of [`of`](drover_client::of); nobody uses it afterwards.
    pub unsafe fn free(client: *mut drover_client) -> Result<(), drover_status> {
        // SAFETY: the caller keeps what is required.
        unsafe { drover_client::checked(client) }?;
        live::ends(client);
        // SAFETY: `leak` made it by `Box::into_raw`, and the caller keeps that it was not freed before.
        drop(unsafe { Box::from_raw(client) });
        Ok(())
    }

    /// # Safety
    /// `client` is null or came from `leak`, and it was not freed since.
    unsafe fn checked<'a>(client: *mut drover_client) -> Result<&'a drover_client, drover_status> {
        if client.is_null() {
            return Err(DROVER_INVALID.because("client: a null pointer"));
        }
        if !live::is_live(client) {
            return Err(DROVER_CLOSED.because("client: it is closed, or was never connected"));
        }
        // SAFETY: not null, and the caller keeps that it is a client which was not freed. Other threads see only what never changes.
        let client = unsafe { &*client };
        // Relaxed: see `has_forked`.
        if client.forks != FORKS.load(Ordering::Relaxed) {
            return Err(DROVER_FORKED.because("the client is the parent's: connect another one after fork"));
        }
        match client.owner == std::thread::current().id() {
            true => Ok(client),
            false => Err(DROVER_WRONG_THREAD.because("the client is for the thread that connected it")),
        }
    }
}

/// The clients that there are, in builds with debug assertions: what was freed is noticed before it is looked at.
#[cfg(debug_assertions)]
mod live {
    use super::drover_client;
    use std::collections::BTreeSet;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

    fn live() -> MutexGuard<'static, BTreeSet<usize>> {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begins(client: *mut drover_client) {
        live().insert(client.addr());
    }

    pub fn ends(client: *mut drover_client) {
        live().remove(&client.addr());
    }

    pub fn is_live(client: *mut drover_client) -> bool {
        live().contains(&client.addr())
    }
}

#[cfg(not(debug_assertions))]
mod live {
    use super::drover_client;

    pub fn begins(_: *mut drover_client) {}

    pub fn ends(_: *mut drover_client) {}

    pub fn is_live(_: *mut drover_client) -> bool {
        true
    }
}
