//! What C passes: bytes, texts, and places for results.

use crate::status::drover_status::{self, DROVER_INVALID};
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;

/// Bytes of the caller's.
///
/// # Safety
/// `start` is null, or points to `len` bytes that nobody changes during `'a`.
pub unsafe fn bytes<'a>(what: &str, start: *const c_void, len: usize) -> Result<&'a [u8], drover_status> {
    if len == 0 {
        return Ok(&[]);
    }
    if start.is_null() || len > isize::MAX as usize {
        return Err(DROVER_INVALID.because(format_args!("{what}: a null pointer, or too many bytes")));
    }
    // SAFETY: not null, the caller keeps that there are `len` bytes which stay as they are.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}

/// A text of the caller's, `None` for a null pointer.
///
/// # Safety
/// `start` is null, or points to a text that ends with a zero byte and that nobody changes during `'a`.
pub unsafe fn text<'a>(what: &str, start: *const c_char) -> Result<Option<&'a str>, drover_status> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, the caller keeps that there is a zero byte at the end, and that the text stays as it is.
    let text = unsafe { CStr::from_ptr(start) };
    let text = text.to_str();
    text.map(Some)
        .map_err(|_| DROVER_INVALID.because(format_args!("{what}: it is not UTF-8")))
}

/// As [`text`], for the path of a file.
///
/// # Safety
/// Those of [`text`].
pub unsafe fn path(what: &str, start: *const c_char) -> Result<Option<PathBuf>, drover_status> {
    // SAFETY: the caller keeps what `text` requires.
    Ok(unsafe { text(what, start) }?.map(PathBuf::from))
}

/// A structure of the caller's.
///
/// # Safety
/// `start` is null, or points to a `T` that nobody changes during `'a`.
pub unsafe fn given<'a, T>(what: &str, start: *const T) -> Result<&'a T, drover_status> {
    // SAFETY: the caller keeps that there is a `T` if it is not null.
    unsafe { start.as_ref() }.ok_or_else(|| is_null(what))
}

/// The caller's place for a result.
///
/// # Safety
/// `start` is null, or points to memory for a `T` that nobody else uses during `'a`.
pub unsafe fn output<'a, T>(what: &str, start: *mut T) -> Result<Output<'a, T>, drover_status> {
    if start.is_null() {
        return Err(is_null(what));
    }
    // SAFETY: not null, and the caller keeps that the memory is for a `T`; `MaybeUninit` may be anything.
    Ok(Output(unsafe { &mut *start.cast() }))
}

/// Places for `count` results.
///
/// # Safety
/// `start` is null, or points to memory for `count` of `T` that nobody else uses during `'a`.
pub unsafe fn outputs<'a, T>(
    what: &str,
    start: *mut T,
    count: usize,
) -> Result<&'a mut [std::mem::MaybeUninit<T>], drover_status> {
    if count == 0 {
        return Ok(&mut []);
    }
    if start.is_null() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(is_null(what));
    }
    // SAFETY: not null, and the caller keeps that there is memory for `count` of them; `MaybeUninit` may be anything.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), count) })
}

/// Memory for a result, which may hold anything yet.
pub struct Output<'a, T>(&'a mut std::mem::MaybeUninit<T>);

impl<T> Output<'_, T> {
    /// Stores the result.
    pub fn set(self, value: T) {
        self.0.write(value);
    }
}

fn is_null(what: &str) -> drover_status {
    DROVER_INVALID.because(format_args!("{what}: a null pointer"))
}
