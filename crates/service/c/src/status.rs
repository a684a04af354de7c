//! [`drover_status`], and the text of a thread's last failure.

use ::drover_client::{CallError, Error, Refusal, SubmitError};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;

/// What came of a call. Negative: it failed, and `drover_error` has the text.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types)]
pub enum drover_status {
    /// It was done.
    DROVER_OK = 0,
    /// Nothing happened: the key does not exist, or has expired.
    DROVER_NOT_FOUND = 1,
    /// Nothing happened: the key exists and must not, or has another version.
    DROVER_EXISTS = 2,
    /// Not submitted: take outcomes, then submit it again.
    DROVER_WINDOW_FULL = 3,
    /// An argument that no call takes.
    DROVER_INVALID = -1,
    /// The text is no address.
    DROVER_BAD_ADDRESS = -2,
    /// There is no session with the service: nobody listens there, or it refused the client.
    DROVER_NOT_CONNECTED = -3,
    /// The key is empty or too long, or the value too long for this server.
    DROVER_TOO_LARGE = -4,
    /// The service's system has no such operation.
    DROVER_NOT_OFFERED = -5,
    /// The server has no space for the item, and must not evict others.
    DROVER_FULL = -6,
    /// Nobody answered in time; the operation had no effect.
    DROVER_UNAVAILABLE = -7,
    /// The server refused the operation for another reason; it had no effect.
    DROVER_REFUSED = -8,
    /// The server or the network failed: the operation may or may not have happened.
    DROVER_INDETERMINATE = -9,
    /// The client was closed.
    DROVER_CLOSED = -10,
    /// Another thread than the one that connected the client.
    DROVER_WRONG_THREAD = -11,
    /// This process is a child of the one that connected the client.
    DROVER_FORKED = -12,
}

use drover_status::*;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

impl drover_status {
    /// The status, after `why` has become the thread's last error.
    pub(crate) fn because(self, why: impl Display) -> drover_status {
        let mut text = why.to_string();
        text.retain(|letter| letter != '\0');
        LAST.with_borrow_mut(|last| *last = CString::new(text).unwrap_or_default());
        self
    }

    pub(crate) fn of_call(error: CallError) -> drover_status {
        let status = match error {
            CallError::Submit(error) => drover_status::of_submit(error),
            CallError::Refused(refusal) => match refusal {
                Refusal::TooLarge => DROVER_TOO_LARGE,
                Refusal::Full | Refusal::TableFull => DROVER_FULL,
                Refusal::Unavailable | Refusal::NodeLost(_) | Refusal::Elsewhere | Refusal::NotServed(_) => {
                    DROVER_UNAVAILABLE
                }
                _ => DROVER_REFUSED,
            },
            CallError::Indeterminate => DROVER_INDETERMINATE,
            CallError::Gone => DROVER_CLOSED,
            _ => DROVER_INDETERMINATE,
        };
        status.because(error)
    }

    pub(crate) fn of_submit(error: SubmitError) -> drover_status {
        let status = match error {
            SubmitError::WindowFull => return DROVER_WINDOW_FULL,
            SubmitError::BadKey | SubmitError::TooLarge => DROVER_TOO_LARGE,
            SubmitError::NotOffered => DROVER_NOT_OFFERED,
            SubmitError::Closed => DROVER_CLOSED,
            _ => DROVER_INVALID,
        };
        status.because(error)
    }

    pub(crate) fn of_connecting(error: Error) -> drover_status {
        let status = match error {
            Error::Address(_) | Error::ServiceUrl(_) => DROVER_BAD_ADDRESS,
            _ => DROVER_NOT_CONNECTED,
        };
        status.because(error)
    }
}

/// Text of the last call of this thread that failed, in UTF-8; empty if none has. It is valid until the next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn drover_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// The name of a status, such as "DROVER_NOT_FOUND"; "?" if there is no such number.
#[unsafe(no_mangle)]
pub extern "C" fn drover_status_name(status: i32) -> *const c_char {
    const NAMES: [(drover_status, &CStr); 16] = [
        (DROVER_OK, c"DROVER_OK"),
        (DROVER_NOT_FOUND, c"DROVER_NOT_FOUND"),
        (DROVER_EXISTS, c"DROVER_EXISTS"),
        (DROVER_WINDOW_FULL, c"DROVER_WINDOW_FULL"),
        (DROVER_INVALID, c"DROVER_INVALID"),
        (DROVER_BAD_ADDRESS, c"DROVER_BAD_ADDRESS"),
        (DROVER_NOT_CONNECTED, c"DROVER_NOT_CONNECTED"),
        (DROVER_TOO_LARGE, c"DROVER_TOO_LARGE"),
        (DROVER_NOT_OFFERED, c"DROVER_NOT_OFFERED"),
        (DROVER_FULL, c"DROVER_FULL"),
        (DROVER_UNAVAILABLE, c"DROVER_UNAVAILABLE"),
        (DROVER_REFUSED, c"DROVER_REFUSED"),
        (DROVER_INDETERMINATE, c"DROVER_INDETERMINATE"),
        (DROVER_CLOSED, c"DROVER_CLOSED"),
        (DROVER_WRONG_THREAD, c"DROVER_WRONG_THREAD"),
        (DROVER_FORKED, c"DROVER_FORKED"),
    ];
    let known = NAMES.iter().find(|(known, _)| *known as i32 == status);
    known.map_or(c"?", |(_, name)| name).as_ptr()
}

/// The library's version.
#[unsafe(no_mangle)]
pub extern "C" fn drover_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zero byte"),
        };
    VERSION.as_ptr()
}
