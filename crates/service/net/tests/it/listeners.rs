//! Listening addresses: which are taken over, kept or refused.

use drover_net::{Address, ListenError, Listener};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// A path that no other test uses.
fn path(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("drover-net-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.join(name)
}

#[test]
fn the_file_of_a_unix_socket_has_its_rights_and_goes_with_it() {
    let path = path("rights");
    for mode in [0o700, 0o766] {
        let listener = Listener::unix(&path, (mode, None), 8).expect("it is free");
        assert_eq!(listener.address(), &Address::Unix(path.clone()));
        let rights = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(rights & 0o777, mode);
        drop(listener);
        assert!(!path.exists());
    }
}

#[test]
fn a_dead_servers_file_is_replaced_a_living_ones_and_others_are_not() {
    let path = path("stale");
    drop(UnixListener::bind(&path).expect("it is free"));
    assert!(path.exists(), "nobody removed it");
    let living = Listener::unix(&path, (0o700, None), 8).expect("its owner is dead");
    let taken = Listener::unix(&path, (0o700, None), 8).expect_err("its owner lives");
    assert_eq!(
        taken.to_string(),
        format!("address in use: another server listens at {}", path.display())
    );
    // A server that replaced our socket file keeps it.
    std::fs::remove_file(&path).expect("it is ours");
    let other = UnixListener::bind(&path).expect("it is free");
    drop(living);
    UnixStream::connect(&path).expect("it is still there");
    drop(other);
    std::fs::remove_file(&path).expect("it is ours");
    std::fs::write(&path, "text").expect("a file");
    let refused = Listener::unix(&path, (0o700, None), 8).expect_err("no socket");
    assert!(matches!(refused, ListenError::NotASocket { .. }), "{refused}");
    std::fs::remove_file(&path).expect("it is ours");
}

#[test]
fn a_port_in_use_is_said_so() {
    let first = Listener::tcp("127.0.0.1:0".parse().expect("an address"), 8).expect("any free port");
    let Address::Tcp(addr) = *first.address() else {
        panic!("it is TCP")
    };
    assert_ne!(addr.port(), 0);
    let error = Listener::tcp(addr, 8).expect_err("it is taken");
    assert_eq!(
        error.to_string(),
        format!("address in use: another server listens at {addr}")
    );
}

#[test]
fn inherited_descriptors_are_listeners_or_refused() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("any free port");
    let addr = tcp.local_addr().expect("it is bound");
    let listener = Listener::inherited(OwnedFd::from(tcp)).expect("it listens");
    assert_eq!(listener.address(), &Address::Tcp(addr));
    let path = path("inherited");
    let unix = UnixListener::bind(&path).expect("it is free");
    let listener = Listener::inherited(OwnedFd::from(unix)).expect("it listens");
    assert_eq!(listener.address(), &Address::Unix(path.clone()));
    drop(listener);
    assert!(path.exists(), "it is somebody else's");
    std::fs::remove_file(&path).expect("it is ours");
    let (pair, _other) = UnixStream::pair().expect("a pair");
    for fd in [
        OwnedFd::from(pair),
        OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there")),
    ] {
        let error = Listener::inherited(fd).expect_err("nothing arrives there");
        assert!(matches!(error, ListenError::NotAListener), "{error}");
    }
}
