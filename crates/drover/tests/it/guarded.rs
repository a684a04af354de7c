//! With a file of users every listener of every system refuses strangers, and the secret shows up nowhere.

use crate::common::{Answer, Serving, ask_memcached, drover, folder};
use crate::pool::MemoryNode;
use drover_client::{Client, Connected, Credentials, Options};
use drover_systems::System;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const SECRET: &str = "open-sesame-97";
const WHO: &str = "this server lets in the users of a file only: --auth-file FILE, or the environment's \
                   DROVER_AUTH=user:password";

/// Writes a file that nobody else may read.
pub fn private(path: &Path, text: &str) -> String {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("ours");
    path.to_str().expect("UTF-8").to_owned()
}

/// A file of users, one of a client, one of a client with a wrong password.
struct Files {
    users: String,
    mine: String,
    wrong: String,
}

fn files(name: &str) -> Files {
    let folder = folder(name);
    Files {
        users: private(&folder.join("users"), &format!("other:nothing\nme:{SECRET}\n")),
        mine: private(&folder.join("mine"), &format!("me:{SECRET}\n")),
        wrong: private(&folder.join("wrong"), "me:open-barley\n"),
    }
}

/// What `drover` says with the environment's `DROVER_AUTH`.
fn with_variable(value: &str, args: &[&str]) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    let out = command.args(args).env("DROVER_AUTH", value).output();
    let out = out.expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        out.status.code().unwrap_or(-1),
        text(&out.stdout),
        text(&out.stderr),
    )
}

/// Asks as a stranger, with a wrong password, and as a user; returns what the user gets.
fn only_users_get(files: &Files, words: &[&str], failed: i32) -> String {
    let (status, text, error) = drover(words, "");
    assert_eq!((status, text.as_str()), (failed, ""), "{words:?}: {error}");
    let (status, _, error) = drover(&[words, &["--auth-file", &files.wrong]].concat(), "");
    assert_eq!(status, failed, "{words:?}: {error}");
    assert!(!error.contains("open-barley"), "{error}");
    let (status, text, error) = drover(&[words, &["--auth-file", &files.mine]].concat(), "");
    assert_eq!((status, error.as_str()), (0, ""), "{words:?}");
    text
}

pub fn told(server: &Serving, before: &str) -> String {
    let rest = server
        .said
        .split(before)
        .nth(1)
        .unwrap_or_else(|| panic!("{}", server.said));
    let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit() && c != ':');
    rest[..end.unwrap_or(rest.len())].to_owned()
}

