//! The addresses of a server for native clients: one control channel per address, all giving the same answers.

use super::ops::Files;
use super::settings::{Settings, split_plain};
use crate::exit::{self, Failure};
use crate::exposure::{Exposure, Tls};
use drover_control::{ControlAddr, ControlListener, ListenError, Scheme, SocketAccess};

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
    let open = |place: &Reach| {
        let listener = ControlListener::bind_for(&place.addr, access).map_err(|error| failure(&error))?;
        let is_plain = place.is_plain;
        Ok(Opened { listener, is_plain })
    };
    places.iter().map(open).collect()
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
    let addr = text.parse().map_err(|error| Failure::new(exit::USAGE, error))?;
    let is_plain = !prefix.is_empty();
    Ok(Reach { addr, is_plain })
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
