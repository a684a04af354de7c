//! Every counter of `stats`, through a socket: it moves by as much as it should, or is what the server was told.

use crate::common::memcached::Memcached;
use crate::common::{Serving, ask_memcached as ask, folder};
use drover_testkit::certificates::Authority;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

type Stats = BTreeMap<String, String>;

/// Rounds of requests after which something must have happened.
const ROUNDS_MAX: usize = 1_000_000;

fn stats_by(connection: &mut (impl Read + Write)) -> Stats {
    let text = ask(connection, "stats\r\n");
    let lines = text.lines().filter_map(|line| line.strip_prefix("STAT "));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn number(stats: &Stats, name: &str) -> i64 {
    let value = stats.get(name).unwrap_or_else(|| panic!("no {name}"));
    value
        .parse()
        .unwrap_or_else(|error| panic!("{name} {value}: {error}"))
}

/// Asks for `stats` again and again until `is_so`.
fn wait_for(connection: &mut (impl Read + Write), what: &str, is_so: impl Fn(&Stats) -> bool) -> Stats {
    for _ in 0..ROUNDS_MAX {
        let stats = stats_by(connection);
        if is_so(&stats) {
            return stats;
        }
    }
    panic!("never: {what}");
}

/// Requests, and by how much they move counters.
const MOVES: &[(&str, &[(&str, i64)])] = &[
    (
        "set a 0 0 1\r\nx\r\nset n 0 0 1\r\n5\r\n",
        &[
            ("cmd_set", 2),
            ("total_items", 2),
            ("curr_items", 2),
            ("evictions", 0),
        ],
    ),
    (
        "get a b\r\n",
        &[("cmd_get", 2), ("get_hits", 1), ("get_misses", 1)],
    ),
    (
        "touch a 0\r\ntouch b 0\r\n",
        &[("cmd_touch", 2), ("touch_hits", 1), ("touch_misses", 1)],
    ),
    (
        "incr n 1\r\nincr b 1\r\n",
        &[("incr_hits", 1), ("incr_misses", 1)],
    ),
    (
        "decr n 1\r\ndecr b 1\r\n",
        &[("decr_hits", 1), ("decr_misses", 1)],
    ),
    (
        "ms c 1 E77\r\nx\r\ncas c 0 0 1 77\r\ny\r\n",
        &[("cas_hits", 1), ("cmd_set", 2)],
    ),
    (
        "cas c 0 0 1 77\r\ny\r\ncas b 0 0 1 77\r\ny\r\n",
        &[("cas_badval", 1), ("cas_misses", 1)],
    ),
    (
        "delete a\r\ndelete b\r\n",
        &[("delete_hits", 1), ("delete_misses", 1), ("curr_items", -1)],
    ),
    ("me c\r\n", &[("cmd_meta", 1)]),
    (
        "set e 0 -1 1\r\nx\r\nget e\r\n",
        &[
            ("get_expired", 1),
            ("reclaimed", 1),
            ("expired_unfetched", 1),
            ("get_misses", 1),
        ],
    ),
    ("flush_all\r\n", &[("cmd_flush", 1)]),
];

#[test]
fn requests_move_their_counters() {
    for threads in ["1", "4"] {
        let server = Memcached::start("counters", &["-t", threads]);
        let mut connection = server.connect();
        for (requests, moves) in MOVES {
            let before = stats_by(&mut connection);
            ask(&mut connection, requests);
            let after = stats_by(&mut connection);
            for (name, by) in *moves {
                assert_eq!(
                    number(&after, name) - number(&before, name),
                    *by,
                    "{name}: {requests:?}"
                );
            }
            for name in ["bytes_read", "bytes_written"] {
                assert!(
                    number(&after, name) > number(&before, name),
                    "{name}: {requests:?}"
                );
            }
        }
        let before = stats_by(&mut connection);
        let large = "x".repeat(2 << 20);
        ask(
            &mut connection,
            &format!("set l 0 0 {}\r\n{large}\r\n", large.len()),
        );
        let after = stats_by(&mut connection);
        assert_eq!(
            number(&after, "store_too_large") - number(&before, "store_too_large"),
            1
        );
        assert_eq!(server.serving.stop(), 0);
    }
}

#[test]
fn what_the_server_is_stands_in_stats() {
    let server = Memcached::start("counters-told", &["-t", "2", "-c", "77", "-m", "64"]);
    let mut connection = server.connect();
    let stats = stats_by(&mut connection);
    for (name, value) in [
        ("threads", 2),
        ("max_connections", 77),
        ("limit_maxbytes", 64 << 20),
        ("pointer_size", 64),
        ("accepting_conns", 1),
        ("bytes", 0),
    ] {
        assert_eq!(number(&stats, name), value, "{name}");
    }
    assert!(number(&stats, "pid") > 1 && number(&stats, "time") > 1_700_000_000);
    assert!(
        stats["version"].starts_with("1.6.18-drover-"),
        "{}",
        stats["version"]
    );
    assert!(number(&stats, "hash_bytes") >= 8 << number(&stats, "hash_power_level"));
    let uptime = number(&stats, "uptime");
    let later = wait_for(&mut connection, "a second passes", |stats| {
        number(stats, "uptime") > uptime
    });
    assert!(number(&later, "time") > number(&stats, "time"));
}

#[test]
fn processor_time_grows() {
    let server = Memcached::start("counters-rusage", &[]);
    let mut connection = server.connect();
    let time = |stats: &Stats, name: &str| stats[name].parse::<f64>().expect("seconds");
    let first = stats_by(&mut connection);
    wait_for(&mut connection, "both times grow", |stats| {
        ["rusage_user", "rusage_system"]
            .iter()
            .all(|name| time(stats, name) > time(&first, name))
    });
}

/// Whether each item is read once before the next is stored makes all the difference to `evicted_unfetched`.
#[test]
fn evictions_of_items_that_were_never_read_are_counted_apart() {
    for is_read in [false, true] {
        let server = Memcached::start("counters-evicted", &["-t", "2", "-m", "4"]);
        let mut connection = server.connect();
        let value = "v".repeat(1000);
        for first in (0..20_000).step_by(500) {
            let requests = (first..first + 500).map(|key| {
                let get = if is_read {
                    format!("get k{key}\r\n")
                } else {
                    String::new()
                };
                format!("set k{key} 0 0 1000\r\n{value}\r\n{get}")
            });
            ask(&mut connection, &requests.collect::<String>());
        }
        let stats = stats_by(&mut connection);
        let (evicted, unread) = (number(&stats, "evictions"), number(&stats, "evicted_unfetched"));
        assert!(evicted > 1_000, "{evicted} evictions");
        assert_eq!(unread, if is_read { 0 } else { evicted });
        assert!(number(&stats, "bytes") > 1 << 20);
    }
}

#[test]
fn a_full_server_without_evictions_counts_what_it_refuses() {
    let server = Memcached::start("counters-full", &["-M", "-m", "4"]);
    let mut connection = server.connect();
    let value = "v".repeat(100_000);
    let sets: String = (0..100)
        .map(|key| format!("set k{key} 0 0 100000\r\n{value}\r\n"))
        .collect();
    let refused = ask(&mut connection, &sets)
        .matches("SERVER_ERROR out of memory")
        .count();
    assert!(refused > 0);
    let stats = stats_by(&mut connection);
    assert_eq!(number(&stats, "store_no_memory"), refused as i64);
}

#[test]
fn connections_are_counted() {
    let args = ["-c", "3", "-R", "1", "-o", "no_maxconns_fast"];
    let server = Memcached::start("counters-connections", &args);
    let mut connection = server.connect();
    let first = stats_by(&mut connection);
    assert_eq!(number(&first, "curr_connections"), 1);
    let others = [server.connect(), server.connect()];
    let full = wait_for(&mut connection, "all connections are taken", |stats| {
        number(stats, "curr_connections") == 3
    });
    assert_eq!(number(&full, "connection_structures"), 3);
    assert_eq!(number(&full, "accepting_conns"), 0);
    assert_eq!(
        number(&full, "total_connections") - number(&first, "total_connections"),
        2
    );
    let waiting = server.connect();
    wait_for(&mut connection, "no more are accepted", |stats| {
        number(stats, "listen_disabled_num") > 0
    });
    ask(&mut connection, &"get a\r\n".repeat(10));
    assert!(number(&stats_by(&mut connection), "conn_yields") > 0);
    drop((others, waiting));
}

/// Each look is by a new connection, because one that a slow machine keeps from asking is idle, too, and closed. Idle times are
/// whole seconds, so even a new one may be: then the next one looks.
#[test]
fn idle_connections_that_are_closed_are_counted() {
    let path = folder("idle").join("s.sock");
    let path = path.to_str().expect("text");
    let server = Serving::start("counters-idle", &["-s", path, "-o", "idle_timeout=1"]);
    let connect = || UnixStream::connect(path).expect("it listens");
    let look = || {
        let (mut connection, mut text) = (connect(), String::new());
        connection.write_all(b"stats\r\nquit\r\n").ok()?;
        connection.read_to_string(&mut text).ok()?;
        let kicks = text
            .lines()
            .find_map(|line| line.strip_prefix("STAT ")?.strip_prefix("idle_kicks"))?;
        kicks.trim().parse::<u64>().ok()
    };
    let idle = connect();
    let kicked = (0..ROUNDS_MAX).any(|_| look().is_some_and(|kicks| kicks > 0));
    assert!(kicked, "an idle connection stays");
    drop(idle);
    assert_eq!(server.stop(), 0);
}

#[test]
fn connections_beyond_the_limit_are_counted() {
    let server = Memcached::start("counters-rejected", &["-c", "1"]);
    let mut connection = server.connect();
    let before = stats_by(&mut connection);
    let _ = server.connect().read_to_end(&mut Vec::new()); // it may be reset
    let after = stats_by(&mut connection);
    let rejected = |stats| number(stats, "rejected_connections");
    assert_eq!(rejected(&after) - rejected(&before), 1);
}

#[test]
fn logins_are_counted() {
    let users = folder("users").join("users");
    std::fs::write(&users, "me:secret\n").expect("written");
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).expect("our file");
    let server = Memcached::start("counters-logins", &["-Y", users.to_str().expect("text")]);
    let mut connection = server.connect();
    ask(&mut connection, "set a 0 0 9\r\nme secret\r\n");
    let stats = stats_by(&mut connection);
    assert_eq!(
        (number(&stats, "auth_cmds"), number(&stats, "auth_errors")),
        (1, 0)
    );
    let mut stranger = server.connect();
    stranger.write_all(b"set a 0 0 8\r\nme wrong\r\n").expect("sent");
    let _ = stranger.read(&mut [0; 100]).expect("an answer");
    let stats = stats_by(&mut connection);
    assert_eq!(
        (number(&stats, "auth_cmds"), number(&stats, "auth_errors")),
        (2, 1)
    );
}

