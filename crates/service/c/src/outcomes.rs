//! [`Outcomes`] of submitted operations that the program has not taken, and what it is shown of one.

use crate::status::drover_status::{self, *};
use ::drover_client::{Completion, Outcome, Token};
use std::ops::Range;

/// A value and what belongs to it. The bytes are the client's, and valid until its next call.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct drover_item {
    /// The value's bytes; null if there is no value.
    pub value: *const u8,
    /// Number of them.
    pub value_bytes: usize,
    /// Version, for DROVER_IF_VERSION; 0 if it was not asked for, or the system has none.
    pub version: u64,
    /// The bits that were stored with the value; 0 if they were not asked for.
    pub flags: u32,
}

/// Outcome of a submitted operation.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct drover_result {
    /// The token that it was submitted with.
    pub token: u64,
    /// What came of it.
    pub status: drover_status,
    /// What a read has found.
    pub item: drover_item,
}

/// Outcomes in the order in which they came.
#[derive(Default)]
pub struct Outcomes {
    finished: Vec<Finished>,
    /// Number of them that were taken.
    taken: usize,
    /// Values of all of them.
    values: Vec<u8>,
}

struct Finished {
    token: Token,
    status: drover_status,
    value: Option<Range<usize>>,
    version: u64,
    flags: u32,
}

impl Outcomes {
    /// Forgets what was taken; nothing that the program was shown is valid afterwards.
    pub fn begin(&mut self) {
        if self.taken == 0 {
            return;
        }
        self.finished.drain(..std::mem::take(&mut self.taken));
        // Values of what is left move to the front; mostly nothing is left.
        let old = std::mem::take(&mut self.values);
        for one in &mut self.finished {
            if let Some(range) = &mut one.value {
                let start = self.values.len();
                self.values.extend_from_slice(&old[range.clone()]);
                *range = start..self.values.len();
            }
        }
        if self.values.is_empty() {
            self.values = old;
            self.values.clear();
        }
    }

    /// Whether there are some that were not taken.
    pub fn any(&self) -> bool {
        self.taken < self.finished.len()
    }

    /// Number of them that were not taken.
    pub fn count(&self) -> usize {
        self.finished.len() - self.taken
    }

    /// Notes one.
    pub fn push(&mut self, done: Completion<'_>) {
        let (status, value, version, flags) = parts(done.outcome);
        let value = value.map(|bytes| {
            let start = self.values.len();
            self.values.extend_from_slice(bytes);
            start..self.values.len()
        });
        self.finished.push(Finished {
            token: done.token,
            status,
            value,
            version,
            flags,
        });
    }

    /// The oldest that was not taken. Its value is valid until the next [`begin`](Outcomes::begin) or [`push`](Outcomes::push).
    pub fn take(&mut self) -> Option<drover_result> {
        let one = self.finished.get(self.taken)?;
        self.taken += 1;
        let value = one.value.clone().map(|range| &self.values[range]);
        Some(drover_result {
            token: one.token,
            status: one.status,
            item: drover_item {
                value: value.map_or(std::ptr::null(), <[u8]>::as_ptr),
                value_bytes: value.map_or(0, <[u8]>::len),
                version: one.version,
                flags: one.flags,
            },
        })
    }

    /// Takes out the outcome with `token`, which came last.
    pub fn take_last(&mut self, token: Token) -> Option<drover_result> {
        let at = self.finished.iter().rposition(|one| one.token == token)?;
        // The others keep their order.
        let one = self.finished.remove(at);
        self.finished.insert(self.taken, one);
        self.take()
    }
}

/// Status, value, version and flags.
fn parts(outcome: Outcome<'_>) -> (drover_status, Option<&[u8]>, u64, u32) {
    let status = |status| (status, None, 0, 0);
    match outcome {
        Outcome::Value(value) => (DROVER_OK, Some(value), 0, 0),
        Outcome::Found {
            value,
            version,
            flags,
        } => (DROVER_OK, Some(value), version, flags),
        Outcome::Exists => status(DROVER_EXISTS),
        other => status(match other.found() {
            Ok(true) => DROVER_OK,
            Ok(false) => DROVER_NOT_FOUND,
            Err(error) => drover_status::of_call(error),
        }),
    }
}
