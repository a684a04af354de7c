//! Owners of the library's objects. Each holds the objects it was created from, so that they outlive it in whatever
//! order owners are dropped; each destroys its object exactly once.
//!
//! ```text
//! Opened <- Protection <- Memory, CardMemory, Handle
//!    ^           ^------- Pair, SharedRecvs
//!    |                     |
//!    +---- Channel <- Completions
//! ```
//! The first three are shared by the threads of a domain; all others belong to one thread, to which `Rc` confines them.
//! A `Protection` may be a thread's own, over that of its domain.

mod card;
mod completions;
mod queues;

pub(crate) use card::CardMemory;
pub(crate) use completions::{Channel, Completions, Counts, Done};
pub(crate) use queues::{NOT_READY, Pair, SharedRecvs};

use crate::ffi::{self, Library};
use drover_mem::Region;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;

/// Converts the result of a call that returns an error number.
pub(crate) fn check(errno: c_int) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        // Some old calls return -1 and set errno.
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// Converts the result of a call that returns an object.
fn made<T>(object: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(object).ok_or_else(io::Error::last_os_error)
}

/// The data path functions of an opened device, which the header's inline functions would look up at every call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataPath {
    pub(crate) poll_cq: ffi::PollCq,
    pub(crate) req_notify_cq: ffi::ReqNotifyCq,
    pub(crate) post_srq_recv: Option<ffi::PostSrqRecv>,
    pub(crate) post_send: ffi::PostSend,
    pub(crate) post_recv: ffi::PostRecv,
}

/// An opened device.
#[derive(Debug)]
pub(crate) struct Opened {
    lib: Arc<Library>,
    ptr: NonNull<ffi::Context>,
    pub(crate) path: DataPath,
}

// SAFETY: the library's functions may be called by any thread; the object is only passed to them, and what is read of
// it is never written after opening.
unsafe impl Send for Opened {}
// SAFETY: as above, also at the same time.
unsafe impl Sync for Opened {}

/// Functions of a driver that has thread domains.
struct ThreadDomains {
    alloc_td: ffi::AllocTd,
    dealloc_td: ffi::DeallocTd,
    alloc_parent_domain: ffi::AllocParentDomain,
}

