//! Owners of the library's objects. Each holds what it was made from, so that nothing is destroyed before what uses
//! it, in whatever order its owners are dropped; each destroys its object exactly once.
//!
//! ```text
//! Opened <- Protection <- Memory, Handle
//!    ^           ^------- Pair, SharedRecvs
//!    |                     |
//!    +---- Channel <- Completions
//! ```
//! All of it belongs to one thread: `Rc` keeps it there.

use crate::ffi::{self, Library};
use drover_mem::Region;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

/// What a call that returns an error number came to.
pub(crate) fn check(errno: c_int) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        // Some calls of old return -1 and set errno.
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// What a call that returns an object came to.
fn made<T>(object: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(object).ok_or_else(io::Error::last_os_error)
}

/// The data path of an opened device: what the header's inline functions would look up at every call.
#[derive(Clone, Copy)]
pub(crate) struct DataPath {
    pub(crate) poll_cq: ffi::PollCq,
    pub(crate) req_notify_cq: ffi::ReqNotifyCq,
    pub(crate) post_srq_recv: Option<ffi::PostSrqRecv>,
    pub(crate) post_send: ffi::PostSend,
    pub(crate) post_recv: ffi::PostRecv,
}

/// An opened device.
pub(crate) struct Opened {
    lib: Arc<Library>,
    ptr: NonNull<ffi::Context>,
    pub(crate) path: DataPath,
}

impl Opened {
    /// Opens the device called `name`; `None` if there is none.
    pub(crate) fn open(lib: &Arc<Library>, name: &str) -> io::Result<Option<Rc<Opened>>> {
        let list = DeviceList::get(lib)?;
        let Some(device) = list.devices().find(|device| list.name(*device) == name) else {
            return Ok(None);
        };
        // SAFETY: the device stands in a list that lives until the end of this function.
        let ptr = made(unsafe { (lib.open_device)(device) })?;
        // SAFETY: just opened; nobody writes to this part of it.
        let ops = unsafe { ptr.as_ref() }.ops;
        let (Some(poll_cq), Some(req_notify_cq), Some(post_send), Some(post_recv)) =
            (ops.poll_cq, ops.req_notify_cq, ops.post_send, ops.post_recv)
        else {
            // SAFETY: opened above and nothing was made from it.
            unsafe { (lib.close_device)(ptr.as_ptr()) };
            return Err(io::Error::other("the device's driver has no data path"));
        };
        let path = DataPath {
            poll_cq,
            req_notify_cq,
            post_srq_recv: ops.post_srq_recv,
            post_send,
            post_recv,
        };
        let lib = lib.clone();
        Ok(Some(Rc::new(Opened { lib, ptr, path })))
    }

    pub(crate) fn device_attr(&self) -> io::Result<ffi::DeviceAttr> {
        // SAFETY: numbers only, so all zeros are a value.
        let mut attr = unsafe { std::mem::zeroed::<ffi::DeviceAttr>() };
        // SAFETY: an open device, and room for the answer.
        check(unsafe { (self.lib.query_device)(self.ptr.as_ptr(), &mut attr) })?;
        Ok(attr)
    }

    pub(crate) fn port_attr(&self, port: u8) -> io::Result<ffi::PortAttr> {
        // SAFETY: numbers only, so all zeros are a value.
        let mut attr = unsafe { std::mem::zeroed::<ffi::PortAttr>() };
        // SAFETY: an open device, and room for the answer.
        check(unsafe { (self.lib.query_port)(self.ptr.as_ptr(), port, &mut attr) })?;
        Ok(attr)
    }

    /// The valid GIDs of all ports, `count` at most.
    pub(crate) fn gids(&self, count: usize) -> io::Result<Vec<ffi::GidEntry>> {
        let mut entries = vec![ffi::GidEntry::default(); count];
        let size = size_of::<ffi::GidEntry>();
        // SAFETY: an open device, and room for `count` entries of that size.
        let got =
            unsafe { (self.lib.query_gid_table)(self.ptr.as_ptr(), entries.as_mut_ptr(), count, 0, size) };
        match usize::try_from(got) {
            Ok(got) => entries.truncate(got),
            Err(_) => return Err(io::Error::from_raw_os_error((-got) as i32)),
        }
        Ok(entries)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once; whatever was made from it held an Rc of it and is gone.
        unsafe { (self.lib.close_device)(self.ptr.as_ptr()) };
    }
}

