//! Operations that are submitted, and whose outcomes are taken later.

use crate::client::{Inner, drover_client};
use crate::foreign;
use crate::outcomes::drover_result;
use crate::status::drover_status::{self, *};
use ::drover_client::{Condition, Op, Token};
use std::ffi::c_void;

/// Token of the operation of a call that waits.
pub const BLOCKING: Token = Token::MAX;

/// Condition of a PUT: none.
pub const DROVER_ALWAYS: u32 = 0;
/// The key does not exist.
pub const DROVER_IF_ABSENT: u32 = 1;
/// The key exists.
pub const DROVER_IF_PRESENT: u32 = 2;
/// The key's item has the version of the structure.
pub const DROVER_IF_VERSION: u32 = 3;

/// Kind of an operation: look up a key.
pub const DROVER_OP_GET: u32 = 0;
/// Look up a key, with version and flags.
pub const DROVER_OP_GET_ITEM: u32 = 1;
/// Store a value.
pub const DROVER_OP_PUT: u32 = 2;
/// Remove a key, if the condition holds.
pub const DROVER_OP_DELETE: u32 = 3;
/// Have a key expire.
pub const DROVER_OP_TOUCH: u32 = 4;

/// How a value is stored. All zero: for ever, in any case.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(non_camel_case_types)]
pub struct drover_how {
    /// Seconds until the value expires; 0: never.
    pub ttl_s: u32,
    /// The program's own bits, stored with the value.
    pub flags: u32,
    /// When it is stored: DROVER_ALWAYS, DROVER_IF_ABSENT, DROVER_IF_PRESENT or DROVER_IF_VERSION.
    pub condition: u32,
    /// Not 0: a key that exists keeps its expiry and flags.
    pub keep: u32,
    /// For DROVER_IF_VERSION.
    pub version: u64,
}

/// An operation.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct drover_op {
    /// DROVER_OP_GET and so on.
    pub kind: u32,
    /// The key's bytes.
    pub key: *const c_void,
    /// Number of them.
    pub key_bytes: usize,
    /// The value's bytes, for DROVER_OP_PUT.
    pub value: *const c_void,
    /// Number of them.
    pub value_bytes: usize,
    /// For DROVER_OP_PUT; condition and version also for DROVER_OP_DELETE, the time also for DROVER_OP_TOUCH.
    pub how: drover_how,
}

impl drover_how {
    fn condition(&self) -> Result<Condition, drover_status> {
        Ok(match self.condition {
            DROVER_ALWAYS => Condition::Always,
            DROVER_IF_ABSENT => Condition::IfAbsent,
            DROVER_IF_PRESENT => Condition::IfPresent,
            DROVER_IF_VERSION => Condition::IfVersion(self.version),
            other => {
                return Err(
                    DROVER_INVALID.because(format_args!("condition {other}: there is none of this number"))
                );
            }
        })
    }

    pub(crate) fn put<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Result<Op<'a>, drover_status> {
        Ok(Op::Put {
            key,
            value,
            ttl_s: self.ttl_s,
            flags: self.flags,
            condition: self.condition()?,
            keep: self.keep != 0,
        })
    }
}

impl drover_op {
    /// # Safety
    /// Key and value point to as many bytes as it says, which nobody changes during `'a`.
    unsafe fn read<'a>(&self) -> Result<Op<'a>, drover_status> {
        // SAFETY: the caller keeps what is required.
        let key = unsafe { foreign::bytes("key", self.key, self.key_bytes) }?;
        Ok(match self.kind {
            DROVER_OP_GET => Op::Get { key },
            DROVER_OP_GET_ITEM => Op::GetItem { key },
            DROVER_OP_PUT => {
                // SAFETY: as above.
                let value = unsafe { foreign::bytes("value", self.value, self.value_bytes) }?;
                self.how.put(key, value)?
            }
            DROVER_OP_DELETE => Op::Delete {
                key,
                condition: self.how.condition()?,
            },
            DROVER_OP_TOUCH => Op::Touch {
                key,
                ttl_s: self.how.ttl_s,
            },
            other => {
                return Err(
                    DROVER_INVALID.because(format_args!("kind {other}: there is none of this number"))
                );
            }
        })
    }
}

