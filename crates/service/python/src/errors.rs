//! Errors of the client as exceptions, which `drover_kv/errors.py` defines.

use drover_client::{CallError, Error, Refusal, SubmitError};
use pyo3::prelude::*;
use std::fmt::Display;

/// The exception for an error of connecting.
pub fn of_connecting(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Address(error) => exception(py, "BadAddress", error),
        Error::ServiceUrl(error) => exception(py, "BadAddress", error),
        Error::Call(error) => of_call(py, error),
        error => exception(py, "NotConnected", error),
    }
}

/// The exception for an error of a call.
pub fn of_call(py: Python<'_>, error: CallError) -> PyErr {
    let name = match error {
        CallError::Submit(error) => match error {
            SubmitError::BadKey => "BadKey",
            SubmitError::TooLarge => "TooLarge",
            SubmitError::NotOffered => "NotOffered",
            _ => "Closed",
        },
        CallError::Refused(refusal) => match refusal {
            Refusal::TooLarge => "TooLarge",
            Refusal::Full | Refusal::TableFull => "Full",
            Refusal::Unavailable | Refusal::NodeLost(_) | Refusal::Elsewhere | Refusal::NotServed(_) => {
                "Unavailable"
            }
            _ => "Refused",
        },
        CallError::Indeterminate => "Indeterminate",
        _ => "Closed",
    };
    exception(py, name, error)
}

/// The exception `name` of `drover_kv.errors` with this text.
pub fn exception(py: Python<'_>, name: &str, text: impl Display) -> PyErr {
    let made = py
        .import("drover_kv.errors")
        .and_then(|errors| errors.getattr(name))
        .and_then(|class| class.call1((text.to_string(),)));
    made.map_or_else(|error| error, PyErr::from_value)
}