impl Opened {
    /// Opens the device called `name`; `None` if there is none.
    pub(crate) fn open(lib: &Arc<Library>, name: &str) -> io::Result<Option<Arc<Opened>>> {
        let list = DeviceList::get(lib)?;
        let Some(device) = list.devices().find(|device| list.name(*device) == name) else {
            return Ok(None);
        };
        // SAFETY: the device is in a list that lives until the end of this function.
        let ptr = made(unsafe { (lib.open_device)(device) })?;
        // SAFETY: just opened; this part of it is never written.
        let ops = unsafe { ptr.as_ref() }.ops;
        let (Some(poll_cq), Some(req_notify_cq), Some(post_send), Some(post_recv)) =
            (ops.poll_cq, ops.req_notify_cq, ops.post_send, ops.post_recv)
        else {
            // SAFETY: opened above, and no object was created from it.
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
        let opened = Arc::new(Opened { lib, ptr, path });
        if let Some(fd) = opened.events() {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(Some(opened))
    }

    /// What becomes readable when the device has an asynchronous event.
    fn events(&self) -> Option<rustix::fd::BorrowedFd<'_>> {
        // SAFETY: an open device; this field is never written after opening.
        let fd = unsafe { self.ptr.as_ref() }.async_fd;
        // SAFETY: the descriptor is open as long as the device, which the borrow ensures.
        (fd >= 0).then(|| unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) })
    }

    /// Takes an asynchronous event of the device, if it has one, and returns its kind. Never blocks.
    pub(crate) fn take_event(&self) -> Option<c_int> {
        let mut event = ffi::AsyncEvent::default();
        // SAFETY: an open device, and space for the result. It does not block.
        if unsafe { (self.lib.get_async_event)(self.ptr.as_ptr(), &mut event) } != 0 {
            return None;
        }
        // SAFETY: just taken, and acknowledged once: destroying its object waits for that.
        unsafe { (self.lib.ack_async_event)(&mut event) };
        Some(event.kind)
    }

    /// The table of further functions, if the library knows it from `offset` on.
    fn extended(&self, offset: usize) -> Option<*const ffi::VerbsContext> {
        // SAFETY: an open device; this field is never written after opening.
        if unsafe { self.ptr.as_ref() }.abi_compat != ffi::EXTENDED {
            return None;
        }
        let before = offset_of!(ffi::VerbsContext, context);
        // SAFETY: an extended context is the last field of a `VerbsContext`.
        let outer = unsafe { self.ptr.as_ptr().byte_sub(before) }
            .cast_const()
            .cast::<ffi::VerbsContext>();
        // SAFETY: as above; `sz` is directly before the context in every version.
        let bytes = unsafe { (&raw const (*outer).sz).read() };
        (bytes >= ffi::VerbsContext::bytes_from(offset)).then_some(outer)
    }

    /// The functions for thread domains, if the driver has them.
    fn thread_domains(&self) -> Option<ThreadDomains> {
        let outer = self.extended(offset_of!(ffi::VerbsContext, alloc_parent_domain))?;
        // SAFETY: the library has these fields, as its size says.
        let (alloc_parent_domain, dealloc_td, alloc_td) = unsafe {
            (
                (*outer).alloc_parent_domain,
                (*outer).dealloc_td,
                (*outer).alloc_td,
            )
        };
        Some(ThreadDomains {
            alloc_td: alloc_td?,
            dealloc_td: dealloc_td?,
            alloc_parent_domain: alloc_parent_domain?,
        })
    }

    pub(crate) fn device_attr(&self) -> io::Result<ffi::DeviceAttr> {
        // SAFETY: numbers only, so all zeros are valid.
        let mut attr = unsafe { std::mem::zeroed::<ffi::DeviceAttr>() };
        // SAFETY: an open device, and space for the result.
        check(unsafe { (self.lib.query_device)(self.ptr.as_ptr(), &mut attr) })?;
        Ok(attr)
    }

    pub(crate) fn port_attr(&self, port: u8) -> io::Result<ffi::PortAttr> {
        // SAFETY: numbers only, so all zeros are valid.
        let mut attr = unsafe { std::mem::zeroed::<ffi::PortAttr>() };
        // SAFETY: an open device, and space for the result.
        check(unsafe { (self.lib.query_port)(self.ptr.as_ptr(), port, &mut attr) })?;
        Ok(attr)
    }

    /// The valid GIDs of all ports, at most `count`.
    pub(crate) fn gids(&self, count: usize) -> io::Result<Vec<ffi::GidEntry>> {
        let mut entries = vec![ffi::GidEntry::default(); count];
        let size = size_of::<ffi::GidEntry>();
        // SAFETY: an open device, and space for `count` entries of that size.
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
        // SAFETY: opened by us, closed once; all objects created from it held an Arc of it and are gone.
        unsafe { (self.lib.close_device)(self.ptr.as_ptr()) };
    }
}

/// A list of devices, freed on drop.
pub(crate) struct DeviceList<'l> {
    lib: &'l Library,
    list: NonNull<*mut ffi::Device>,
    count: usize,
}

impl<'l> DeviceList<'l> {
    pub(crate) fn get(lib: &'l Library) -> io::Result<DeviceList<'l>> {
        let mut count = 0;
        // SAFETY: space for the count.
        let list = made(unsafe { (lib.get_device_list)(&mut count) })?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(DeviceList { lib, list, count })
    }

    fn devices(&self) -> impl Iterator<Item = *mut ffi::Device> {
        // SAFETY: the list has `count` devices and lives as long as `self`.
        let devices = unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.count) };
        devices.iter().copied()
    }

    fn name(&self, device: *mut ffi::Device) -> String {
        // SAFETY: a device of this list, which is alive.
        let name = unsafe { (self.lib.get_device_name)(device) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: a terminated string in the device.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }

    /// Names of the devices, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.devices().map(|device| self.name(device)).collect();
        names.sort();
        names
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        // SAFETY: received from the library, freed once.
        unsafe { (self.lib.free_device_list)(self.list.as_ptr()) };
    }
}

