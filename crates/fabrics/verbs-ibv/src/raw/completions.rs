//! Completion queues, and the channel that signals completions.

use super::{DataPath, Opened, made};
use crate::counters::Counters;
use crate::ffi;
use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

/// A completion channel: its descriptor becomes readable when a request completes.
pub(crate) struct Channel {
    opened: Arc<Opened>,
    ptr: NonNull<ffi::CompChannel>,
}

impl Channel {
    /// Creates a channel whose descriptor never blocks.
    pub(crate) fn new(opened: &Arc<Opened>) -> io::Result<Rc<Channel>> {
        // SAFETY: an open device.
        let ptr = made(unsafe { (opened.lib.create_comp_channel)(opened.ptr.as_ptr()) })?;
        let opened = opened.clone();
        let channel = Rc::new(Channel { opened, ptr });
        rustix::io::ioctl_fionbio(channel.fd(), true)?;
        Ok(channel)
    }

    pub(crate) fn fd(&self) -> rustix::fd::BorrowedFd<'_> {
        // SAFETY: made by us; the number does not change.
        let fd = unsafe { self.ptr.as_ref() }.fd;
        // SAFETY: the descriptor is open while the channel exists, which the borrow ensures.
        unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) }
    }

    /// Takes and acknowledges all pending events.
    pub(crate) fn drain(&self) {
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: our channel, and space for the results. It does not block.
        while unsafe { (self.opened.lib.get_cq_event)(self.ptr.as_ptr(), &mut cq, &mut context) } == 0 {
            // SAFETY: the queue is alive: destroying one waits until all its events are acknowledged, and only this
            // thread acknowledges them.
            unsafe { (self.opened.lib.ack_cq_events)(cq, 1) };
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created by us, destroyed once; completion queues held an Rc of it and are gone.
        unsafe { (self.opened.lib.destroy_comp_channel)(self.ptr.as_ptr()) };
    }
}

/// A completion queue.
pub(crate) struct Completions {
    channel: Rc<Channel>,
    pub(super) ptr: NonNull<ffi::Cq>,
    path: DataPath,
    pub(crate) done: Done,
    /// Completions taken and not yet counted in `counters`.
    taken: Cell<u64>,
    counters: Arc<Counters>,
}

/// Slots in [`Done`]. Numbers of queue pairs are consecutive, so few share a slot.
const PLACES: usize = 1024;

/// Count of completed send requests per queue pair, by the low bits of its number; the watch compares it with the
/// number posted.
pub(crate) struct Done(Box<[Cell<u32>; PLACES]>);

impl Done {
    fn new() -> Done {
        let counts = vec![Cell::new(0); PLACES].into_boxed_slice();
        Done(counts.try_into().expect("so many were made"))
    }

    /// Whether two queue pairs share a count.
    pub(crate) fn same(a: u32, b: u32) -> bool {
        a as usize % PLACES == b as usize % PLACES
    }

    pub(crate) fn of(&self, qpn: u32) -> u32 {
        self.0[qpn as usize % PLACES].get()
    }

    /// Borrows the counts.
    #[inline(always)]
    pub(crate) fn counts(&self) -> Counts<'_> {
        Counts(&self.0)
    }
}

/// [`Done`], borrowed for the length of a poll.
pub(crate) struct Counts<'d>(&'d [Cell<u32>; PLACES]);

impl Counts<'_> {
    /// Counts a completion of a send request; ignores RECVs.
    #[inline(always)]
    pub(crate) fn count(&self, wc: &ffi::Wc) {
        let place = &self.0[wc.qp_num as usize % PLACES];
        place.set(place.get().wrapping_add(u32::from(wc.opcode < ffi::WC_RECV)));
    }
}

impl Completions {
    pub(crate) fn new(
        channel: &Rc<Channel>,
        depth: c_int,
        counters: Arc<Counters>,
    ) -> io::Result<Rc<Completions>> {
        let opened = &channel.opened;
        let (context, channel_ptr) = (opened.ptr.as_ptr(), channel.ptr.as_ptr());
        // SAFETY: an open device and a channel of it.
        let made_cq = unsafe { (opened.lib.create_cq)(context, depth, null_mut(), channel_ptr, 0) };
        let ptr = made(made_cq)?;
        let (channel, path) = (channel.clone(), opened.path);
        let done = Done::new();
        Ok(Rc::new(Completions {
            channel,
            ptr,
            path,
            done,
            taken: Cell::new(0),
            counters,
        }))
    }

    /// Takes up to `wcs.len()` completions.
    #[inline]
    pub(crate) fn poll(&self, wcs: &mut [ffi::Wc]) -> usize {
        // SAFETY: our queue, used by this thread alone, and space for `wcs.len()` completions.
        let got = unsafe { (self.path.poll_cq)(self.ptr.as_ptr(), wcs.len() as c_int, wcs.as_mut_ptr()) };
        usize::try_from(got).unwrap_or(0).min(wcs.len())
    }

    /// Counts completions that were taken.
    #[inline(always)]
    pub(crate) fn count(&self, taken: usize) {
        self.taken.set(self.taken.get() + taken as u64);
    }

    /// Adds what was taken to the counters of the device.
    pub(crate) fn publish(&self) {
        self.counters.completed(self.taken.take());
    }

    /// Requests an event for the next completion.
    pub(crate) fn request_event(&self) {
        self.publish();
        // SAFETY: our queue.
        unsafe { (self.path.req_notify_cq)(self.ptr.as_ptr(), 0) };
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        self.publish();
        // An event not yet taken would block the next line for ever.
        self.channel.drain();
        // SAFETY: created by us, destroyed once; queue pairs held an Rc of it and are gone.
        unsafe { (self.channel.opened.lib.destroy_cq)(self.ptr.as_ptr()) };
    }
}
