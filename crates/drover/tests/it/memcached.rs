//! `drover serve` answers memcached clients, from the same items that native clients see.

use crate::common::memcached::{Memcached, PATIENCE};
use crate::common::{Serving, ask_memcached as ask, drover, folder};
use drover_client::Client;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

#[test]
fn both_kinds_of_clients_see_the_same_items() {
    for threads in ["1", "3"] {
        let server = Memcached::start("mc-same", &["-t", threads]);
        for i in 0..20 {
            let (theirs, ours) = (format!("theirs{i}"), format!("ours{i}"));
            assert_eq!(
                server.ask(&format!("set {theirs} 7 0 5\r\nhello\r\n")),
                "STORED\r\n"
            );
            assert_eq!(
                server.serving.ask(&["get", &theirs]),
                (0, "hello".into(), String::new())
            );
            assert_eq!(server.serving.ask(&["set", &ours, "world"]).0, 0);
            assert_eq!(
                server.ask(&format!("get {ours} {theirs}\r\n")),
                format!("VALUE {ours} 0 5\r\nworld\r\nVALUE {theirs} 7 5\r\nhello\r\nEND\r\n")
            );
        }
        assert_eq!(server.serving.stop(), 0);
    }
}

/// A core that serves no memcached client publishes by itself what native clients change.
#[test]
fn stats_count_what_native_clients_do_on_every_core() {
    let server = Memcached::start("mc-native-counts", &["-t", "4"]);
    let mut stream = server.connect();
    let mut client = Client::connect(&server.serving.addr).expect("a server");
    let mut wait_for = |want: &str| {
        let mut stats = String::new();
        let is_there = (0..1_000_000).any(|_| {
            stats = ask(&mut stream, "stats\r\n");
            stats.contains(want)
        });
        assert!(is_there, "no {want:?} in {stats}");
    };
    for number in 0..400 {
        client
            .set(format!("key{number}").as_bytes(), b"value")
            .expect("stored");
    }
    wait_for("STAT curr_items 400\r\n");
    for number in 0..300 {
        client
            .delete(format!("key{number}").as_bytes())
            .expect("an answer");
    }
    wait_for("STAT curr_items 100\r\n");
    assert_eq!(server.serving.stop(), 0);
}

#[test]
fn a_pipeline_over_several_cores_is_answered_in_order() {
    let server = Memcached::start("mc-pipeline", &["-t", "3"]);
    let mut stream = server.connect();
    let (mut request, mut expected) = (String::new(), String::new());
    for i in 0..500 {
        request += &format!("set k{i} {i} 0 3\r\nabc\r\nget k{i} nothing\r\nmg k{i} v\r\n");
        expected += &format!("STORED\r\nVALUE k{i} {i} 3\r\nabc\r\nEND\r\nVA 3\r\nabc\r\n");
    }
    let answer = ask(&mut stream, &request);
    assert!(answer == expected, "{}", answer.len());
}

#[test]
fn a_watcher_hears_of_every_core() {
    let server = Memcached::start("mc-watch", &["-t", "3"]);
    let mut watcher = server.connect();
    watcher
        .write_all(b"watch mutations connevents\r\n")
        .expect("space");
    let mut lines = BufReader::new(watcher)
        .lines()
        .map(|line| line.expect("a line in time"));
    assert_eq!(lines.next().as_deref(), Some("OK"));
    let mut client = server.connect();
    let request: String = (0..40).map(|i| format!("set k{i} 0 0 1\r\nx\r\n")).collect();
    ask(&mut client, &request);
    drop(client);
    // The keys live on three cores, whose lines come in any order; all name the connection.
    let (mut stored, mut came, mut went) = (BTreeSet::new(), false, false);
    while stored.len() < 40 || !came || !went {
        let line = lines.next().expect("more to come");
        let (_, event) = line.split_once(" type=").expect("an event");
        came |= event.starts_with("conn_new rip=127.0.0.1 ");
        went |= event.starts_with("conn_close rip=127.0.0.1 ") && event.contains(" reason=normal ");
        if let Some(key) = event.strip_prefix("item_store key=") {
            assert!(
                key.contains(" status=stored cmd=set ttl=0 clsid=1 cfd=2 size=1"),
                "{line}"
            );
            stored.insert(key.split(' ').next().map(str::to_owned));
        }
    }
}

#[test]
fn settings_show_the_port_that_was_asked_for_and_the_last_flush() {
    let server = Memcached::start("mc-settings", &["-t", "2"]);
    let setting = |name: &str| {
        let text = server.ask("stats settings\r\n");
        let before = format!("STAT {name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(before.as_str()));
        value.expect(name).parse::<i64>().expect("a number")
    };
    assert_eq!((setting("tcpport"), setting("oldest")), (-1, 0));
    assert_eq!(setting("watcher_logbuf_size"), 256 << 10);
    assert_eq!(server.ask("flush_all\r\n"), "OK\r\n");
    assert!((1..1_000).contains(&setting("oldest")));
    assert_eq!(server.ask("flush_all 10000\r\n"), "OK\r\n");
    assert!((10_000..11_000).contains(&setting("oldest")));
}

#[test]
fn values_beyond_a_mebibyte_are_there_for_both_kinds_of_clients() {
    let server = Memcached::start("mc-large", &["-t", "2", "-m", "64", "-I", "8m"]);
    let value = "0123456789abcdef".repeat(400_000);
    for key in ["a", "b", "c", "d"] {
        let request = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(server.ask(&request), "STORED\r\n");
        let answer = server.ask(&format!("get {key}\r\n"));
        assert!(answer == format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()));
        let (status, out, error) = server.serving.ask(&["get", key]);
        assert!((status, out.trim_end()) == (0, value.as_str()), "{error}");
    }
}

