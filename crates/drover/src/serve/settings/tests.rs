//! Tests of settings.

use super::file::{FileArgs, parse_file};
use super::*;
use clap::Parser;
use drover_kv::ResultTransfer;
use std::path::Path;

fn typed(words: &[&str]) -> Args {
    FileArgs::try_parse_from(words)
        .unwrap_or_else(|error| panic!("{error}"))
        .args
}

fn settings(words: &[&str]) -> Result<Settings, String> {
    fill(typed(words), Args::default(), &[0, 1, 2, 3]).map_err(|failure| failure.text)
}

#[test]
fn memcached_letters() {
    let got = settings(&[
        "-p", "7", "-m", "100", "-t", "3", "-I", "512k", "-M", "-c", "9", "-s", "/run/x",
    ])
    .unwrap();
    assert_eq!(
        (
            got.sockets.port.value,
            got.capacity.memory_mib.value,
            got.capacity.threads.value
        ),
        (7, 100, 3)
    );
    assert_eq!(
        (
            got.capacity.max_item_bytes.value,
            got.capacity.disable_evictions.value,
            got.capacity.conn_limit.value
        ),
        (512 << 10, true, 9)
    );
    assert_eq!(
        got.sockets.unix_socket.value.as_deref(),
        Some(Path::new("/run/x"))
    );
    assert_eq!(got.sockets.port.origin, Origin::CommandLine);
}

#[test]
fn the_command_line_beats_the_file_beats_the_default() {
    let file = parse_file("memory-limit = 512 # plenty\n\n# nothing\nthreads=2\ndisable-evictions = true\n")
        .unwrap();
    let got = fill(typed(&["-m", "100"]), file, &[0, 1, 2, 3]).unwrap();
    assert_eq!(
        got.capacity.memory_mib,
        Setting {
            value: 100,
            origin: Origin::CommandLine
        }
    );
    assert_eq!(
        got.capacity.threads,
        Setting {
            value: 2,
            origin: Origin::File
        }
    );
    assert!(got.capacity.disable_evictions.value);
    assert_eq!(got.workers.window_max.origin, Origin::Default);
}

#[test]
fn listening_at_an_rdma_address_is_the_fabric_and_options_choose_its_device() {
    let got = settings(&["-l", "rdma://10.0.0.1:7471", "--ib-dev", "mlx5_0"]).unwrap();
    assert_eq!(got.service.fabric.value, "rdma://10.0.0.1:7471?device=mlx5_0");
    assert_eq!(got.service.fabric.origin, Origin::CommandLine);
    assert_eq!(
        got.sockets.listen.value,
        ["127.0.0.1"],
        "-p listens where it does without"
    );
    let file = parse_file("listen = rdma://10.0.0.1:7471\ngid-index = 3\n").unwrap();
    let got = fill(typed(&["--ib-dev", "mlx5_0"]), file, &[0]).unwrap();
    assert_eq!(
        got.service.fabric.value,
        "rdma://10.0.0.1:7471?device=mlx5_0&gid=3"
    );
    assert_eq!(
        settings(&["-l", "rdma://h:1", "--fabric", "shm:x"]).unwrap_err(),
        "--listen rdma://h:1 and --fabric shm:x: a server has one fabric"
    );
    assert_eq!(
        settings(&["--ib-dev", "mlx5_0"]).unwrap_err(),
        "--ib-dev, --ib-port and --gid-index choose an RDMA device, and shm:drover needs none"
    );
}

#[test]
fn an_unknown_or_bad_line_of_the_file_is_named() {
    assert_eq!(
        parse_file("threads = 2\nthreds = 3\n").unwrap_err(),
        "line 2: unexpected argument '--threds' found"
    );
    assert_eq!(
        parse_file("threads").unwrap_err(),
        "line 1: expected `name = value`"
    );
    let bad = parse_file("threads = many").unwrap_err();
    assert!(bad.starts_with("line 1: invalid value 'many'"), "{bad}");
}

#[test]
fn values_out_of_range_are_refused() {
    for (words, text) in [
        (["-t", "0"], "--threads 0: from 1 to 240"),
        (["-t", "241"], "--threads 241: from 1 to 240"),
        (["-m", "0"], "--memory-limit must be at least 1 MiB"),
        (["-c", "0"], "--conn-limit must be at least 1"),
        (
            ["--window-max", "3"],
            "--window-max 3: a power of two from 1 to 256",
        ),
        (
            ["--slot-bytes-max", "100"],
            "--slot-bytes-max 100: a multiple of 64 from 64 to 1024",
        ),
        (
            ["-I", "1g"],
            "--max-item-size 1g: expected bytes, or a number with k or m, from 1k to 8m: the length of a value has 23 bits",
        ),
        (
            ["--cores", "9"],
            "--cores 9: core 9 is not one of those this process may use ([0, 1, 2, 3])",
        ),
        (
            ["--cores", "x"],
            "--cores x: expected numbers and ranges, such as 0-2,5",
        ),
        (["--cores", "1"], "--cores 1: 1 cores for 2 workers"),
    ] {
        assert_eq!(settings(&words).unwrap_err(), text, "{words:?}");
    }
}