/// The list of devices, while it is looked at.
pub(crate) struct DeviceList<'l> {
    lib: &'l Library,
    list: NonNull<*mut ffi::Device>,
    count: usize,
}

impl<'l> DeviceList<'l> {
    pub(crate) fn get(lib: &'l Library) -> io::Result<DeviceList<'l>> {
        let mut count = 0;
        // SAFETY: room for the count.
        let list = made(unsafe { (lib.get_device_list)(&mut count) })?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(DeviceList { lib, list, count })
    }

    fn devices(&self) -> impl Iterator<Item = *mut ffi::Device> {
        // SAFETY: the list has so many devices, and lives as long as `self`.
        let devices = unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.count) };
        devices.iter().copied()
    }

    fn name(&self, device: *mut ffi::Device) -> String {
        // SAFETY: a device of this list, which lives.
        let name = unsafe { (self.lib.get_device_name)(device) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: a terminated string in the device.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }

    /// Names, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.devices().map(|device| self.name(device)).collect();
        names.sort();
        names
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        // SAFETY: got from the library, freed once.
        unsafe { (self.lib.free_device_list)(self.list.as_ptr()) };
    }
}

/// A protection domain.
pub(crate) struct Protection {
    opened: Rc<Opened>,
    ptr: NonNull<ffi::Pd>,
}

impl Protection {
    pub(crate) fn new(opened: &Rc<Opened>) -> io::Result<Rc<Protection>> {
        // SAFETY: an open device.
        let ptr = made(unsafe { (opened.lib.alloc_pd)(opened.ptr.as_ptr()) })?;
        let opened = opened.clone();
        Ok(Rc::new(Protection { opened, ptr }))
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        // SAFETY: made by us, freed once; whatever was made in it held an Rc of it and is gone.
        unsafe { (self.opened.lib.dealloc_pd)(self.ptr.as_ptr()) };
    }
}

/// Registered memory: at device address 0, so that an address is an offset.
pub(crate) struct Memory {
    pd: Rc<Protection>,
    ptr: NonNull<ffi::Mr>,
    region: Region,
}

impl Memory {
    pub(crate) fn register(pd: &Rc<Protection>, region: &Region, access: c_int) -> io::Result<Memory> {
        let (addr, len) = (region.addr() as *mut c_void, region.len());
        // SAFETY: the region stays mapped while `region`, which is kept with the registration; it is never a Rust
        // reference, so the device may write to it at any time.
        let ptr = made(unsafe { (pd.opened.lib.reg_mr_iova)(pd.ptr.as_ptr(), addr, len, 0, access) })?;
        let (pd, region) = (pd.clone(), region.clone());
        Ok(Memory { pd, ptr, region })
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Local and remote key.
    pub(crate) fn keys(&self) -> (u32, u32) {
        // SAFETY: registered by us; the keys do not change.
        let mr = unsafe { self.ptr.as_ref() };
        (mr.lkey, mr.rkey)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: registered by us, once; the memory is unmapped after this, with the region.
        unsafe { (self.pd.opened.lib.dereg_mr)(self.ptr.as_ptr()) };
    }
}

/// A completion channel: the descriptor that becomes readable when something completes.
pub(crate) struct Channel {
    opened: Rc<Opened>,
    ptr: NonNull<ffi::CompChannel>,
}

impl Channel {
    /// A channel whose descriptor never blocks.
    pub(crate) fn new(opened: &Rc<Opened>) -> io::Result<Rc<Channel>> {
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
        // SAFETY: the descriptor is open as long as the channel, which the borrow keeps.
        unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) }
    }

    /// Takes every event that has come, and acknowledges it.
    pub(crate) fn drain(&self) {
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: our channel, and room for the answers. It does not block.
        while unsafe { (self.opened.lib.get_cq_event)(self.ptr.as_ptr(), &mut cq, &mut context) } == 0 {
            // SAFETY: the queue is alive: destroying one waits until all its events are acknowledged, which only
            // this thread does.
            unsafe { (self.opened.lib.ack_cq_events)(cq, 1) };
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by us, destroyed once; completion queues held an Rc of it and are gone.
        unsafe { (self.opened.lib.destroy_comp_channel)(self.ptr.as_ptr()) };
    }
}

