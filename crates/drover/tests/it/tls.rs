//! `-Z` is for native clients, too: who is trusted, who is told what is missing, and what stays plain.

use crate::common::{Answer, Serving, drover, folder};
use crate::guarded::{private, told};
use crate::pool::MemoryNode;
use drover_systems::System;
use drover_testkit::certificates::{Authority, Identity};
use std::path::Path;

const HOST: &str = "127.0.0.1";
/// Looks at something that happens soon, each a process of its own.
const LOOKS_MAX: usize = 500;
/// What a client without TLS is told.
const PLAIN: &str = "this address speaks TLS (-Z): trust the CA of its certificate, by --tls-ca FILE";

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

fn words_of(identity: &Identity) -> String {
    format!(
        "ssl_chain_cert={},ssl_key={}",
        text(&identity.chain),
        text(&identity.key)
    )
}

fn stats(addr: &str, words: &[&str]) -> Answer {
    drover(&[&["stats", "--server", addr], words].concat(), "")
}

fn refused(answer: Answer, why: &str) {
    let (status, out, error) = answer;
    assert_eq!((status, out.as_str()), (2, ""), "{error}");
    assert!(error.contains(why), "{error}");
}

/// Statistics are what goes over TCP without a card.
#[test]
fn native_clients_of_every_system_come_by_tls() {
    for system in System::ALL.iter().filter(|system| system.facts().offers.service) {
        let name = system.facts().name;
        let folder = folder(name);
        let authority = Authority::new(&folder);
        let words = words_of(&authority.issue("server", HOST));
        let listen = ["--control-listen", "tcp://127.0.0.1:0", "-m", "64"];
        let flags = ["--system", name, "-Z", "-o", &words];
        let server = Serving::start(name, &[&flags[..], &listen].concat());
        let addr = format!("tcp://{}", told(&server, "tcp://"));
        refused(stats(&addr, &[]), PLAIN);
        let ca = text(&authority.ca());
        let (status, numbers, error) = stats(&addr, &["--tls-ca", &ca]);
        assert_eq!((status, error.as_str()), (0, ""), "{name}");
        assert!(!numbers.is_empty(), "{name}");
        // A Unix socket is for those whom its mode lets in.
        let at = ["--server", &server.addr];
        assert_eq!(drover(&[&["set", "k", "v"], &at[..]].concat(), "").0, 0, "{name}");
        assert_eq!(drover(&[&["get", "k"], &at[..]].concat(), "").1, "v");
        refused(
            drover(&[&["get", "k", "--tls-ca", &ca], &at[..]].concat(), ""),
            "is a Unix socket, which has no TLS",
        );
        assert_eq!(server.stop(), 0, "{name}");
    }
}

#[test]
fn whom_a_client_trusts() {
    let folder = folder("trust");
    let authority = Authority::new(&folder);
    let words = words_of(&authority.issue("server", HOST));
    let both = "tcp://127.0.0.1:0,notls:tcp://127.0.0.1:0";
    let server = Serving::start("trust", &["-Z", "-o", &words, "--control-listen", both]);
    let mut addrs = server.said.match_indices("tcp://");
    let mut addr = || {
        let (at, _) = addrs.next().expect("two addresses");
        let rest = &server.said[at..];
        rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())].to_owned()
    };
    let (secured, plain) = (addr(), addr());
    let (ca, other) = (
        text(&authority.ca()),
        text(&Authority::new(&folder.join("other")).ca()),
    );
    assert_eq!(stats(&secured, &["--tls-ca", &ca]).0, 0);
    assert_eq!(stats(&plain, &[]).0, 0, "notls:");
    refused(
        stats(&plain, &["--tls-ca", &ca]),
        "does not speak TLS at this address",
    );
    refused(
        stats(&secured, &["--tls-ca", &other]),
        "signed by none of the trusted CAs",
    );
    refused(
        stats(&secured, &["--tls-ca", &ca, "--tls-name", "db.test"]),
        "the server's certificate is for 127.0.0.1, not for db.test",
    );
    let nowhere = folder.join("missing.pem");
    refused(
        stats(&secured, &["--tls-ca", &text(&nowhere)]),
        &format!("--tls-ca {}: ", nowhere.display()),
    );
    // Renewed, for another name, while channels are open.
    authority.issue("server", "db.test");
    rustix::process::kill_process(server.pid(), rustix::process::Signal::HUP).expect("it is our child");
    let as_new = ["--tls-ca", &ca, "--tls-name", "db.test"];
    assert!((0..LOOKS_MAX).any(|_| stats(&secured, &as_new).0 == 0));
    refused(stats(&secured, &["--tls-ca", &ca]), "not for 127.0.0.1");
    authority.issue_expired("server", HOST);
    rustix::process::kill_process(server.pid(), rustix::process::Signal::HUP).expect("it is our child");
    let is_expired = || stats(&secured, &["--tls-ca", &ca]).2.contains("has expired");
    assert!((0..LOOKS_MAX).any(|_| is_expired()));
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_has_no_effect_is_refused() {
    let folder = folder("refused");
    let ca = text(&Authority::new(&folder).ca());
    let fabric = format!("shm:{}", folder.join("s.sock").display());
    for (words, why) in [
        (
            &["serve", "--fabric", &fabric, "--connect-tls-ca", &ca][..],
            "only a gateway (--connect, --pool) connects to another server",
        ),
        (
            &["bench", "--tls-ca", &ca],
            "a server that bench starts itself has no TLS",
        ),
        (
            &[
                "serve",
                "--connect",
                "shm:nobody",
                "-p",
                "-1",
                "--connect-tls-ca",
                &ca,
            ],
            "which has no TLS",
        ),
    ] {
        let (status, _, error) = drover(words, "");
        assert!(status == 64 && error.contains(why), "{words:?}: {error}");
    }
}

