//! The addresses of a server for native clients: one control channel per address, all giving the same answers.

use super::settings::Settings;
use crate::exit::{self, Failure};
use crate::exposure::{Exposure, Tls};
use drover_control::{ControlAddr, ControlListener, ListenError, Scheme, SocketAccess};

/// Opens a control channel for native clients at every address of `addrs`; `access` is that of Unix sockets.
///
/// # Errors
/// An address is in use or cannot be bound.
pub fn open_all(addrs: &[ControlAddr], access: &SocketAccess) -> Result<Vec<ControlListener>, Failure> {
    addrs
        .iter()
        .map(|addr| ControlListener::bind_for(addr, access).map_err(|error| failure(&error)))
        .collect()
}

/// What keeps strangers from the listeners of these settings.
pub fn exposure(settings: &Settings) -> Exposure {
    Exposure {
        is_insecure: settings.ops.insecure.value,
        has_users: settings.ops.auth_file.value.is_some(),
    }
}

/// Refuses listeners that anybody may use: for native clients, unless this is a gateway, and the admin port.
///
/// # Errors
/// As [`Exposure::check`].
pub fn check_exposure(settings: &Settings) -> Result<(), Failure> {
    let exposure = exposure(settings);
    if let Some(addr) = &settings.ops.metrics_listen.value {
        exposure.check("--metrics-listen", addr, addr.ip(), Tls::None)?;
    }
    if settings.service.connect.value.is_some() {
        return Ok(());
    }
    let flags = std::iter::once("--fabric").chain(std::iter::repeat("--control-listen"));
    let mut all = flags.zip(addresses(settings)?);
    all.try_for_each(|(flag, addr)| exposure.check_control(flag, &addr))
}

/// Addresses at which native clients can connect: always that of `--fabric` first, then those of `--control-listen`.
///
/// # Errors
/// An address is malformed, or its option does not allow its scheme: `--fabric` takes `shm:` and `rdma:`,
/// `--control-listen` takes `unix:` and `tcp:`.
pub fn addresses(settings: &Settings) -> Result<Vec<ControlAddr>, Failure> {
    let fabric = parse(&settings.service.fabric.value)?;
    if !matches!(fabric.scheme(), Scheme::Shm | Scheme::Rdma) {
        let text = format!("--fabric {fabric}: data goes by shm:NAME, shm:/path.sock or rdma://host:port");
        return Err(Failure::new(exit::USAGE, text));
    }
    let mut addrs = vec![fabric];
    for text in &settings.sockets.control_listen.value {
        let addr = parse(text)?;
        if !matches!(addr.scheme(), Scheme::Unix | Scheme::Tcp) {
            let text = format!("--control-listen {addr}: expected tcp://host:port or unix:/path.sock");
            return Err(Failure::new(exit::USAGE, text));
        }
        addrs.push(addr);
    }
    Ok(addrs)
}

fn parse(text: &str) -> Result<ControlAddr, Failure> {
    text.parse().map_err(|error| Failure::new(exit::USAGE, error))
}

fn failure(error: &ListenError) -> Failure {
    let code = match error {
        ListenError::InUse { .. } | ListenError::NotASocket { .. } => exit::UNAVAILABLE,
        ListenError::System { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            exit::NO_PERMISSION
        }
        _ => exit::UNAVAILABLE,
    };
    Failure::new(code, error)
}