fn http(addr: &str, path: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(addr).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n").expect("space");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

fn guarded(system: System) {
    let name = system.facts().name;
    let files = files(name);
    let server = Serving::start(
        name,
        &[
            "--system",
            name,
            "-m",
            "64",
            "-Y",
            &files.users,
            "--control-listen",
            "tcp://127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
            if system.facts().offers.memcached {
                "-p"
            } else {
                "-v"
            },
            if system.facts().offers.memcached {
                "-1"
            } else {
                "-v"
            },
        ],
    );
    // Native clients over shared memory.
    let at = ["--server", &server.addr];
    let (_, _, error) = drover(&[&["get", "k"], &at[..]].concat(), "");
    assert!(error.contains(WHO), "{name}: {error}");
    only_users_get(&files, &[&["set", "k", "v"], &at[..]].concat(), 2);
    assert_eq!(only_users_get(&files, &[&["get", "k"], &at[..]].concat(), 2), "v");
    let of_variable = with_variable(&format!("me:{SECRET}"), &[&["get", "k"], &at[..]].concat());
    assert_eq!(of_variable, (0, "v".into(), String::new()));
    // The library.
    let connect = |password: &str| {
        let credentials = Credentials::new(b"me", password.as_bytes()).expect("credentials");
        let options = Options {
            credentials: Some(Arc::new(credentials)),
            ..Options::default()
        };
        Connected::to(&server.addr, &options).map(Client::from)
    };
    assert_eq!(
        connect(SECRET).expect("a user").get(b"k").expect("an answer"),
        Some(b"v".to_vec())
    );
    let error = connect("else").map(drop).expect_err("a stranger").to_string();
    assert!(error.contains("wrong user or password"), "{error}");
    // The statistics, over TCP.
    let control = format!("tcp://{}", told(&server, "tcp://"));
    let mut texts = only_users_get(&files, &["stats", "--server", &control], 2);
    // The admin port.
    let admin = told(&server, "http://");
    let (stranger, health) = (http(&admin, "/metrics", ""), http(&admin, "/healthz", ""));
    assert!(
        stranger.starts_with("HTTP/1.1 401 ") && stranger.contains("WWW-Authenticate: Basic"),
        "{stranger}"
    );
    assert!(!stranger.contains("drover_up"), "{stranger}");
    assert!(health.ends_with("ok\n"), "{health}");
    let wrong = http(
        &admin,
        "/metrics",
        "Authorization: Basic bWU6b3Blbi1iYXJsZXk=\r\n",
    );
    assert!(wrong.starts_with("HTTP/1.1 401 "), "{wrong}");
    only_users_get(&files, &["top", "--once", &admin], 69);
    // memcached's sockets.
    if system.facts().offers.memcached {
        let mut stream = TcpStream::connect(("127.0.0.1", server.memcached_port())).expect("it listens");
        stream.write_all(b"get k\r\n").expect("space");
        let mut refused = String::new();
        BufReader::new(stream).read_line(&mut refused).expect("a line");
        assert_eq!(refused, "CLIENT_ERROR unauthenticated\r\n");
    }
    // It is counted: two wrong files of passwords for each of three commands, the library's, and one at the admin port
    // besides `top`.
    let metrics = http(&admin, "/metrics", &format!("Authorization: {}\r\n", basic()));
    for line in [
        "drover_auth_failures_total{listener=\"native\"} 4",
        "drover_auth_failures_total{listener=\"admin\"} 2",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{name}: {line}\n{metrics}"
        );
    }
    // The secret shows up nowhere.
    let process = |what: &str| {
        let path = format!("/proc/{}/{what}", server.pid().as_raw_nonzero());
        String::from_utf8_lossy(&std::fs::read(path).expect("our child")).into_owned()
    };
    texts += &process("cmdline");
    texts += &process("environ");
    texts += &metrics;
    texts += &server.said;
    texts += &drover(&["config", "-Y", &files.users], "").1;
    let (status, log) = server.stop_with_log();
    assert_eq!(status, 0);
    texts += &log;
    assert!(!texts.contains(SECRET), "{texts}");
}

fn basic() -> String {
    // me:open-sesame-97
    "Basic bWU6b3Blbi1zZXNhbWUtOTc=".to_owned()
}

#[test]
fn with_a_file_of_users_every_listener_refuses_strangers() {
    for system in System::ALL {
        if system.facts().offers.service {
            guarded(*system);
        }
    }
}

#[test]
fn a_gateway_and_a_pool_prove_who_they_are() {
    let files = files("gateway");
    let server = Serving::start("gateway", &["--system", "pilaf", "-m", "64", "-Y", &files.users]);
    let refused = drover(&["serve", "--connect", &server.addr, "-p", "-1"], "");
    assert!(refused.0 == 69 && refused.2.contains(WHO), "{refused:?}");
    let gateway = Serving::gateway(&server.addr, &["--connect-auth-file", &files.mine]);
    let mut stream = TcpStream::connect(("127.0.0.1", gateway.memcached_port())).expect("it listens");
    assert_eq!(ask_memcached(&mut stream, "set k 0 0 1\r\nv\r\n"), "STORED\r\n");
    let got = drover(
        &["get", "k", "--server", &server.addr, "--auth-file", &files.mine],
        "",
    );
    assert_eq!(got, (0, "v".into(), String::new()));

    let node = MemoryNode::start("guarded", &["-Y", &files.users]);
    let nodes = ["pool", "status", "--nodes", &node.addr];
    for (user, code) in [
        (&[][..], 69),
        (&["--auth-file", &files.wrong], 69),
        (&["--auth-file", &files.mine], 0),
    ] {
        let (status, _, error) = drover(&[&nodes[..], user].concat(), "");
        assert_eq!(status, code, "{user:?}: {error}");
        assert_eq!(error.contains("requires another secret"), code != 0, "{error}");
    }
}

