//! Which of a member's addresses this machine can use, the best first: its shared memory, then RDMA, then sockets in a folder that
//! a member with another address shares with this client, as containers do.

use drover_cluster::Member;
use drover_control::{ControlAddr, ControlStream, Dial, DialError, Endpoint, Scheme};
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// What the address of links between members begins with; its host is the member's.
const MEMBER: &str = "member://";

/// The addresses of `member` for native clients on this machine. A socket of another machine's file system is no address of it; whether
/// it is another machine's can be told only by its host, which containers of one machine have each. So a path that somebody has chosen,
/// and that is a socket here, too, is tried last: a server there that is another member answers that it does not serve the keys.
pub(super) fn usable(member: &Member) -> Vec<ControlAddr> {
    let addresses = member.advert.addresses();
    let is_here = addresses
        .iter()
        .find_map(|text| host_of(text.strip_prefix(MEMBER)?))
        .is_none_or(is_own_host);
    let native = addresses
        .iter()
        .filter_map(|text| text.parse::<ControlAddr>().ok());
    let (mut near, mut far, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    for address in native {
        match address.scheme() {
            Scheme::Shm | Scheme::Unix if is_here => near.push(address),
            Scheme::Rdma => far.push(address),
            Scheme::Shm | Scheme::Unix if is_socket_at_path(&address) => shared.push(address),
            Scheme::Shm | Scheme::Unix | Scheme::Tcp => {}
        }
    }
    near.append(&mut far);
    near.append(&mut shared);
    near
}

/// Whether the address names a path, not only the name of a server, and a socket is there.
fn is_socket_at_path(address: &ControlAddr) -> bool {
    let text = address.to_string();
    let path = text.split_once(':').map(|(_, path)| Path::new(path));
    let is_socket = |path: &Path| path.metadata().is_ok_and(|file| file.file_type().is_socket());
    path.is_some_and(|path| path.is_absolute() && is_socket(path))
}

/// The host of `HOST:PORT?...`, without the brackets of IPv6.
fn host_of(place: &str) -> Option<&str> {
    let place = place.split('?').next()?;
    let (host, _) = place.rsplit_once(':')?;
    Some(host.trim_start_matches('[').trim_end_matches(']'))
}

/// Whether an address of `host` is one of this machine's: then a socket can be bound to it.
fn is_own_host(host: &str) -> bool {
    let Ok(mut addresses) = (host, 0).to_socket_addrs() else {
        return false;
    };
    addresses.any(|address| UdpSocket::bind(address).is_ok())
}

/// A dialer that never blocks for long, since the other members are to be served meanwhile: attempts over TCP are made by a thread.
pub(super) fn dial(addr: ControlAddr) -> Dial {
    if matches!(addr.place(), Endpoint::Path(_)) {
        return Dial::to(addr);
    }
    let name = addr.to_string();
    let mut under_way: Option<Receiver<Result<ControlStream, DialError>>> = None;
    Dial::new(name.clone(), move || {
        let attempt = under_way.get_or_insert_with(|| begin(addr.clone()));
        match attempt.try_recv() {
            Ok(result) => {
                under_way = None;
                result
            }
            Err(error) => {
                if error == TryRecvError::Disconnected {
                    under_way = None;
                }
                // Asked again soon: the link rests for milliseconds between attempts.
                Err(DialError::Timeout { addr: name.clone() })
            }
        }
    })
}

/// Begins an attempt in a thread. Without a thread, the attempt has failed.
fn begin(addr: ControlAddr) -> Receiver<Result<ControlStream, DialError>> {
    let (tell, told) = channel();
    let body = move || {
        // Nobody listens any more if the client has given the member up.
        let _ = tell.send(Dial::to(addr).attempt());
    };
    if let Err(error) = std::thread::Builder::new().name("dial".to_string()).spawn(body) {
        tracing::warn!(%error, "no thread to connect to a member with");
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_cluster::Advert;

    fn usable_of(addresses: &[&str]) -> Vec<String> {
        let addresses = addresses.iter().map(|text| text.to_string()).collect();
        let member = Member {
            advert: Advert::new("a", 1, addresses).expect("a sound advert"),
            incarnation: 1,
        };
        usable(&member).iter().map(ControlAddr::to_string).collect()
    }

    #[test]
    fn shared_memory_is_preferred_on_the_members_machine_and_no_address_elsewhere() {
        let native = [
            "rdma://192.0.2.1:7",
            "unix:/run/a.sock",
            "memcached://192.0.2.1:1",
        ];
        let here = [&["member://127.0.0.1:9?cores=2"][..], &native].concat();
        assert_eq!(usable_of(&here), ["unix:/run/a.sock", "rdma://192.0.2.1:7"]);
        let elsewhere = [&["member://192.0.2.1:9?cores=2"][..], &native].concat();
        assert_eq!(usable_of(&elsewhere), ["rdma://192.0.2.1:7"]);
        let folder = std::env::temp_dir().join(format!("drover-addresses-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let shared = format!("unix:{}", path.display());
        let of_container = ["member://192.0.2.1:9?cores=2", &shared, "rdma://192.0.2.1:7"];
        assert_eq!(usable_of(&of_container), ["rdma://192.0.2.1:7", &shared]);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(usable_of(&["member://192.0.2.1:9?cores=2", "memcached://192.0.2.1:1"]).is_empty());
    }

    #[test]
    fn hosts_of_members_are_found() {
        assert_eq!(host_of("10.0.0.1:7?cores=2"), Some("10.0.0.1"));
        assert_eq!(host_of("[::1]:7?cores=2"), Some("::1"));
        assert_eq!(host_of("10.0.0.1"), None);
    }
}
