//! The log as an operator reads it: clients by name, address and reason; more with `-v` and `-vv`; never a value as Rust shows it
//! to programmers.

use crate::common::Serving;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Systems whose servers are built differently: one control thread for all clients, and one for each shard.
const SYSTEMS: [&str; 2] = ["herd", "pilaf"];

/// The log of a server with these options, which a client has used.
fn log_of(name: &str, args: &[&str]) -> String {
    let server = Serving::start(name, args);
    assert_eq!(server.ask(&["set", "key", "value"]).0, 0);
    let (begin, (status, rest)) = (server.said.clone(), server.stop_with_log());
    assert_eq!(status, 0, "{rest}");
    begin + &rest
}

fn count(log: &str, words: &str) -> usize {
    log.lines().filter(|line| line.contains(words)).count()
}

fn reads_well(log: &str) {
    for sign in ["Some(", "None", "ConnId", "{ "] {
        assert!(!log.contains(sign), "{sign}: {log}");
    }
}

#[test]
fn each_v_adds_what_the_manual_says() {
    for system in SYSTEMS {
        let log = |flags: &[&str]| log_of("logs-v", &[&["--system", system], flags].concat());
        let (plain, clients, messages) = (log(&[]), log(&["-v"]), log(&["-vv"]));
        assert_eq!(count(&plain, "client "), 0, "{plain}");
        for log in [&clients, &messages] {
            assert_eq!(count(log, " is served"), 1, "{log}");
            assert!(count(log, "has left: ") >= 1, "{log}");
            let served = log
                .lines()
                .find(|line| line.contains(" is served"))
                .expect("counted");
            assert!(
                served.contains("client ") && served.contains(", at shm:"),
                "{served}"
            );
        }
        assert_eq!(count(&clients, "message of kind"), 0, "{clients}");
        assert!(count(&messages, "message of kind") > 1, "{messages}");
        [plain, clients, messages].iter().for_each(|log| reads_well(log));
    }
}

#[test]
fn a_native_client_that_breaks_the_protocol_is_named() {
    for system in SYSTEMS {
        let server = Serving::start("logs-native", &["--system", system]);
        let path = server.addr.strip_prefix("shm:").expect("a path").to_owned();
        let mut stranger = UnixStream::connect(path).expect("the server listens");
        stranger.write_all(&[0xff; 64]).expect("sent");
        let _ = stranger.read_to_end(&mut Vec::new()); // until the server closes it
        let at = server.addr.clone();
        let (status, log) = server.stop_with_log();
        assert_eq!(status, 0);
        let named = format!(
            "pid {} (uid {})",
            std::process::id(),
            rustix::process::getuid().as_raw()
        );
        let told = format!("{named}, at {at} dropped: ");
        assert_eq!(count(&log, &told), 1, "{told}: {log}");
        reads_well(&log);
    }
}

#[test]
fn connections_of_memcached_clients_come_and_go() {
    let server = Serving::start("logs-memcached", &["-v", "-p", "-1"]);
    let port = server.memcached_port();
    let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the port answers");
    let own = client.local_addr().expect("an address");
    client.write_all(b"version\r\nquit\r\n").expect("sent");
    client.read_to_end(&mut Vec::new()).expect("an answer");
    let (_, log) = server.stop_with_log();
    for what in ["is open, at worker 0", "is closed"] {
        let told = format!("connection 1 of {own} at 127.0.0.1:{port} {what}");
        assert_eq!(count(&log, &told), 1, "{told}: {log}");
    }
}

#[test]
fn a_binary_protocol_is_named_as_such() {
    let server = Serving::start("logs-binary", &["-p", "-1"]);
    let mut client = std::net::TcpStream::connect(("127.0.0.1", server.memcached_port())).expect("a port");
    let mut header = [0; 24];
    (header[0], header[1]) = (0x80, 0x0b);
    client.write_all(&header).expect("sent");
    client.read_to_end(&mut Vec::new()).expect("an answer");
    let (_, log) = server.stop_with_log();
    assert_eq!(
        count(&log, "closed: it speaks memcached's binary protocol"),
        1,
        "{log}"
    );
}