#[test]
fn a_client_does_not_talk_to_a_server_that_cannot_prove_itself() {
    let server = Serving::start("unguarded", &[]);
    let refused = with_variable("me:open-sesame", &["get", "k", "--server", &server.addr]);
    assert_eq!(refused.0, 2);
    assert!(
        refused.2.contains("this server has no file of users (-Y)"),
        "{}",
        refused.2
    );
    for (value, why) in [("me", "expected user:password"), ("me:", "the password is empty")] {
        let refused = with_variable(value, &["get", "k", "--server", &server.addr]);
        assert_eq!(
            refused,
            (2, String::new(), format!("drover: DROVER_AUTH: {why}\n"))
        );
    }
}

#[test]
fn files_that_others_may_read_are_refused() {
    let folder = folder("open");
    let path = private(&folder.join("users"), "me:sesame\n");
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("ours");
    let fabric = format!("shm:{}", folder.join("s.sock").display());
    let why = "others may read it or write to it (mode 644): chmod 600, or 640 for a group that may";
    let (status, _, error) = drover(&["serve", "--fabric", &fabric, "-p", "0", "-Y", &path], "");
    assert_eq!(status, 66);
    assert!(error.ends_with(&format!("drover: -Y {path}: {why}\n")), "{error}");
    let (status, _, error) = drover(&["get", "k", "--server", &fabric, "--auth-file", &path], "");
    assert_eq!(
        (status, error),
        (2, format!("drover: --auth-file {path}: {why}\n"))
    );
}

#[test]
fn listeners_beyond_this_machine_need_a_guard() {
    let fabric = format!("shm:{}", folder("beyond").join("s.sock").display());
    let shared = "other machines reach this address, and nothing keeps strangers out: -Y FILE";
    let (plain, tls) = (
        format!("{shared}; or --insecure, if the network does"),
        format!("{shared} or -Z; or --insecure, if the network does"),
    );
    for (words, why) in [
        (
            &["serve", "--fabric", &fabric, "-p", "-1", "-l", "0.0.0.0"][..],
            format!("-l 0.0.0.0:0: {tls}"),
        ),
        (
            &[
                "serve",
                "--fabric",
                &fabric,
                "-p",
                "0",
                "--control-listen",
                "tcp://0.0.0.0:0",
            ],
            format!("--control-listen tcp://0.0.0.0:0: {tls}"),
        ),
        (
            &[
                "serve",
                "--fabric",
                &fabric,
                "-p",
                "0",
                "--metrics-listen",
                "0.0.0.0:0",
            ],
            format!("--metrics-listen 0.0.0.0:0: {plain}"),
        ),
        (
            &["serve", "--system", "pilaf", "--fabric", "rdma://0.0.0.0:1"],
            format!("--fabric rdma://0.0.0.0:1: {tls}"),
        ),
        (
            &["memory-node", "--bind", "rdma://[::]:1"],
            format!("--bind rdma://[::]:1: {tls}"),
        ),
        (
            &["memory-node", "--bind", &fabric, "--metrics-listen", "0.0.0.0:0"],
            format!("--metrics-listen 0.0.0.0:0: {plain}"),
        ),
    ] {
        let (status, _, error) = drover(words, "");
        assert_eq!(
            (status, error.lines().last()),
            (64, Some(&*format!("drover: {why}"))),
            "{words:?}"
        );
    }
    let beyond = ["-p", "-1", "-l", "0.0.0.0", "--control-listen", "tcp://0.0.0.0:0"];
    drop(Serving::start(
        "insecure",
        &[&beyond[..], &["--insecure"]].concat(),
    ));
    drop(Serving::start(
        "users",
        &[&beyond[..], &["-Y", &files("beyond-users").users]].concat(),
    ));
}