#[test]
fn connections_are_shared_out_and_all_are_served() {
    let server = Memcached::start("mc-many", &["-t", "3"]);
    let mut streams: Vec<_> = (0..60).map(|_| server.connect()).collect();
    for (i, stream) in streams.iter_mut().enumerate() {
        assert_eq!(ask(stream, &format!("set k{i} 0 0 1\r\nx\r\n")), "STORED\r\n");
    }
    let stats = server.ask("stats\r\n");
    assert!(stats.contains("STAT curr_connections 6"), "{stats}");
    let conns = ask(&mut streams[0], "stats conns\r\n");
    // The one that asked for `stats` may not be quite gone.
    assert!(conns.matches(":addr tcp:127.0.0.1:").count() >= 60, "{conns}");
    assert!(conns.matches(":secs_since_last_cmd ").count() >= 60, "{conns}");
}

#[test]
fn a_unix_socket_has_the_rights_that_were_asked_for_and_goes_with_the_server() {
    let path = folder("mc-unix").join("s");
    let text = path.to_str().expect("UTF-8");
    let server = Serving::start("mc-unix", &["-s", text, "-a", "0760"]);
    let rights = std::fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(rights & 0o777, 0o760);
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    assert_eq!(ask(&mut stream, "set a 0 0 1\r\nx\r\n"), "STORED\r\n");
    // A second server finds a living one there, and takes the place of a dead one.
    let (status, _, error) = drover(&["serve", "--fabric", "shm:mc-unix-2", "-s", text], "");
    assert_eq!((status, error.contains("address in use")), (69, true), "{error}");
    server.kill();
    assert!(path.exists());
    let server = Serving::start("mc-unix", &["-s", text]);
    assert_eq!(server.stop(), 0);
    assert!(!path.exists());
}

#[test]
fn an_address_in_use_is_said_so() {
    let server = Memcached::start("mc-taken", &[]);
    let port = server.port.to_string();
    let (status, _, error) = drover(&["serve", "--fabric", "shm:mc-taken-2", "-p", &port], "");
    assert_eq!(status, 69);
    assert!(
        error.contains(&format!(
            "address in use: another server listens at 127.0.0.1:{port}"
        )),
        "{error}"
    );
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = Memcached::start("mc-limit", &["-c", "2"]);
    let mut streams = [server.connect(), server.connect()];
    for stream in &mut streams {
        assert_eq!(ask(stream, ""), "");
    }
    let mut text = String::new();
    server.connect().read_to_string(&mut text).expect("it is closed");
    assert_eq!(text, "ERROR Too many open connections\r\n");
    let stats = ask(&mut streams[0], "stats\r\n");
    assert!(stats.contains("STAT rejected_connections 1\r\n"), "{stats}");
    drop(streams);
}

#[test]
fn the_port_that_was_taken_is_written_down() {
    let path = folder("mc-port").join("ports");
    let server = {
        let command = std::process::Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["serve", "--fabric", "shm:mc-port", "-t", "1", "-p", "-1", "-A"])
            .env("MEMCACHED_PORT_FILENAME", &path)
            .stderr(std::process::Stdio::null())
            .spawn();
        command.expect("the binary starts")
    };
    let mut server = Child(server);
    let started = drover_mem::timestamp();
    let port = loop {
        if let Ok(text) = std::fs::read_to_string(&path) {
            let port = text.strip_prefix("TCP INET: ").expect("memcached's words");
            break port.trim().parse::<u16>().expect("a number");
        }
        assert!(
            server.0.try_wait().expect("our child").is_none(),
            "it ended early"
        );
        assert!(drover_mem::timestamp() - started < 1 << 40, "no port is written");
        std::thread::yield_now();
    };
    let mut stream = loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            break stream;
        }
    };
    stream.write_all(b"shutdown\r\n").expect("space");
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
}

/// Ends with the test.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The log says whose connections were refused or closed and why, and of a mass of them only so many lines.
#[test]
fn the_log_names_clients_that_were_refused_or_closed() {
    let users = folder("mc-told").join("users");
    std::fs::write(&users, "me:secret\n").expect("written");
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).expect("our file");
    let users = users.to_str().expect("text");
    let server = Memcached::start("mc-told", &["-c", "2", "-Y", users]);
    let mut guest = server.connect();
    let mut reply = String::new();
    guest.write_all(b"set a 0 0 8\r\nme wrong\r\n").expect("sent");
    BufReader::new(&guest).read_line(&mut reply).expect("a line");
    assert_eq!(reply, "CLIENT_ERROR authentication failure\r\n");
    let mut second = server.connect();
    assert_eq!(ask(&mut second, "set a 0 0 9\r\nme secret\r\n"), "STORED\r\n");
    let refused = 60;
    for _ in 0..refused {
        let mut text = String::new();
        let _ = server.connect().read_to_string(&mut text); // it may be reset
    }
    second.write_all(&[b'x'; 1 << 16]).expect("sent");
    let _ = second.read_to_end(&mut Vec::new());
    let own = second.local_addr().expect("an address");
    let stranger = guest.local_addr().expect("an address");
    let at = guest.peer_addr().expect("an address");
    let (status, log) = server.serving.stop_with_log();
    assert_eq!(status, 0);
    let lines = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(
        lines(&format!(
            "of {stranger} at {at}: login refused: wrong user or password"
        )),
        1,
        "{log}"
    );
    let listed = lines("refused: as many are open as may be");
    assert!((1..refused).contains(&listed), "{listed} lines: {log}");
    let closed = format!("of {own} at {at} closed: ");
    assert_eq!(lines(&closed), 1, "{log}");
    assert!(!log.contains("Some("), "{log}");
}