#[test]
fn cores_are_the_last_ones_unless_told() {
    assert_eq!(
        settings(&["-t", "2"]).unwrap().workers.cores.value,
        Some(vec![2, 3])
    );
    assert_eq!(
        settings(&["-t", "2", "--cores", "0-1"])
            .unwrap()
            .workers
            .cores
            .value,
        Some(vec![0, 1])
    );
    assert_eq!(settings(&["--cores", "none"]).unwrap().workers.cores.value, None);
    assert_eq!(settings(&["-t", "5"]).unwrap().workers.cores.value, None);
}

#[test]
fn ports_and_sockets_are_as_with_memcached() {
    let got = settings(&[]).unwrap();
    assert_eq!(
        (got.sockets.port.value, got.sockets.unix_mask.value),
        (11211, 0o700)
    );
    let got = settings(&["-s", "/run/x", "-a", "0770"]).unwrap();
    assert_eq!((got.sockets.port.value, got.sockets.unix_mask.value), (0, 0o770));
    assert_eq!(
        settings(&["-s", "/run/x", "-p", "-1"])
            .unwrap()
            .sockets
            .port
            .value,
        -1
    );
    let got = settings(&["-l", "10.0.0.1,::1", "-l", "localhost:7", "-o", "idle_timeout=9"]).unwrap();
    assert_eq!(got.sockets.listen.value, ["10.0.0.1", "::1", "localhost:7"]);
    assert_eq!(got.extended.value.idle_timeout_s, 9);
    assert_eq!(
        settings(&["-p", "65536"]).unwrap_err(),
        "--port 65536: from 0 to 65535, or -1"
    );
    assert_eq!(
        settings(&["-a", "9"]).unwrap_err(),
        "-a 9: expected octal rights, such as 700"
    );
}

#[test]
fn what_memcached_has_and_drover_has_not_is_refused() {
    let refused = |words: &[&str]| Settings::resolve::<System>(&typed(words)).unwrap_err().text;
    assert_eq!(
        refused(&["-U", "11211"]),
        "-U 11211: there is no UDP; clients use TCP (-p) or a Unix socket (-s)"
    );
    assert_eq!(
        refused(&["-B", "binary"]),
        "-B binary: there is no binary protocol; ascii includes the meta commands"
    );
    assert!(Settings::resolve::<System>(&typed(&["-U", "0", "-B", "auto"])).is_ok());
}

#[test]
fn how_results_travel_is_a_setting_of_systems_that_know_several_ways() {
    let got = settings(&["--system", "jakiro", "--transfer", "reply"]).unwrap();
    assert_eq!(got.workers.transfer.value, ResultTransfer::Reply);
    let got = settings(&["--system", "server-reply"]).unwrap();
    assert_eq!(got.workers.transfer.value, ResultTransfer::Auto);
    for (words, text) in [
        (
            ["--system", "herd", "--transfer", "fetch"],
            "--transfer fetch: does not apply to --system herd: its results come to clients in one way only (command line)",
        ),
        (
            ["--system", "server-reply", "--transfer", "auto"],
            "--transfer auto: does not apply to --system server-reply: its results come to clients in one way only \
             (command line)",
        ),
        (
            ["--system", "jakiro", "--transfer", "push"],
            "--transfer push: expected auto, fetch or reply",
        ),
    ] {
        assert_eq!(settings(&words).unwrap_err(), text, "{words:?}");
    }
}

#[test]
fn a_daemon_is_refused_with_the_reason() {
    let failure = Settings::resolve::<System>(&typed(&["-d"])).unwrap_err();
    assert_eq!(failure.code, 64);
    assert!(
        failure
            .text
            .starts_with("-d is refused: run it under a service manager"),
        "{}",
        failure.text
    );
}

#[test]
fn flags_about_what_drover_lacks_are_taken_and_named() {
    let got = settings(&["-f", "1.25", "-n", "48"]).expect("taken");
    let said: Vec<String> = got.foreign.without_effect().collect();
    assert_eq!(said.len(), 2);
    for (line, flag) in said.iter().zip(["-f 1.25: no effect", "-n 48: no effect"]) {
        assert!(line.starts_with(flag), "{line}");
    }
    assert!(settings(&["-f", "1"]).is_err() && settings(&["-n", "0"]).is_err());
}

#[test]
fn sasl_is_refused_with_what_to_use_instead() {
    let text = settings(&["-S"]).expect_err("nobody is let in by mistake");
    assert!(text.contains("-Y FILE"), "{text}");
}