/// A completion queue.
pub(crate) struct Completions {
    channel: Rc<Channel>,
    ptr: NonNull<ffi::Cq>,
    path: DataPath,
}

impl Completions {
    pub(crate) fn new(channel: &Rc<Channel>, depth: c_int) -> io::Result<Rc<Completions>> {
        let opened = &channel.opened;
        let (context, channel_ptr) = (opened.ptr.as_ptr(), channel.ptr.as_ptr());
        // SAFETY: an open device and a channel of it.
        let made_cq = unsafe { (opened.lib.create_cq)(context, depth, null_mut(), channel_ptr, 0) };
        let ptr = made(made_cq)?;
        let (channel, path) = (channel.clone(), opened.path);
        Ok(Rc::new(Completions { channel, ptr, path }))
    }

    /// Takes up to `wcs.len()` completions.
    #[inline]
    pub(crate) fn poll(&self, wcs: &mut [ffi::Wc]) -> usize {
        // SAFETY: our queue, used by this thread alone, and room for so many completions.
        let got = unsafe { (self.path.poll_cq)(self.ptr.as_ptr(), wcs.len() as c_int, wcs.as_mut_ptr()) };
        usize::try_from(got).unwrap_or(0).min(wcs.len())
    }

    /// The next completion makes an event.
    pub(crate) fn request_event(&self) {
        // SAFETY: our queue.
        unsafe { (self.path.req_notify_cq)(self.ptr.as_ptr(), 0) };
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // An event not yet taken would make the next line wait for ever.
        self.channel.drain();
        // SAFETY: made by us, destroyed once; queue pairs held an Rc of it and are gone.
        unsafe { (self.channel.opened.lib.destroy_cq)(self.ptr.as_ptr()) };
    }
}

/// A shared receive queue.
pub(crate) struct SharedRecvs {
    pd: Rc<Protection>,
    ptr: NonNull<ffi::Srq>,
    post: ffi::PostSrqRecv,
}

impl SharedRecvs {
    pub(crate) fn new(pd: &Rc<Protection>, depth: u32) -> io::Result<Rc<SharedRecvs>> {
        let post = pd.opened.path.post_srq_recv;
        let post = post.ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
        let mut attr = ffi::SrqInitAttr {
            srq_context: null_mut(),
            max_wr: depth,
            max_sge: 1,
            srq_limit: 0,
        };
        // SAFETY: our protection domain.
        let ptr = made(unsafe { (pd.opened.lib.create_srq)(pd.ptr.as_ptr(), &mut attr) })?;
        let pd = pd.clone();
        Ok(Rc::new(SharedRecvs { pd, ptr, post }))
    }

    /// Posts a chain; on failure the error number, and in `bad` the first request that was not taken.
    ///
    /// # Safety
    /// `chain` is a chain of requests that lives for the call, with its elements.
    #[inline(always)]
    pub(crate) unsafe fn post(&self, chain: *mut ffi::RecvWr, bad: &mut *mut ffi::RecvWr) -> c_int {
        // SAFETY: our queue, used by this thread alone; the caller's chain.
        unsafe { (self.post)(self.ptr.as_ptr(), chain, bad) }
    }
}

impl Drop for SharedRecvs {
    fn drop(&mut self) {
        // SAFETY: made by us, destroyed once; queue pairs held an Rc of it and are gone.
        unsafe { (self.pd.opened.lib.destroy_srq)(self.ptr.as_ptr()) };
    }
}

/// A queue pair, with all that it works on.
pub(crate) struct Pair {
    pd: Rc<Protection>,
    ptr: NonNull<ffi::Qp>,
    send: Cell<ffi::PostSend>,
    recv: ffi::PostRecv,
    _send_cq: Rc<Completions>,
    _recv_cq: Rc<Completions>,
    _srq: Option<Rc<SharedRecvs>>,
}

impl Pair {
    pub(crate) fn new(
        pd: &Rc<Protection>,
        send_cq: &Rc<Completions>,
        recv_cq: &Rc<Completions>,
        srq: Option<&Rc<SharedRecvs>>,
        cap: ffi::QpCap,
        qp_type: u32,
    ) -> io::Result<Pair> {
        let mut attr = ffi::QpInitAttr {
            qp_context: null_mut(),
            send_cq: send_cq.ptr.as_ptr(),
            recv_cq: recv_cq.ptr.as_ptr(),
            srq: srq.map_or(null_mut(), |srq| srq.ptr.as_ptr()),
            cap,
            qp_type,
            sq_sig_all: 0,
        };
        // SAFETY: objects of one device, which the new owner keeps.
        let ptr = made(unsafe { (pd.opened.lib.create_qp)(pd.ptr.as_ptr(), &mut attr) })?;
        Ok(Pair {
            pd: pd.clone(),
            ptr,
            send: Cell::new(not_ready),
            recv: pd.opened.path.post_recv,
            _send_cq: send_cq.clone(),
            _recv_cq: recv_cq.clone(),
            _srq: srq.cloned(),
        })
    }