/// Submits an operation, whose outcome will have `token` (any number but UINT64_MAX). Its bytes are copied. DROVER_WINDOW_FULL:
/// take outcomes first.
///
/// # Safety
/// `client` came from `drover_connect` and was not closed. `op` points to the structure, its key and value to as many bytes as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_submit(
    client: *mut drover_client,
    op: *const drover_op,
    token: u64,
) -> drover_status {
    let submit = || {
        if token == BLOCKING {
            return Err(DROVER_INVALID.because("token: UINT64_MAX is the library's own"));
        }
        // SAFETY: the caller keeps what is required of each.
        let op = unsafe { foreign::given("op", op)?.read() }?;
        // SAFETY: as above.
        let Inner { pipeline, outcomes } = unsafe { drover_client::of(client) }?;
        outcomes.begin();
        pipeline.submit(&op, token).map_err(drover_status::of_submit)?;
        Ok(DROVER_OK)
    };
    submit().unwrap_or_else(|status| status)
}

/// Stores at most `max` outcomes that have come in `results`, and their number in `count`. Never waits.
///
/// # Safety
/// `client` came from `drover_connect` and was not closed. `results` points to memory for `max` of the structure, `count` to memory for
/// a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_poll(
    client: *mut drover_client,
    results: *mut drover_result,
    max: usize,
    count: *mut usize,
) -> drover_status {
    // SAFETY: the caller keeps what is required.
    unsafe { take(client, (results, max), count, false) }
}

/// As `drover_poll`, but waits until there is an outcome; stores 0 in `count` only if nothing is in flight, or `max` is 0.
///
/// # Safety
/// Those of `drover_poll`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_wait(
    client: *mut drover_client,
    results: *mut drover_result,
    max: usize,
    count: *mut usize,
) -> drover_status {
    // SAFETY: the caller keeps what is required.
    unsafe { take(client, (results, max), count, true) }
}

/// Stores the number of operations whose outcome was not taken in `count`.
///
/// # Safety
/// `client` came from `drover_connect` and was not closed; `count` points to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_in_flight(client: *mut drover_client, count: *mut usize) -> drover_status {
    let look = || {
        // SAFETY: the caller keeps what is required of each.
        let place = unsafe { foreign::output("count", count) }?;
        // SAFETY: as above.
        let Inner { pipeline, outcomes } = unsafe { drover_client::of(client) }?;
        place.set(pipeline.in_flight() + outcomes.count());
        Ok(DROVER_OK)
    };
    look().unwrap_or_else(|status| status)
}

/// # Safety
/// Those of [`drover_poll`].
unsafe fn take(
    client: *mut drover_client,
    (results, max): (*mut drover_result, usize),
    count: *mut usize,
    waits: bool,
) -> drover_status {
    let take = || {
        // SAFETY: the caller keeps what is required of each.
        let place = unsafe { foreign::output("count", count) }?;
        // SAFETY: as above.
        let results = unsafe { foreign::outputs("results", results, max) }?;
        // SAFETY: as above.
        let Inner { pipeline, outcomes } = unsafe { drover_client::of(client) }?;
        outcomes.begin();
        if !outcomes.any() && !results.is_empty() {
            let sink = &mut |done: ::drover_client::Completion<'_>| outcomes.push(done);
            match waits {
                true => pipeline.wait(sink),
                false => pipeline.poll(sink),
            };
        }
        let mut stored = 0;
        for place in results {
            let Some(result) = outcomes.take() else { break };
            place.write(result);
            stored += 1;
        }
        place.set(stored);
        Ok(DROVER_OK)
    };
    take().unwrap_or_else(|status| status)
}
