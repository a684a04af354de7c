//! The addresses of a server: one control channel per way in, all with the same answers.

use super::settings::Settings;
use crate::exit::{self, Failure};
use drover_rt::control::{ControlAddr, ControlListener, ListenError, Scheme};

/// Takes every address of the settings. The first is the fabric's.
pub fn open_all(settings: &Settings) -> Result<Vec<ControlListener>, Failure> {
    let addrs = addresses(settings)?;
    addrs
        .iter()
        .map(|addr| ControlListener::bind(addr).map_err(|error| failure(&error)))
        .collect()
}

fn addresses(settings: &Settings) -> Result<Vec<ControlAddr>, Failure> {
    let fabric = parse(&settings.fabric.value)?;
    if fabric.scheme() != Scheme::Shm {
        let text = format!("--fabric {fabric}: this build serves shm:NAME or shm:/path.sock only");
        return Err(Failure::new(exit::USAGE, text));
    }
    let mut addrs = vec![fabric];
    if let Some(path) = &settings.unix_socket.value {
        addrs.push(parse(&format!("unix:{}", path.display()))?);
    }
    if settings.port.value != 0 {
        let host = &settings.listen.value;
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        addrs.push(parse(&format!("tcp://{host}:{}", settings.port.value))?);
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
