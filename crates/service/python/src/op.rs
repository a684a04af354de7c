//! [`Request`]: an operation that Python asks for, and [`Answer`]: what it gets.

use crate::errors::{exception, of_call};
use drover_client::{CallError, Condition, Op, Outcome};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// An operation, a tuple in Python. The bytes are those of Python's objects.
#[derive(FromPyObject)]
pub struct Request(
    /// Kind: `"g"` (get), `"G"` (get with flags and version), `"p"` (put), `"d"` (delete), `"t"` (touch).
    char,
    /// Key.
    PyBackedBytes,
    /// Value.
    Option<PyBackedBytes>,
    /// Time to live, seconds.
    u32,
    /// Flags.
    u32,
    /// Condition: `""` (none), `"a"` (absent), `"p"` (present), `"v"` (has the version that follows).
    String,
    /// Version.
    u64,
    /// Whether a key that exists keeps its expiry and flags.
    bool,
);

impl Request {
    /// The operation.
    pub fn op(&self) -> Op<'_> {
        let Request(kind, key, value, ttl_s, flags, condition, version, keep) = self;
        let (key, ttl_s) = (&key[..], *ttl_s);
        let condition = match condition.as_str() {
            "a" => Condition::IfAbsent,
            "p" => Condition::IfPresent,
            "v" => Condition::IfVersion(*version),
            _ => Condition::Always,
        };
        match kind {
            'g' => Op::Get { key },
            'G' => Op::GetItem { key },
            'p' => Op::Put {
                key,
                value: value.as_deref().unwrap_or_default(),
                ttl_s,
                flags: *flags,
                condition,
                keep: *keep,
            },
            'd' => Op::Delete { key, condition },
            _ => Op::Touch { key, ttl_s },
        }
    }
}

/// What came of an operation.
pub enum Answer {
    /// A value.
    Value(Vec<u8>),
    /// A value with flags and version.
    Item(Vec<u8>, u32, u64),
    /// Done.
    Done,
    /// There is no such key.
    NotFound,
    /// The key exists, or has another version.
    Exists,
    /// It failed.
    Failed(CallError),
}

impl Answer {
    /// The answer, with its own copy of the value.
    pub fn of(outcome: Outcome<'_>) -> Answer {
        match outcome {
            Outcome::Value(value) => Answer::Value(value.to_vec()),
            Outcome::Found {
                value,
                version,
                flags,
            } => Answer::Item(value.to_vec(), flags, version),
            Outcome::Exists => Answer::Exists,
            other => match other.found() {
                Ok(true) => Answer::Done,
                Ok(false) => Answer::NotFound,
                Err(error) => Answer::Failed(error),
            },
        }
    }

    /// For Python: bytes, or a tuple of bytes, flags and version; `True`: done; `None`: no such key; `False`: it exists.
    pub fn object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Answer::Value(value) => PyBytes::new(py, &value).into_any().unbind(),
            Answer::Item(value, flags, version) => {
                let tuple = (PyBytes::new(py, &value), flags, version);
                tuple.into_pyobject(py)?.into_any().unbind()
            }
            Answer::Done => true.into_pyobject(py)?.to_owned().into_any().unbind(),
            Answer::Exists => false.into_pyobject(py)?.to_owned().into_any().unbind(),
            Answer::NotFound => py.None(),
            Answer::Failed(error) => return Err(of_call(py, error)),
        })
    }

    /// As [`object`](Answer::object), but an exception is an object, too.
    pub fn object_or_exception(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.object(py) {
            Ok(object) => Ok(object),
            Err(error) => Ok(error.into_value(py).into_any()),
        }
    }
}

/// The exception of a client that was closed.
pub fn closed(py: Python<'_>) -> PyErr {
    exception(py, "Closed", "the client is closed")
}
