//! Goal: over TLS the registry is what it is without, and whatever is wrong with certificates is said at once, with the endpoint.

use crate::etcd::{open_registry_at, register, until_answered};
use drover_cluster::{RegistryReply, RegistryRequest};
use drover_cluster_etcd::{EtcdRegistry, NoAnswer, NoAnswerKind, ServiceUrl};
use drover_testkit::certificates::{Authority, Identity};
use drover_testkit::etcd::Etcd;
use drover_testkit::seeds;
use std::path::PathBuf;

/// CAs of a test, and what they have signed. Ends with its files.
struct Certificates {
    folder: PathBuf,
    ca: Authority,
    /// For 127.0.0.1.
    server: Identity,
    client: Identity,
    other_ca: Authority,
    other_client: Identity,
}

impl Certificates {
    fn new() -> Certificates {
        let folder = std::env::temp_dir().join(format!("drover-etcd-tls-{}", seeds::fresh_seed()));
        let (ca, other_ca) = (
            Authority::new(&folder.join("ca")),
            Authority::new(&folder.join("other")),
        );
        Certificates {
            server: ca.issue("server", "127.0.0.1"),
            client: ca.issue("client", "client.test"),
            other_client: other_ca.issue("client", "client.test"),
            folder,
            ca,
            other_ca,
        }
    }

    /// The parameter that names the CA.
    fn trusted(&self) -> String {
        format!("?tls-ca={}", self.ca.ca().display())
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        // Files that stay behind in a folder for temporary files do no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn shown_by(client: &Identity) -> String {
    format!(
        "&tls-cert={}&tls-key={}",
        client.chain.display(),
        client.key.display()
    )
}

fn url(etcd: &Etcd, parameters: &str) -> ServiceUrl {
    let text = format!("etcd://{}/cache{parameters}", etcd.host_port());
    text.parse().expect("a sound URL")
}

/// What is said at last of an etcd that cannot be used. It may still be starting, which is waited for.
fn refusal(etcd: &Etcd, parameters: &str) -> String {
    let options = url(etcd, parameters).options().expect("sound files");
    let mut registry = EtcdRegistry::open(options).expect("a proper name");
    loop {
        let NoAnswer { kind, why } = registry.settings(None).expect_err("it cannot be used");
        if kind == NoAnswerKind::Tls {
            let why = why.strip_prefix(&format!("{}: ", etcd.host_port()));
            return why.expect("the endpoint comes first").to_owned();
        }
    }
}

#[test]
fn a_member_registers_with_a_certificate_whose_files_are_read_once() {
    let files = Certificates::new();
    let Some(mut etcd) = Etcd::start_over_tls(&files.server, Some(&files.ca.ca())) else {
        return;
    };
    let options = url(&etcd, &(files.trusted() + &shown_by(&files.client))).options();
    let mut registry = open_registry_at(options.expect("sound files"));
    let id = register(&mut registry, "a", 1);
    for file in [
        files.ca.ca(),
        files.client.chain.clone(),
        files.client.key.clone(),
    ] {
        std::fs::rename(&file, file.with_extension("away")).expect("a file of ours");
    }
    // etcd reads its own CA when it starts.
    etcd.kill();
    std::fs::copy(files.ca.ca().with_extension("away"), files.ca.ca()).expect("a file of ours");
    etcd.restart();
    let renewed = until_answered(&mut registry, RegistryRequest::Renew(id));
    assert_eq!(renewed, RegistryReply::Renewed, "it has reconnected");
}

#[test]
fn the_name_of_the_certificate_may_be_another_than_the_host() {
    let files = Certificates::new();
    let named = files.ca.issue("named", "etcd.test");
    let Some(etcd) = Etcd::start_over_tls(&named, None) else {
        return;
    };
    let why = refusal(&etcd, &files.trusted());
    assert_eq!(
        why,
        "the server's certificate is for etcd.test, not for 127.0.0.1 (tls-name gives the name to expect)"
    );
    let options = url(&etcd, &(files.trusted() + "&tls-name=etcd.test")).options();
    open_registry_at(options.expect("sound files"));
}

#[test]
fn certificates_that_do_not_fit_are_told_apart() {
    let files = Certificates::new();
    let Some(etcd) = Etcd::start_over_tls(&files.server, Some(&files.ca.ca())) else {
        return;
    };
    let other_ca = format!("?tls-ca={}", files.other_ca.ca().display());
    let other_client = files.trusted() + &shown_by(&files.other_client);
    for (parameters, expected) in [
        (other_ca, "signed by none of the trusted CAs (a client's: tls-ca)"),
        (
            files.trusted(),
            "it asks for a certificate of its clients (tls-cert, tls-key)",
        ),
        (
            other_client,
            "the other end does not accept this end's certificate",
        ),
        (
            String::new(),
            "it speaks TLS, and the URL names no CA to trust (?tls-ca=FILE)",
        ),
    ] {
        let why = refusal(&etcd, &parameters);
        assert!(why.contains(expected), "{parameters}: {why}");
    }
}

#[test]
fn an_etcd_without_tls_is_told_from_one_that_is_away() {
    let files = Certificates::new();
    let Some(mut etcd) = Etcd::start() else { return };
    let why = refusal(&etcd, &files.trusted());
    assert!(
        why.starts_with("it does not speak TLS: leave tls-ca out"),
        "{why}"
    );
    etcd.kill();
    let options = url(&etcd, &files.trusted()).options().expect("sound files");
    let mut registry = EtcdRegistry::open(options).expect("a proper name");
    let failure = registry.settings(None).expect_err("nobody listens");
    assert_eq!(failure.kind, NoAnswerKind::Silent, "{failure}");
}

#[test]
fn a_key_of_another_certificate_is_refused_before_anything_is_sent() {
    let files = Certificates::new();
    let mixed = Identity {
        chain: files.client.chain.clone(),
        key: files.server.key.clone(),
    };
    let parameters = files.trusted() + &shown_by(&mixed);
    let url: ServiceUrl = format!("etcd://127.0.0.1:9/cache{parameters}")
        .parse()
        .expect("a URL");
    let error = url.options().err().expect("they do not fit").to_string();
    assert!(error.contains(&shown_by(&mixed)[1..]), "{error}");
}
