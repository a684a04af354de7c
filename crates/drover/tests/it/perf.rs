//! `drover perf` as users meet it: tables, two processes, and what it says when something is not as it should be.

use crate::common::{drover, folder};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server that waits for its client; killed with the test.
struct Waiting {
    child: Child,
    addr: String,
}

impl Waiting {
    fn start(name: &str, args: &[&str]) -> Waiting {
        let addr = format!("unix:{}", folder(name).join("s.sock").display());
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["perf", "--listen", &addr])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("stdout is piped");
        BufReader::new(out).read_line(&mut line).expect("it speaks");
        assert_eq!(line, format!("waiting for a client at {addr}: shm\n"));
        Waiting { child, addr }
    }

    /// Its exit status and what it complained of.
    fn end(mut self) -> (i32, String) {
        let status = self.child.wait().expect("it ends");
        let mut error = String::new();
        let mut from = self.child.stderr.take().expect("stderr is piped");
        std::io::Read::read_to_string(&mut from, &mut error).expect("text");
        (status.code().unwrap_or(-1), error)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn perf(line: &str) -> (i32, String, String) {
    let words: Vec<&str> = std::iter::once("perf").chain(line.split_whitespace()).collect();
    drover(&words, "")
}

#[test]
fn a_table_of_simulated_figures() {
    let (status, out, error) = perf("read-lat --fabric sim:cx6 -s 16");
    assert_eq!((status, error.as_str()), (0, ""));
    let row: Vec<f64> = out
        .lines()
        .last()
        .expect("a row")
        .split_whitespace()
        .map(|number| number.parse().expect("a number"))
        .collect();
    assert_eq!((row.len(), row[0], row[1]), (9, 16.0, 1000.0), "{out}");
    assert!((1.8..2.4).contains(&row[4]), "some 2 us on that card: {out}");
    assert!(
        out.contains(" Fabric          : sim:cx6, seed 1: simulated time\n"),
        "{out}"
    );
    assert_eq!(
        perf("read-lat --fabric sim:cx6 -s 16").1,
        out,
        "the same seed, the same text"
    );
}

#[test]
fn threads_over_shared_memory_as_json() {
    let (status, out, error) = perf("send-lat -n 50 -s 8 --json");
    assert_eq!((status, error.as_str()), (0, ""));
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["settings"]["test"], "send-lat");
    assert_eq!(
        (&value["rows"][0]["bytes"], &value["rows"][0]["iterations"]),
        (&8.into(), &50.into())
    );
    assert!(value["rows"][0]["t_typical"].as_f64().expect("a number") > 0.0);
}

#[test]
fn two_processes() {
    let server = Waiting::start("two", &[]);
    let (status, out, error) = perf(&format!("write-lat -n 50 {}", server.addr));
    assert_eq!((status, error.as_str()), (0, ""), "{out}");
    assert!(
        out.lines()
            .last()
            .is_some_and(|row| row.starts_with(" 2       50 ")),
        "{out}"
    );
    assert_eq!(server.end(), (0, String::new()));
}

#[test]
fn ends_that_disagree() {
    let server = Waiting::start("disagree", &["send-lat", "-s", "64"]);
    let (status, _, error) = perf(&format!("send-lat -s 2 {}", server.addr));
    let why = "the server was started with --size 64, the client asks for --size 2; give both the same, or the server \
               none\n";
    assert_eq!(
        (status, error),
        (69, format!("drover: refused by the other end: {why}"))
    );
    assert_eq!(server.end(), (64, format!("drover: {why}")));
}

#[test]
fn a_server_that_is_killed() {
    let mut server = Waiting::start("killed", &[]);
    let mut client = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(["perf", "write-lat", "-D", "3600", &server.addr])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(client.stdout.take().expect("stdout is piped")).lines();
    let head = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("#bytes")));
    head.expect("the table begins").expect("text");
    server.child.kill().expect("ours");
    let ended = client.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(69), "{error}");
    assert!(error.starts_with("drover: the other end has gone: "), "{error}");
}

#[test]
fn what_makes_no_sense() {
    for (line, why) in [
        (
            "",
            "a test is needed, such as drover perf write-lat; --help lists them",
        ),
        (
            "read-lat -c UC",
            "read-lat over UC does not exist, only over RC (-c)",
        ),
        (
            "write-lat -s 0",
            "--size 0: this fabric takes 1 to 16777215 for write-lat",
        ),
        (
            "send-bw -c UD -s 4097",
            "--size 4097: this fabric takes 1 to 4096 for send-bw",
        ),
        (
            "write-lat --fabric udp",
            "--fabric udp: expected shm, sim, sim:PROFILE or rdma",
        ),
    ] {
        assert_eq!(
            perf(line),
            (64, String::new(), format!("drover: {why}\n")),
            "{line}"
        );
    }
    let (status, _, error) = perf("write-latency");
    assert_eq!(status, 64);
    assert!(
        error.contains("unknown test write-latency; known tests: send-lat, write-lat,"),
        "{error}"
    );
}

#[test]
fn nobody_there() {
    let (status, out, error) = perf("write-lat unix:/nowhere/s.sock");
    assert_eq!((status, out.as_str()), (69, ""));
    assert!(
        error.starts_with("drover: no server at unix:/nowhere/s.sock: "),
        "{error}"
    );
}

#[test]
fn doorbells_of_one_thread_and_of_several() {
    let (status, out, error) = perf("--doorbells 4 --fabric sim:cx6 --json");
    assert_eq!((status, error.as_str()), (0, ""));
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let threads: Vec<u64> = (0..2)
        .filter_map(|n| json["doorbells"][n]["threads"].as_u64())
        .collect();
    assert_eq!(threads, [1, 4], "{out}");
    let ratio = json["ratio"].as_f64().expect("a number");
    assert!(ratio > 2.0, "each thread has a register of its own: {out}");
    assert_eq!(json["doorbells"][1]["source"], "exact", "{out}");
    let (status, out, error) = perf("--doorbells 2");
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(out.contains("2 threads ring "), "{out}");
    let (status, _, error) = perf("write-lat --doorbells 2");
    assert_eq!(status, 64, "{error}");
}
