//! `drover serve --connect`: memcached's clients of a service in another process.

use crate::common::{Serving, ask_memcached as ask, drover};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn connect(gateway: &Serving) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", gateway.memcached_port())).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// The CAS of `key`.
pub fn cas(client: &mut TcpStream, key: &str) -> u64 {
    let told = ask(client, &format!("gets {key}\r\n"));
    let line = told.lines().next().expect("a line");
    let cas = line.rsplit(' ').next().expect("words");
    cas.parse().unwrap_or_else(|_| panic!("{told}"))
}

/// Whatever the system: two gateways and the native clients have the same items, and their versions.
#[test]
fn gateways_to_one_service_are_one_cache() {
    for system in ["herd", "pilaf", "farm", "jakiro"] {
        let server = Serving::start(&format!("gw-{system}"), &["--system", system, "-t", "2"]);
        let gateways = ["1", "2"].map(|threads| Serving::gateway(&server.addr, &["-t", threads]));
        let [mut one, mut two] = gateways.each_ref().map(connect);
        assert_eq!(ask(&mut one, "set a 7 0 2\r\nhi\r\n"), "STORED\r\n", "{system}");
        assert_eq!(
            ask(&mut two, "get a b\r\n"),
            "VALUE a 7 2\r\nhi\r\nEND\r\n",
            "{system}"
        );
        assert_eq!(
            server.ask(&["get", "a"]),
            (0, "hi".into(), String::new()),
            "{system}"
        );
        assert_eq!(server.ask(&["set", "b", "native"]).0, 0);
        let told = ask(&mut one, "get a b\r\n");
        assert_eq!(
            told, "VALUE a 7 2\r\nhi\r\nVALUE b 0 6\r\nnative\r\nEND\r\n",
            "{system}"
        );
        // The other's write makes the version old.
        let version = cas(&mut one, "a");
        assert_eq!(ask(&mut two, "append a 0 0 1\r\n!\r\n"), "STORED\r\n", "{system}");
        let told = ask(&mut one, &format!("cas a 0 0 4 {version}\r\nlost\r\n"));
        assert_eq!(told, "EXISTS\r\n", "{system}");
        let version = cas(&mut one, "a");
        let told = ask(&mut one, &format!("cas a 0 0 3 {version}\r\nwon\r\nget a\r\n"));
        assert_eq!(told, "STORED\r\nVALUE a 0 3\r\nwon\r\nEND\r\n", "{system}");
        // Values that no request slot holds, and pipelined commands about them.
        let long = "x".repeat(100_000);
        let told = ask(
            &mut one,
            &format!("set l 1 0 100000\r\n{long}\r\nappend l 0 0 1\r\ny\r\nget l\r\n"),
        );
        assert_eq!(
            told,
            format!("STORED\r\nSTORED\r\nVALUE l 1 100001\r\n{long}y\r\nEND\r\n"),
            "{system}"
        );
        assert_eq!(
            ask(&mut two, "delete l\r\nget l\r\n"),
            "DELETED\r\nEND\r\n",
            "{system}"
        );
        let told = ask(&mut two, "stats settings\r\n");
        assert!(
            told.contains(&format!("STAT gateway_system {system}\r\n")),
            "{told}"
        );
        for gateway in gateways {
            assert_eq!(gateway.stop(), 0, "{system}");
        }
    }
}

/// Clients of two gateways add to one number.
#[test]
fn sums_over_two_gateways_add_up() {
    let server = Serving::start("gw-sums", &["-t", "1"]);
    let gateways = [0, 1].map(|_| Serving::gateway(&server.addr, &["-t", "1"]));
    let sum = add_up(&gateways.each_ref());
    assert_eq!(server.ask(&["get", "n"]), (0, sum.to_string(), String::new()));
}

/// Four clients of two gateways add to `n`, and read the sum that they return.
pub fn add_up(gateways: &[&Serving; 2]) -> usize {
    const CLIENTS: usize = 4;
    const EACH: usize = 10_000;
    let mut first = connect(gateways[0]);
    assert_eq!(ask(&mut first, "set n 0 0 1\r\n0\r\n"), "STORED\r\n");
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut stream = connect(gateways[client % 2]);
            scope.spawn(move || {
                // A client whose commands lose to others for ever is told so, and tries again.
                let mut done = 0;
                while done < EACH {
                    let batch = "incr n 1\r\n".repeat((EACH - done).min(100));
                    for line in ask(&mut stream, &batch).lines() {
                        match line.parse::<u64>() {
                            Ok(_) => done += 1,
                            Err(_) => assert_eq!(line, "SERVER_ERROR busy"),
                        }
                    }
                }
            });
        }
    });
    let sum = CLIENTS * EACH;
    let told = ask(&mut first, "get n\r\n");
    assert_eq!(told, format!("VALUE n 0 5\r\n{sum}\r\nEND\r\n"));
    sum
}

/// A server that ends leaves its gateway, which says so and finds the next one.
#[test]
fn a_gateway_outlives_its_server() {
    let server = Serving::start("gw-outlives", &[]);
    let addr = server.addr.clone();
    let gateway = Serving::gateway(&addr, &["-t", "1"]);
    let mut client = connect(&gateway);
    assert_eq!(ask(&mut client, "set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    server.kill();
    let told = ask(&mut client, "set a 0 0 1\r\n2\r\nincr a 1\r\n");
    assert!(
        told.lines().all(|line| line.starts_with("SERVER_ERROR ")) && told.lines().count() == 2,
        "{told}"
    );
    // A key that cannot be read is no miss.
    client.write_all(b"get a\r\n").expect("it is open");
    assert_eq!(client.read(&mut [0; 64]).expect("an end"), 0);
    let _server = Serving::start_at(&addr, &[]);
    let mut client = connect(&gateway);
    let mut stored = false;
    for _ in 0..100 {
        stored |= ask(&mut client, "set a 0 0 1\r\n3\r\n") == "STORED\r\n";
        if stored {
            break;
        }
    }
    assert!(stored);
    assert_eq!(ask(&mut client, "get a\r\n"), "VALUE a 0 1\r\n3\r\nEND\r\n");
}

#[test]
fn what_a_gateway_is_not_is_refused() {
    for (args, why) in [
        (
            &["-m", "100"][..],
            "--memory-limit 100 MiB: does not apply to a gateway (--connect): items are the other service's",
        ),
        (
            &["--system", "farm"],
            "--system farm: does not apply to a gateway",
        ),
        (
            &["-p", "0"],
            "--connect: a gateway without -p and -s serves nobody",
        ),
        (&["-p", "-1"], "--connect shm:/nowhere/at/all.sock: "),
    ] {
        let words = [&["serve", "--connect", "shm:/nowhere/at/all.sock"], args].concat();
        let (status, _, said) = drover(&words, "");
        assert!(status != 0 && said.contains(why), "{args:?}: {said}");
    }
}
