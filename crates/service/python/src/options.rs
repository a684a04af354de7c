//! Options of a connection, as Python passes them.

use crate::errors::exception;
use drover_client::{Credentials, Ns, Options, TlsClientOptions, TlsConnector};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Keyword arguments of both clients.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Keywords {
    connect_timeout: f64,
    timeout: f64,
    window: usize,
    credentials: Option<String>,
    tls_ca: Option<PathBuf>,
    tls_name: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
}

impl Keywords {
    /// The client's options.
    pub fn options(self, py: Python<'_>) -> PyResult<Options> {
        let seconds = |name: &str, value: f64| match value > 0.0 && value <= 1e6 {
            true => Ok(Ns((value * 1e9) as u64)),
            false => Err(exception(
                py,
                "BadOption",
                format_args!("{name}={value}: more than 0 s, at most 10^6"),
            )),
        };
        let credentials = self
            .credentials
            .map(|text| Credentials::parse(text.as_bytes()))
            .transpose();
        Ok(Options {
            connect_timeout: seconds("connect_timeout", self.connect_timeout)?,
            call_timeout: seconds("timeout", self.timeout)?,
            window: self.window,
            credentials: credentials
                .map_err(|error| exception(py, "BadOption", format_args!("credentials: {error}")))?
                .map(Arc::new),
            tls: match self.tls_ca {
                None => None,
                Some(ca) => {
                    let options = TlsClientOptions {
                        ca,
                        name: self.tls_name,
                        certificate: self.tls_cert.zip(self.tls_key),
                    };
                    let connector = TlsConnector::new(options);
                    Some(Arc::new(
                        connector.map_err(|error| exception(py, "BadOption", error))?,
                    ))
                }
            },
            ..Options::default()
        })
    }
}