/// A watcher that reads gets every line; one that does not costs the server lines, and no more.
#[test]
fn watchers_are_counted() {
    let server = Memcached::start("counters-watchers", &[]);
    let mut connection = server.connect();
    let mut watcher = server.connect();
    watcher.write_all(b"watch mutations\r\n").expect("sent");
    let _ = watcher.read(&mut [0; 4]).expect("OK");
    assert_eq!(number(&stats_by(&mut connection), "log_watchers"), 1);
    ask(&mut connection, "set a 0 0 1\r\nx\r\n");
    let _ = watcher.read(&mut [0; 10]).expect("a line");
    let stats = stats_by(&mut connection);
    for name in ["log_worker_written", "log_watcher_sent"] {
        assert!(number(&stats, name) >= 1, "{name}");
    }
    let sets = "set a 0 0 1\r\nx\r\n".repeat(1_000);
    for _ in 0..1_000 {
        ask(&mut connection, &sets);
        if number(&stats_by(&mut connection), "log_watcher_skipped") > 0 {
            return;
        }
    }
    panic!("a watcher that reads nothing gets everything");
}

/// `ssl_new_sessions` is memcached's own suite's to test: it has a client that resumes sessions.
#[test]
fn tls_has_counters_of_its_own() {
    let folder = folder("tls");
    let identity = Authority::new(&folder).issue("server", "127.0.0.1");
    let files = format!(
        "ssl_chain_cert={},ssl_key={}",
        identity.chain.display(),
        identity.key.display()
    );
    let path = folder.join("s.sock");
    let socket = path.to_str().expect("text");
    let server = Memcached::start("counters-tls", &["-Z", "-o", &files, "-s", socket]);
    // Unix sockets have no TLS.
    let mut local = UnixStream::connect(&path).expect("it listens");
    let before = stats_by(&mut local);
    assert_eq!(number(&before, "ssl_handshake_errors"), 0);
    assert!((0..1_000).contains(&number(&before, "time_since_server_cert_refresh")));
    let mut plain = server.connect();
    plain.write_all(b"version\r\n").expect("sent");
    let _ = plain.read_to_end(&mut Vec::new()); // it may be reset
    wait_for(&mut local, "a handshake fails", |stats| {
        number(stats, "ssl_handshake_errors") == 1
    });
}

/// No counter is left out above.
#[test]
fn every_counter_is_tested() {
    let server = Memcached::start("counters-all", &[]);
    for name in stats_by(&mut server.connect()).keys() {
        let is_named = include_str!("counters.rs").contains(&format!("\"{name}\""));
        assert!(is_named, "{name} has no test");
    }
}
