//! Calls that wait for their result.

use crate::client::{Inner, drover_client};
use crate::foreign;
use crate::outcomes::{drover_item, drover_result};
use crate::pipelined::{BLOCKING, drover_how};
use crate::status::drover_status;
use ::drover_client::{Condition, Op, SubmitError};
use std::ffi::c_void;

/// Looks up a key and stores its value in `item`, without version and flags.
///
/// # Safety
/// `client` came from `drover_connect` and was not closed. `key` points to `key_bytes` bytes, `item` to memory for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_get(
    client: *mut drover_client,
    key: *const c_void,
    key_bytes: usize,
    item: *mut drover_item,
) -> drover_status {
    // SAFETY: the caller keeps what is required.
    unsafe { find(client, (key, key_bytes), item, |key| Op::Get { key }) }
}

/// As `drover_get`, with version and flags. It may take longer.
///
/// # Safety
/// Those of `drover_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_get_item(
    client: *mut drover_client,
    key: *const c_void,
    key_bytes: usize,
    item: *mut drover_item,
) -> drover_status {
    // SAFETY: the caller keeps what is required.
    unsafe { find(client, (key, key_bytes), item, |key| Op::GetItem { key }) }
}

/// Stores a value under a key, for `ttl_s` seconds (0: for ever).
///
/// # Safety
/// `client` came from `drover_connect` and was not closed. `key` points to `key_bytes` bytes, `value` to `value_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_set(
    client: *mut drover_client,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_s: u32,
) -> drover_status {
    let how = drover_how {
        ttl_s,
        ..drover_how::default()
    };
    // SAFETY: the caller keeps what is required.
    unsafe { put(client, (key, key_bytes), (value, value_bytes), &how) }
}

/// Stores a value under a key as `how` says, if its condition holds.
///
/// # Safety
/// Those of `drover_set`; `how` points to the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_put(
    client: *mut drover_client,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    how: *const drover_how,
) -> drover_status {
    // SAFETY: the caller keeps what is required.
    let how = match unsafe { foreign::given("how", how) } {
        Ok(how) => how,
        Err(status) => return status,
    };
    // SAFETY: as above.
    unsafe { put(client, (key, key_bytes), (value, value_bytes), how) }
}

/// Removes a key.
///
/// # Safety
/// `client` came from `drover_connect` and was not closed. `key` points to `key_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_delete(
    client: *mut drover_client,
    key: *const c_void,
    key_bytes: usize,
) -> drover_status {
    let delete = |key| Op::Delete {
        key,
        condition: Condition::Always,
    };
    // SAFETY: the caller keeps what is required.
    unsafe { update(client, (key, key_bytes), delete) }
}

/// Removes a key if its item has this version.
///
/// # Safety
/// Those of `drover_delete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_delete_version(
    client: *mut drover_client,
    key: *const c_void,
    key_bytes: usize,
    version: u64,
) -> drover_status {
    let delete = |key| Op::Delete {
        key,
        condition: Condition::IfVersion(version),
    };
    // SAFETY: the caller keeps what is required.
    unsafe { update(client, (key, key_bytes), delete) }
}

/// Has a key expire in `ttl_s` seconds (0: never).
///
/// # Safety
/// Those of `drover_delete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_touch(
    client: *mut drover_client,
    key: *const c_void,
    key_bytes: usize,
    ttl_s: u32,
) -> drover_status {
    // SAFETY: the caller keeps what is required.
    unsafe { update(client, (key, key_bytes), |key| Op::Touch { key, ttl_s }) }
}

/// # Safety
/// Those of [`drover_get`].
unsafe fn find<'a>(
    client: *mut drover_client,
    (key, key_bytes): (*const c_void, usize),
    item: *mut drover_item,
    op: impl FnOnce(&'a [u8]) -> Op<'a>,
) -> drover_status {
    let find = || {
        // SAFETY: the caller keeps what is required of each.
        let place = unsafe { foreign::output("item", item) }?;
        // SAFETY: as above.
        let key = unsafe { foreign::bytes("key", key, key_bytes) }?;
        // SAFETY: as above.
        let result = call(unsafe { drover_client::of(client) }?, &op(key))?;
        place.set(result.item);
        Ok(result.status)
    };
    find().unwrap_or_else(|status| status)
}

/// # Safety
/// Those of [`drover_set`].
unsafe fn put(
    client: *mut drover_client,
    (key, key_bytes): (*const c_void, usize),
    (value, value_bytes): (*const c_void, usize),
    how: &drover_how,
) -> drover_status {
    let put = || {
        // SAFETY: the caller keeps what is required of each.
        let key = unsafe { foreign::bytes("key", key, key_bytes) }?;
        // SAFETY: as above.
        let value = unsafe { foreign::bytes("value", value, value_bytes) }?;
        let op = how.put(key, value)?;
        // SAFETY: as above.
        Ok(call(unsafe { drover_client::of(client) }?, &op)?.status)
    };
    put().unwrap_or_else(|status| status)
}

/// # Safety
/// Those of [`drover_delete`].
unsafe fn update<'a>(
    client: *mut drover_client,
    (key, key_bytes): (*const c_void, usize),
    op: impl FnOnce(&'a [u8]) -> Op<'a>,
) -> drover_status {
    let update = || {
        // SAFETY: the caller keeps what is required of each.
        let key = unsafe { foreign::bytes("key", key, key_bytes) }?;
        // SAFETY: as above.
        Ok(call(unsafe { drover_client::of(client) }?, &op(key))?.status)
    };
    update().unwrap_or_else(|status| status)
}

/// Submits the operation and waits for its outcome; others that come meanwhile stay for `drover_poll`.
fn call(client: &mut Inner, op: &Op<'_>) -> Result<drover_result, drover_status> {
    let Inner { pipeline, outcomes } = client;
    outcomes.begin();
    loop {
        match pipeline.submit(op, BLOCKING) {
            Ok(()) => break,
            Err(SubmitError::WindowFull) => pipeline.wait(&mut |done| outcomes.push(done)),
            Err(error) => return Err(drover_status::of_submit(error)),
        };
    }
    loop {
        pipeline.wait(&mut |done| outcomes.push(done));
        if let Some(result) = outcomes.take_last(BLOCKING) {
            return Ok(result);
        }
    }
}
