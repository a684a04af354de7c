//! Goal: everything that takes a service's URL reaches an etcd over TLS by it, and says what is wrong with the certificates.

use super::bed::Service;
use crate::common::{drover, folder};
use drover_testkit::certificates::Authority;
use std::os::unix::fs::PermissionsExt;

/// The key is often a file of root's, and a member need not stay root.
#[test]
fn a_member_its_clients_and_commands_reach_an_etcd_over_tls() {
    let ca = Authority::new(&folder("sound"));
    let Some(mut service) = Service::over_tls("encrypted", &ca) else {
        return;
    };
    let key = folder("sound").join("client.key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("our file");
    let is_root = rustix::process::geteuid().is_root();
    let user: &[&str] = if is_root { &["-u", "nobody"] } else { &[] };
    let member = service.start(1, user);
    while service.cluster(&["check"]).0 != 0 {}
    // It reconnects, with what it may no longer read.
    service.etcd.restart();
    while service.cluster(&["check"]).0 != 0 {}
    let url = service.url();
    for (words, expected) in [
        (&["set", "k", "v", "--server", &url][..], ""),
        (&["get", "k", "--server", &url], "v"),
        (&["cluster", "status", "--cluster", &url], "m1"),
        (&["doctor", "--cluster", &url], "member m1"),
        (&["cluster", "undrain", "m1", "--cluster", &url], "m1"),
    ] {
        let (_, said, error) = drover(words, "");
        assert!(said.contains(expected), "{words:?}: {said} {error}");
    }
    let (status, log) = member.stop_with_log();
    assert_eq!(status, 0, "{log}");
}

#[test]
fn what_is_wrong_with_certificates_is_said_to_members_commands_and_clients() {
    let ca = Authority::new(&folder("right"));
    let Some(service) = Service::over_tls("distrusted", &ca) else {
        return;
    };
    let other = Authority::new(&folder("other")).ca();
    let plain = format!("etcd://{}/distrusted", service.etcd.host_port());
    let distrusted = format!("{plain}?tls-ca={}", other.display());
    for (url, expected) in [
        (
            &plain,
            "it speaks TLS, and the URL names no CA to trust (?tls-ca=FILE)",
        ),
        (&distrusted, "signed by none of the trusted CAs"),
    ] {
        for (status, _, error) in [
            service.refused_with(url, 1, &[]),
            drover(&["cluster", "status", "--cluster", url], ""),
        ] {
            assert_eq!(status, 69, "{error}");
            assert!(error.contains(&format!("{url}: etcd at ")), "{error}");
            assert!(error.contains(expected), "{error}");
        }
        let (status, _, error) = drover(&["get", "k", "--server", url, "--timeout-ms", "500"], "");
        assert_eq!(status, 2, "{error}");
        assert!(error.contains(expected), "{error}");
    }
}
