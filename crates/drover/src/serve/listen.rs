//! The addresses of a server for native clients: one control channel per address, all giving the same answers.

use super::ops::Files;
use super::settings::{Settings, split_plain};
use crate::advice;
use crate::exit::{self, Failure};
use crate::exposure::{Exposure, Tls};
use drover_control::{ControlAddr, ControlListener, Endpoint, ListenError, Scheme, SocketAccess};
use std::io::ErrorKind;

/// Where native clients can connect.
pub struct Reach {
    pub addr: ControlAddr,
    /// Without TLS, even with `-Z`.
    pub is_plain: bool,
}

/// A listener for native clients that nothing guards yet.
pub struct Opened {
    pub listener: ControlListener,
    is_plain: bool,
}

impl Opened {
    /// Lets in users only, over TLS, as `files` have it.
    pub fn guarded_by(self, files: &Files) -> ControlListener {
        let tls = files.native_tls.clone().filter(|_| !self.is_plain);
        let guard = files.auth.as_ref().map(|doors| doors.native());
        self.listener.guarded(guard).with_tls(tls)
    }
}

/// Opens a control channel for native clients at every one of `places`; `access` is that of Unix sockets.
///
/// # Errors
/// An address is in use or cannot be bound.
pub fn open_all(places: &[Reach], access: &SocketAccess) -> Result<Vec<Opened>, Failure> {
    let open = |(flag, place): (&str, &Reach)| {
        let listener =
            ControlListener::bind_for(&place.addr, access).map_err(|error| failure(flag, place, &error))?;
        let is_plain = place.is_plain;
        Ok(Opened { listener, is_plain })
    };
    flags().zip(places).map(open).collect()
}

/// The flags that name the addresses of a server, in their order.
fn flags() -> impl Iterator<Item = &'static str> {
    std::iter::once("--fabric").chain(std::iter::repeat("--control-listen"))
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
    let mut all = flags().zip(addresses(settings)?);
    let has_tls = settings.ops.tls.value.is_some();
    all.try_for_each(|(flag, place)| {
        let tls = match (has_tls, place.is_plain) {
            (true, true) => Tls::None,
            (true, false) => Tls::On,
            (false, _) => Tls::Off,
        };
        exposure.check_control(flag, &place.addr, tls)
    })
}

/// Addresses at which native clients can connect: always that of `--fabric` first, then those of `--control-listen`.
///
/// # Errors
/// An address is malformed, or its option does not allow its scheme: `--fabric` takes `shm:` and `rdma:`,
/// `--control-listen` takes `unix:` and `tcp:`.
pub fn addresses(settings: &Settings) -> Result<Vec<Reach>, Failure> {
    let fabric = parse(&settings.service.fabric.value)?;
    if !matches!(fabric.addr.scheme(), Scheme::Shm | Scheme::Rdma) {
        let text = format!(
            "--fabric {}: data goes by shm:NAME, shm:/path.sock or rdma://host:port",
            fabric.addr
        );
        return Err(Failure::new(exit::USAGE, text));
    }
    let mut places = vec![fabric];
    for text in &settings.sockets.control_listen.value {
        let place = parse(text)?;
        if !matches!(place.addr.scheme(), Scheme::Unix | Scheme::Tcp) {
            let text = format!("--control-listen {text}: expected tcp://host:port or unix:/path.sock");
            return Err(Failure::new(exit::USAGE, text));
        }
        places.push(place);
    }
    Ok(places)
}

fn parse(text: &str) -> Result<Reach, Failure> {
    let (prefix, text) = split_plain(text);
    let addr = text
        .parse()
        .map_err(|error| Failure::new(exit::USAGE, format!("--fabric {error}")))?;
    let is_plain = !prefix.is_empty();
    Ok(Reach { addr, is_plain })
}

fn failure(flag: &str, place: &Reach, error: &ListenError) -> Failure {
    let addr = &place.addr;
    let (code, text) = match error {
        ListenError::InUse { .. } => {
            let step = "stop that one, or choose another address";
            (exit::UNAVAILABLE, format!("{flag} {addr}: {error}: {step}"))
        }
        ListenError::System { source, .. } => {
            let code = match source.kind() {
                ErrorKind::PermissionDenied => exit::NO_PERMISSION,
                _ => exit::UNAVAILABLE,
            };
            let text = match addr.place() {
                Endpoint::Path(path) => advice::of_file(flag, path, source),
                Endpoint::HostPort { .. } => advice::of_address(flag, addr, source),
            };
            (code, text)
        }
        _ => {
            let step = "remove it, or choose another address";
            (exit::UNAVAILABLE, format!("{flag} {addr}: {error}: {step}"))
        }
    };
    Failure::new(code, text)
}