/// A thread domain: the promise that one thread uses what is made in it, so that the driver takes no locks and gives it
/// a doorbell register of its own.
struct ThreadDomain {
    opened: Arc<Opened>,
    ptr: NonNull<ffi::Td>,
    dealloc: ffi::DeallocTd,
}

impl Drop for ThreadDomain {
    fn drop(&mut self) {
        // SAFETY: made by us, freed once; the parent domain that used it is gone.
        unsafe { (self.dealloc)(self.ptr.as_ptr()) };
        // The device is closed after it.
        let _ = &self.opened;
    }
}

/// A protection domain; or a parent domain: a protection domain as one thread uses it, in which memory registered in the
/// former is valid.
pub(crate) struct Protection {
    opened: Arc<Opened>,
    ptr: NonNull<ffi::Pd>,
    /// What a parent domain consists of: freed after it.
    _parts: Option<(Arc<Protection>, ThreadDomain)>,
}

// SAFETY: the library's functions may be called by any thread; the object is only passed to them.
unsafe impl Send for Protection {}
// SAFETY: as above, also at the same time.
unsafe impl Sync for Protection {}

impl Protection {
    pub(crate) fn new(opened: &Arc<Opened>) -> io::Result<Arc<Protection>> {
        // SAFETY: an open device.
        let ptr = made(unsafe { (opened.lib.alloc_pd)(opened.ptr.as_ptr()) })?;
        let (opened, _parts) = (opened.clone(), None);
        Ok(Arc::new(Protection { opened, ptr, _parts }))
    }

    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// A parent domain over `self` with a new thread domain; `None` if the driver has none to give.
    pub(crate) fn for_thread(self: &Arc<Protection>) -> Option<Arc<Protection>> {
        let (opened, of) = (&self.opened, self.opened.thread_domains()?);
        let context = opened.ptr.as_ptr();
        // SAFETY: a function of this open device; the attributes are only read.
        let td = made(unsafe { (of.alloc_td)(context, &mut ffi::TdInitAttr::default()) }).ok()?;
        let td = ThreadDomain {
            opened: opened.clone(),
            ptr: td,
            dealloc: of.dealloc_td,
        };
        let mut attr = ffi::ParentDomainInitAttr {
            pd: self.ptr.as_ptr(),
            td: td.ptr.as_ptr(),
            comp_mask: 0,
            alloc: std::ptr::null_mut(),
            free: std::ptr::null_mut(),
            pd_context: std::ptr::null_mut(),
        };
        // SAFETY: a function of this open device, and objects of it; the attributes are only read.
        let ptr = made(unsafe { (of.alloc_parent_domain)(context, &mut attr) }).ok()?;
        Some(Arc::new(Protection {
            opened: opened.clone(),
            ptr,
            _parts: Some((self.clone(), td)),
        }))
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        // SAFETY: created by us, freed once; all objects created in it held an Arc of it and are gone.
        unsafe { (self.opened.lib.dealloc_pd)(self.ptr.as_ptr()) };
    }
}

/// Registered memory: at device address 0, so that an address is an offset.
pub(crate) struct Memory {
    pd: Arc<Protection>,
    ptr: NonNull<ffi::Mr>,
    region: Region,
}

// SAFETY: as for `Protection`; a region may be shared by threads.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn register(pd: &Arc<Protection>, region: &Region, access: c_int) -> io::Result<Memory> {
        let (addr, len) = (region.addr() as *mut c_void, region.len());
        // SAFETY: the registration holds `region`, which keeps the memory mapped; it is never a Rust reference, so the
        // device may write to it at any time.
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

/// An address handle.
pub(crate) struct Handle {
    pd: Arc<Protection>,
    ptr: NonNull<ffi::Ah>,
}

impl Handle {
    pub(crate) fn new(pd: &Arc<Protection>, mut attr: ffi::AhAttr) -> io::Result<Handle> {
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
        // SAFETY: created by us, destroyed once.
        unsafe { (self.pd.opened.lib.destroy_ah)(self.ptr.as_ptr()) };
    }
}
