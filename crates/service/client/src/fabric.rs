//! The fabric that an address names: the one place where a provider is chosen for data.
//!
//! | address | fabric |
//! |---|---|
//! | `shm:NAME`, `unix:/path.sock` | shared memory |
//! | `rdma://host:port?device=D&port=N&gid=I` | libibverbs; its options are about *this* end's device |
//!
//! Work on a fabric is a [`Job`], generic over the provider; [`Fabric::run`] is the `match`.

use drover_control::{ControlAddr, Endpoint, Scheme};
use drover_mem::NativeCpu;
use drover_verbs::Provider;
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions, Wish};
use drover_verbs_shm::{Shm, ShmDevice};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

/// User's choice of RDMA device, port and GID. A field that is `None` permits any. Among permitted GIDs, [`Fabric`]
/// prefers one with the IP address that the server listens at or, for a client, with this machine's IP address on the
/// route to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    /// Name of the RDMA device.
    pub device: Option<String>,
    /// Port number on the device, from 1.
    pub port: Option<u8>,
    /// Index in the port's GID table. In an `rdma://` address, an index above 255 is refused.
    pub gid_index: Option<u32>,
}

impl DeviceChoice {
    /// Converts to the form that the libibverbs provider takes. `address`: IP address that the GID must have: the
    /// listener's, or the local address from which a client reaches its server. `None`: any GID.
    pub fn wish(&self, address: Option<IpAddr>) -> Wish {
        Wish {
            address,
            device: self.device.clone(),
            port: self.port,
            gid_index: self.gid_index,
        }
    }

    /// Options for opening the device that [`wish`](DeviceChoice::wish) describes; all other options are defaults.
    pub fn options(&self, address: Option<IpAddr>) -> IbvOptions {
        let mut options = IbvOptions::default();
        options.wish = self.wish(address);
        options
    }
}

/// Reason why an address has no usable fabric.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The address has no data fabric (`tcp://`), its options are invalid, or a device is chosen for an address that
    /// is not `rdma://`.
    #[error("{0}")]
    Usage(String),
    /// No RDMA device matches, or it cannot be opened.
    #[error("{0}")]
    Unavailable(String),
}

/// Code to run on a fabric, generic over the fabric's provider; [`Fabric::run`] chooses the provider.
pub trait Job {
    /// Result of the job.
    type Answer;

    /// Runs the job on `device`.
    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer;
}

/// An opened fabric: the transport of data between client and server.
pub enum Fabric {
    /// Shared memory between processes on one machine.
    Shm(ShmDevice),
    /// An RDMA device, by libibverbs.
    Ibv(IbvDevice),
}

impl Fabric {
    /// Opens the fabric for a client of the server at `addr`, without contacting the server. The options of an
    /// `rdma://` address choose this machine's device; without a `gid` option, a GID with the IP address from which
    /// this machine reaches the server is preferred.
    ///
    /// # Errors
    /// An address without a data fabric, invalid options, or no matching device.
    pub fn towards(addr: &ControlAddr) -> Result<Fabric, FabricError> {
        Fabric::open(addr, ShmDevice::default(), local_address_towards(addr))
    }

    /// Opens the fabric for a compute process of a pool, one of whose memory nodes is at `addr`. Over shared memory it accepts
    /// nodes whose memory is a file: the processes of a pool trust each other.
    ///
    /// # Errors
    /// As [`towards`](Fabric::towards).
    pub fn towards_pool(addr: &ControlAddr) -> Result<Fabric, FabricError> {
        Fabric::open(addr, ShmDevice::of_pool(), local_address_towards(addr))
    }

    /// Opens the fabric for a server at `addr`. For a shared-memory address, that is `shm`. For `rdma://`, the options
    /// of `addr` choose the device; without a `gid` option, a GID with the IP address of `addr` is preferred, unless
    /// that is a wildcard or loopback address.
    ///
    /// # Errors
    /// As [`towards`](Fabric::towards).
    pub fn serving(addr: &ControlAddr, shm: ShmDevice) -> Result<Fabric, FabricError> {
        Fabric::open(addr, shm, address_of(addr))
    }