    pub(crate) fn qpn(&self) -> u32 {
        // SAFETY: made by us; the number does not change.
        unsafe { self.ptr.as_ref() }.qp_num
    }

    pub(crate) fn modify(&self, attr: &mut ffi::QpAttr, mask: c_int) -> io::Result<()> {
        // SAFETY: our queue pair; the attributes are only read.
        check(unsafe { (self.pd.opened.lib.modify_qp)(self.ptr.as_ptr(), attr, mask) })
    }

    /// Its state, asked of the device.
    pub(crate) fn query_state(&self) -> io::Result<u32> {
        let mut attr = ffi::QpAttr::default();
        // SAFETY: numbers and pointers, for which zero is a value.
        let mut init = unsafe { std::mem::zeroed::<ffi::QpInitAttr>() };
        // SAFETY: our queue pair, and room for the answers.
        let errno =
            unsafe { (self.pd.opened.lib.query_qp)(self.ptr.as_ptr(), &mut attr, ffi::QP_STATE, &mut init) };
        check(errno)?;
        Ok(attr.qp_state)
    }

    /// From now on posts go to the device.
    pub(crate) fn open_sends(&self) {
        self.send.set(self.pd.opened.path.post_send);
    }

    /// Posts a chain; on failure the error number, and in `bad` the first request that was not taken, if the library
    /// says so.
    ///
    /// # Safety
    /// `chain` is a chain of requests that lives for the call, with its elements and inline payloads.
    #[inline(always)]
    pub(crate) unsafe fn post_send(&self, chain: *mut ffi::SendWr, bad: &mut *mut ffi::SendWr) -> c_int {
        // SAFETY: our queue pair, used by this thread alone; the caller's chain.
        unsafe { (self.send.get())(self.ptr.as_ptr(), chain, bad) }
    }

    /// Posts a chain of RECVs; as [`post_send`](Pair::post_send).
    ///
    /// # Safety
    /// As for [`post_send`](Pair::post_send).
    #[inline(always)]
    pub(crate) unsafe fn post_recv(&self, chain: *mut ffi::RecvWr, bad: &mut *mut ffi::RecvWr) -> c_int {
        // SAFETY: our queue pair, used by this thread alone; the caller's chain.
        unsafe { (self.recv)(self.ptr.as_ptr(), chain, bad) }
    }
}

/// The error number of posting to a queue pair that is not connected yet.
pub(crate) const NOT_READY: c_int = libc::ENOTCONN;

/// In place of the device's function until the queue pair is connected: libraries differ in what they do then, and
/// posts need not look at the state.
unsafe extern "C" fn not_ready(_: *mut ffi::Qp, _: *mut ffi::SendWr, _: *mut *mut ffi::SendWr) -> c_int {
    NOT_READY
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: made by us, destroyed once; its queues and its domain are dropped after this.
        unsafe { (self.pd.opened.lib.destroy_qp)(self.ptr.as_ptr()) };
    }
}

/// An address handle.
pub(crate) struct Handle {
    pd: Rc<Protection>,
    ptr: NonNull<ffi::Ah>,
}

impl Handle {
    pub(crate) fn new(pd: &Rc<Protection>, mut attr: ffi::AhAttr) -> io::Result<Handle> {
        // SAFETY: our protection domain; the attributes are only read.
        let ptr = made(unsafe { (pd.opened.lib.create_ah)(pd.ptr.as_ptr(), &mut attr) })?;
        let pd = pd.clone();
        Ok(Handle { pd, ptr })
    }

    #[inline]
    pub(crate) fn ptr(&self) -> *mut ffi::Ah {
        self.ptr.as_ptr()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made by us, destroyed once.
        unsafe { (self.pd.opened.lib.destroy_ah)(self.ptr.as_ptr()) };
    }
}
