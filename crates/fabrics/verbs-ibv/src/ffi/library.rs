//! [`Library`]: the symbols of libibverbs, resolved at run time.

use super::{
    Ah, AhAttr, AsyncEvent, CompChannel, Context, Cq, Device, DeviceAttr, GidEntry, Mr, Pd, PortAttr, Qp,
    QpAttr, QpInitAttr, Srq, SrqInitAttr,
};
use drover_verbs::OpenError;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

/// File name of libibverbs, for the dynamic loader.
pub const SONAME: &str = "libibverbs.so.1";

/// Advice for a missing library.
const INSTALL: &str =
    "install it (Debian: apt-get install libibverbs1 ibverbs-providers), or use another fabric";
/// Advice for an old library.
const UPDATE: &str = "version 32 of rdma-core (2020) or newer is needed";

/// Declares the table of symbols and the code that fills it, one line per symbol.
macro_rules! symbols {
    ($($symbol:literal $name:ident: fn($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// Table of pointers to the functions of libibverbs for the control path, each under its C name without the
        /// prefix. Their contracts are in the manual pages. The functions of the data path are in
        /// [`ContextOps`](super::ContextOps) of an opened device.
        #[derive(Clone, Debug)]
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Library {
            fn find(handle: Handle) -> Result<Library, OpenError> {
                Ok(Library {
                    $($name: {
                        let address = handle.symbol($symbol)?;
                        type Function = unsafe extern "C" fn($($arg),*) $(-> $result)?;
                        // SAFETY: the library's ABI gives this symbol this type; the library is never unloaded.
                        unsafe { std::mem::transmute::<*mut c_void, Function>(address) }
                    },)*
                })
            }
        }
    };
}

symbols! {
    "ibv_get_device_list" get_device_list: fn(*mut c_int) -> *mut *mut Device;
    "ibv_free_device_list" free_device_list: fn(*mut *mut Device);
    "ibv_get_device_name" get_device_name: fn(*mut Device) -> *const c_char;
    "ibv_open_device" open_device: fn(*mut Device) -> *mut Context;
    "ibv_close_device" close_device: fn(*mut Context) -> c_int;
    "ibv_get_async_event" get_async_event: fn(*mut Context, *mut AsyncEvent) -> c_int;
    "ibv_ack_async_event" ack_async_event: fn(*mut AsyncEvent);
    "ibv_query_device" query_device: fn(*mut Context, *mut DeviceAttr) -> c_int;
    "ibv_query_port" query_port: fn(*mut Context, u8, *mut PortAttr) -> c_int;
    "_ibv_query_gid_table" query_gid_table: fn(*mut Context, *mut GidEntry, usize, u32, usize) -> isize;
    "ibv_alloc_pd" alloc_pd: fn(*mut Context) -> *mut Pd;
    "ibv_dealloc_pd" dealloc_pd: fn(*mut Pd) -> c_int;
    "ibv_reg_mr_iova" reg_mr_iova: fn(*mut Pd, *mut c_void, usize, u64, c_int) -> *mut Mr;
    "ibv_dereg_mr" dereg_mr: fn(*mut Mr) -> c_int;
    "ibv_create_comp_channel" create_comp_channel: fn(*mut Context) -> *mut CompChannel;
    "ibv_destroy_comp_channel" destroy_comp_channel: fn(*mut CompChannel) -> c_int;
    "ibv_create_cq" create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
    "ibv_destroy_cq" destroy_cq: fn(*mut Cq) -> c_int;
    "ibv_get_cq_event" get_cq_event: fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    "ibv_ack_cq_events" ack_cq_events: fn(*mut Cq, c_uint);
    "ibv_create_srq" create_srq: fn(*mut Pd, *mut SrqInitAttr) -> *mut Srq;
    "ibv_destroy_srq" destroy_srq: fn(*mut Srq) -> c_int;
    "ibv_create_qp" create_qp: fn(*mut Pd, *mut QpInitAttr) -> *mut Qp;
    "ibv_modify_qp" modify_qp: fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    "ibv_query_qp" query_qp: fn(*mut Qp, *mut QpAttr, c_int, *mut QpInitAttr) -> c_int;
    "ibv_destroy_qp" destroy_qp: fn(*mut Qp) -> c_int;
    "ibv_create_ah" create_ah: fn(*mut Pd, *mut AhAttr) -> *mut Ah;
    "ibv_destroy_ah" destroy_ah: fn(*mut Ah) -> c_int;
}

impl Library {
    /// Loads the library with the file name `name`, such as [`SONAME`], and keeps it loaded until the process ends.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] with the reason and advice, if the library cannot be loaded or lacks one of the
    /// symbols.
    pub fn load(name: &str) -> Result<Library, OpenError> {
        Library::find(Handle::open(name)?)
    }
}

/// A loaded library, never unloaded.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

impl Handle {
    fn open(name: &str) -> Result<Handle, OpenError> {
        let c_name =
            CString::new(name).map_err(|_| unavailable("a library's name has no zero byte".into()))?;
        // SAFETY: a terminated string; the initialisers of the vendor's library are trusted.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            let why = loader_error();
            return Err(unavailable(format!("{name} cannot be loaded ({why}); {INSTALL}")));
        }
        Ok(Handle(handle))
    }

    fn symbol(self, symbol: &str) -> Result<*mut c_void, OpenError> {
        let c_symbol = CString::new(symbol).expect("our own names have no zero byte");
        // SAFETY: the handle came from dlopen and is never closed; a terminated string.
        let address = unsafe { libc::dlsym(self.0, c_symbol.as_ptr()) };
        match address.is_null() {
            true => Err(unavailable(format!(
                "the library has no symbol {symbol}; {UPDATE}"
            ))),
            false => Ok(address),
        }
    }
}

fn unavailable(reason: String) -> OpenError {
    OpenError::Unavailable {
        fabric: "ibv",
        reason,
    }
}

/// The last error of the dynamic loader.
fn loader_error() -> String {
    // SAFETY: no arguments; the result belongs to this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_string();
    }
    // SAFETY: not null, so a terminated string that lives until this thread's next call of the loader.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_says_what_to_install() {
        let error = Library::load("libnosuchverbs.so.1").expect_err("there is no such library");
        assert_eq!(
            error.to_string(),
            "ibv is not available: libnosuchverbs.so.1 cannot be loaded (libnosuchverbs.so.1: cannot open shared \
             object file: No such file or directory); install it (Debian: apt-get install libibverbs1 \
             ibverbs-providers), or use another fabric"
        );
    }

    #[test]
    fn a_library_without_our_symbols_is_too_old() {
        let error = Library::load("libc.so.6").expect_err("the C library has no verbs");
        assert_eq!(
            error.to_string(),
            "ibv is not available: the library has no symbol ibv_get_device_list; version 32 of rdma-core (2020) \
             or newer is needed"
        );
    }

    #[test]
    fn a_name_with_a_zero_byte_is_refused() {
        assert!(Library::load("a\0b").is_err());
    }
}