    fn open(addr: &ControlAddr, shm: ShmDevice, near: Option<IpAddr>) -> Result<Fabric, FabricError> {
        match addr.scheme() {
            Scheme::Shm | Scheme::Unix => Ok(Fabric::Shm(shm)),
            Scheme::Rdma => Ok(Fabric::Ibv(open_ibv(addr, near)?)),
            Scheme::Tcp => {
                let text = format!(
                    "{addr} carries statistics only: use the server's shm:, unix: or rdma:// address for data"
                );
                Err(FabricError::Usage(text))
            }
        }
    }

    /// Runs `job` with this fabric's provider and returns its result.
    pub fn run<J: Job>(&self, job: J) -> J::Answer {
        match self {
            Fabric::Shm(device) => job.run::<Shm>(device),
            Fabric::Ibv(device) => job.run::<Ibv>(device),
        }
    }

    /// Text for people: the RDMA device and port in use and why they were chosen; `None` for shared memory.
    pub fn choice(&self) -> Option<String> {
        match self {
            Fabric::Shm(_) => None,
            Fabric::Ibv(device) => {
                let choice = device.choice();
                Some(format!(
                    "{} port {}: {}",
                    choice.device, choice.port, choice.reason
                ))
            }
        }
    }
}

impl Fabric {
    /// Returns `addr` with the options that `device` sets, which replace those of `addr`; its other options stay.
    ///
    /// # Errors
    /// `device` sets an option, but `addr` is not an `rdma://` address.
    pub fn with_device(addr: &ControlAddr, device: &DeviceChoice) -> Result<ControlAddr, FabricError> {
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let said = [
            ("device", device.device.clone()),
            ("port", number(device.port.map(u32::from))),
            ("gid", number(device.gid_index)),
        ];
        let mut with = addr.clone();
        for (key, value) in said
            .iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?)))
        {
            if addr.scheme() != Scheme::Rdma {
                let text = format!(
                    "--ib-dev, --ib-port and --gid-index choose an RDMA device, and {addr} needs none"
                );
                return Err(FabricError::Usage(text));
            }
            with = with.with_option(key, value);
        }
        Ok(with)
    }

    /// Name of the fabric of `addr`, as in `--fabric` and reports: `rdma` for `rdma://`, otherwise `shm` (also for
    /// `tcp://`, which has no data fabric).
    pub fn name(addr: &ControlAddr) -> &'static str {
        match addr.scheme() {
            Scheme::Rdma => "rdma",
            Scheme::Shm | Scheme::Unix | Scheme::Tcp => "shm",
        }
    }
}

fn open_ibv(addr: &ControlAddr, near: Option<IpAddr>) -> Result<IbvDevice, FabricError> {
    let device = device_of(addr)?;
    // An address is a hint: the control channel may run over another network than the data.
    if near.is_some()
        && device.gid_index.is_none()
        && let Ok(nearest) = IbvDevice::open(device.options(near))
    {
        return Ok(nearest);
    }
    IbvDevice::open(device.options(None))
        .map_err(|error| FabricError::Unavailable(format!("{addr}: {error}")))
}

/// The device that the options of `addr` select.
fn device_of(addr: &ControlAddr) -> Result<DeviceChoice, FabricError> {
    let refuse = |why: String| FabricError::Usage(format!("{addr}: {why}"));
    if let Some(key) = addr.option_keys().find(|key| !OPTIONS.contains(key)) {
        return Err(refuse(format!(
            "no option is called {key}; there are device=NAME, port=NUMBER, gid=INDEX"
        )));
    }
    let number = |key: &str| match addr.option(key).map(str::parse::<u8>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(refuse(format!("{key}: a number up to {}", u8::MAX))),
    };
    Ok(DeviceChoice {
        device: addr.option("device").map(str::to_owned),
        port: number("port")?,
        gid_index: number("gid")?.map(u32::from),
    })
}