#[test]
fn users_prove_themselves_inside_tls() {
    let folder = folder("users");
    let authority = Authority::new(&folder);
    let (server, client) = (
        authority.issue("server", HOST),
        authority.issue("client", "client"),
    );
    let ca = text(&authority.ca());
    let words = format!("{},ssl_ca_cert={ca},ssl_verify_mode=2", words_of(&server));
    let users = private(&folder.join("users"), "me:sesame\n");
    let wrong = private(&folder.join("wrong"), "me:barley\n");
    let listen = ["--control-listen", "tcp://127.0.0.1:0"];
    let server = Serving::start(
        "users",
        &[&["-Z", "-o", &words, "-Y", &users], &listen[..]].concat(),
    );
    let addr = format!("tcp://{}", told(&server, "tcp://"));
    let trusting = ["--tls-ca", &ca];
    refused(stats(&addr, &trusting), "asks for a certificate of the client");
    let (cert, key) = (text(&client.chain), text(&client.key));
    let known = [&trusting[..], &["--tls-cert", &cert, "--tls-key", &key]].concat();
    refused(
        stats(&addr, &known),
        "this server lets in the users of a file only",
    );
    refused(
        stats(&addr, &[&known[..], &["--auth-file", &wrong]].concat()),
        "wrong user or password",
    );
    let answer = stats(&addr, &[&known[..], &["--auth-file", &users]].concat());
    assert_eq!((answer.0, answer.2.as_str()), (0, ""));
    assert_eq!(server.stop(), 0);
}

#[test]
fn memory_nodes_take_the_same_options() {
    let folder = folder("node");
    let authority = Authority::new(&folder);
    let words = words_of(&authority.issue("server", HOST));
    let refused = |args: &[&str]| {
        let (status, _, error) = drover(&[&["memory-node", "--bind", "shm:nobody"], args].concat(), "");
        (status, error.lines().last().unwrap_or_default().to_owned())
    };
    assert_eq!(
        refused(&["-Z"]),
        (64, "drover: -Z needs -o ssl_chain_cert=FILE,ssl_key=FILE".into())
    );
    assert_eq!(
        refused(&["-o", &words]),
        (64, "drover: -o ssl_chain_cert needs -Z".into())
    );
    assert_eq!(
        refused(&["-Z", "-o", "idle_timeout=1"]),
        (64, "drover: -o idle_timeout: no such option".into())
    );
    let node = MemoryNode::start("node-z", &["-Z", "-o", &words]);
    let (status, _, error) = drover(&["pool", "status", "--nodes", &node.addr], "");
    assert_eq!((status, error.as_str()), (0, ""), "a Unix socket is plain");
    let ca = text(&authority.ca());
    let (status, _, error) = drover(&["pool", "status", "--nodes", &node.addr, "--tls-ca", &ca], "");
    assert!(
        status == 64 && error.contains("is a Unix socket, which has no TLS"),
        "{error}"
    );
}
