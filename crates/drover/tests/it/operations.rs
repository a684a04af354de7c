//! A server as its operators meet it: the admin port, `drover top`, the service manager, files.

use crate::common::{Serving, drover, folder};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

fn shm(name: &str) -> String {
    format!("shm:{}", folder(name).join("s.sock").display())
}

/// The admin port that a server took, from its log.
fn admin_of(server: &Serving) -> String {
    let at = server
        .said
        .split("metrics: http://")
        .nth(1)
        .expect("the log says where");
    at.split('/').next().expect("an address").to_string()
}

#[test]
fn top_shows_what_clients_did() {
    let server = Serving::start("top", &["--metrics-listen", "127.0.0.1:0", "-t", "2"]);
    let addr = admin_of(&server);
    assert_eq!(server.ask(&["set", "a", "1"]).0, 0);
    assert_eq!(server.ask(&["get", "a"]).0, 0);
    assert_eq!(server.ask(&["get", "b"]).0, 1);
    let (status, text, error) = drover(&["top", &addr, "--once"], "");
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(text.contains("hit rate 50.0 %"), "{text}");
    assert!(text.contains("\nitems        1 in "), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.contains(" %  ")).count(),
        2,
        "a line per worker: {text}"
    );
    assert!(!text.contains('\x1b'), "no terminal, no escapes: {text}");
    assert_eq!(server.stop(), 0);
    let (status, _, error) = drover(&["top", &addr, "--once"], "");
    assert_eq!(status, 69, "{error}");
    assert!(error.starts_with(&format!("drover: {addr}: ")), "{error}");
}

#[test]
fn an_admin_port_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("its number").to_string();
    let (status, _, error) = drover(
        &[
            "serve",
            "-p",
            "0",
            "--fabric",
            &shm("port-in-use"),
            "--metrics-listen",
            &addr,
        ],
        "",
    );
    let last = error.lines().last().unwrap_or_default();
    assert_eq!(status, 69, "{error}");
    assert!(
        last.starts_with(&format!("drover: --metrics-listen {addr}: ")),
        "{last}"
    );
}

#[test]
fn the_service_manager_is_told() {
    let name = format!("drover-manager-{}", std::process::id());
    let manager =
        UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("it is new");
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket");
    let hear = || {
        let mut bytes = [0; 512];
        let len = manager.recv(&mut bytes).expect("a message in time");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let addr = shm("manager");
    let envs = [
        ("NOTIFY_SOCKET", format!("@{name}")),
        ("WATCHDOG_USEC", "40000".to_string()),
    ];
    let envs = envs.each_ref().map(|(name, value)| (*name, value.as_str()));
    let server = Serving::start_with(&addr, &[], &envs);
    // The watchdog's thread runs beside the one that says READY.
    let mut first: Vec<String> = (0..4).map(|_| hear()).collect();
    first.sort();
    first.dedup();
    assert_eq!(
        first,
        [
            format!("READY=1\nSTATUS=serving at {addr}"),
            "WATCHDOG=1".to_string()
        ]
    );
    assert_eq!(server.stop(), 0);
    let end = (0..100_000).map(|_| hear()).find(|text| text != "WATCHDOG=1");
    assert_eq!(end.as_deref(), Some("STOPPING=1"));
}

#[test]
fn the_number_of_the_process_stands_in_a_file_while_it_lives() {
    let file = folder("pid").join("drover.pid");
    let server = Serving::start("pid", &["-P", file.to_str().expect("UTF-8")]);
    let text = std::fs::read_to_string(&file).expect("it is there");
    assert!(text.trim().parse::<u32>().is_ok(), "{text}");
    assert_eq!(server.stop(), 0);
    assert!(!file.exists());
}

/// A folder for pid files is usually root's: the file is written while the process still has root's rights.
#[test]
fn the_number_is_written_before_the_rights_go() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let folder = folder("pid-of-user");
    let (file, socket) = (folder.join("roots").join("drover.pid"), folder.join("s.sock"));
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("created");
    std::fs::set_permissions(file.parent().expect("a folder"), private).expect("our folder");
    let fabric = format!("shm:{}", socket.display());
    let server = Serving::start_at(&fabric, &["-u", "nobody", "-P", file.to_str().expect("UTF-8")]);
    let pid = std::fs::read_to_string(&file).expect("it is there");
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).expect("it lives");
    let uid = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .expect("a line");
    assert!(!uid.split_whitespace().any(|word| word == "0"), "{uid}");
    let (status, log) = server.stop_with_log();
    assert_eq!(status, 0, "{log}");
    assert!(log.contains("the next start overwrites it"), "{log}");
}

#[test]
fn a_user_that_is_not_there() {
    let (status, _, error) = drover(
        &[
            "serve",
            "-p",
            "0",
            "--fabric",
            &shm("user"),
            "-u",
            "nobody-of-that-name",
        ],
        "",
    );
    assert_eq!(status, 67, "{error}");
    assert!(
        error.contains("drover: -u nobody-of-that-name: not in /etc/passwd: create the user"),
        "{error}"
    );
}