const OPTIONS: [&str; 3] = ["device", "port", "gid"];

/// The IP address that a server at `addr` listens at; `None` for wildcard and loopback addresses.
fn address_of(addr: &ControlAddr) -> Option<IpAddr> {
    let Endpoint::HostPort { host, port } = addr.place() else {
        return None;
    };
    let endpoint = (host.as_str(), *port).to_socket_addrs().ok()?.next()?;
    Some(endpoint.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
}

/// The local address from which this machine reaches `addr`. Queries the routing table; sends nothing.
fn local_address_towards(addr: &ControlAddr) -> Option<IpAddr> {
    let Endpoint::HostPort { host, port } = addr.place() else {
        return None;
    };
    let endpoint = (host.as_str(), *port).to_socket_addrs().ok()?.next()?;
    let any: IpAddr = match endpoint {
        std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(endpoint).ok()?;
    let local = socket.local_addr().ok()?.ip();
    Some(local).filter(|ip| !ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> ControlAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn options_say_which_device() {
        let all = device_of(&addr("rdma://h:1?device=mlx5_0&port=2&gid=3")).expect("all there are");
        let wanted = DeviceChoice {
            device: Some("mlx5_0".to_owned()),
            port: Some(2),
            gid_index: Some(3),
        };
        assert_eq!(all, wanted);
        assert_eq!(
            device_of(&addr("rdma://h:1")).expect("none"),
            DeviceChoice::default()
        );
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        for (text, why) in [
            (
                "rdma://h:1?dev=x",
                "rdma://h:1?dev=x: no option is called dev; there are device=NAME, port=NUMBER, gid=INDEX",
            ),
            ("rdma://h:1?gid=x", "rdma://h:1?gid=x: gid: a number up to 255"),
            (
                "rdma://h:1?port=256",
                "rdma://h:1?port=256: port: a number up to 255",
            ),
        ] {
            assert_eq!(device_of(&addr(text)).expect_err(text).to_string(), why);
        }
    }

    #[test]
    fn flags_become_options_of_the_address_and_win() {
        let device = DeviceChoice {
            device: Some("rxe1".to_owned()),
            port: Some(1),
            gid_index: None,
        };
        let with =
            Fabric::with_device(&addr("rdma://h:1?device=rxe0&gid=2"), &device).expect("an RDMA address");
        assert_eq!(with.to_string(), "rdma://h:1?gid=2&device=rxe1&port=1");
        let shm = addr("shm:x");
        assert_eq!(
            Fabric::with_device(&shm, &DeviceChoice::default()).expect("nothing said"),
            shm
        );
        assert_eq!(
            Fabric::with_device(&shm, &device)
                .expect_err("no device there")
                .to_string(),
            "--ib-dev, --ib-port and --gid-index choose an RDMA device, and shm:x needs none"
        );
    }

    #[test]
    fn tcp_is_no_fabric() {
        let refused = Fabric::towards(&addr("tcp://127.0.0.1:1"))
            .err()
            .expect("no data there");
        assert_eq!(
            refused,
            FabricError::Usage(
                "tcp://127.0.0.1:1 carries statistics only: use the server's shm:, unix: or rdma:// address for data"
                    .to_owned()
            )
        );
    }

    #[test]
    fn addresses_of_this_machine_alone_name_no_device() {
        assert_eq!(address_of(&addr("rdma://127.0.0.1:1")), None);
        assert_eq!(address_of(&addr("rdma://0.0.0.0:1")), None);
        assert_eq!(address_of(&addr("rdma://192.0.2.7:1")), "192.0.2.7".parse().ok());
        assert_eq!(local_address_towards(&addr("rdma://127.0.0.1:1")), None);
    }
}
