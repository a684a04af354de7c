//! Goal: an etcd that asks for a password gets it, and says no to a wrong one in words that name the user and the address.

use super::bed::Service;
use crate::common::drover;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A service in an etcd whose only user is `root` with the password `right`.
fn guarded(name: &'static str) -> Option<Service> {
    let service = Service::new(name)?;
    service.etcd.require_password("right");
    Some(service)
}

/// A file with this user and password, which only its owner may read.
fn file_with(folder: &Path, login: &str) -> PathBuf {
    let file = folder.join(login.replace(':', "-"));
    std::fs::write(&file, format!("{login}\n")).expect("a temporary file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("our file");
    file
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_wrong_password_is_refused_by_name() {
    let Some(service) = guarded("passwords") else {
        return;
    };
    let folder = crate::common::folder("passwords");
    let wrong = file_with(&folder, "root:wrong");
    let (url, login) = (service.url(), ["--cluster-auth-file", text(&wrong)]);
    for (status, _, error) in [
        service.refused(1, &login),
        service.cluster(&[&["status"], &login[..]].concat()),
        service.cluster(&[&["drain", "m1"], &login[..]].concat()),
    ] {
        assert_eq!(status, 77, "{error}");
        let expected = format!("{url}: etcd refuses the user root: ");
        assert!(error.contains(&expected), "{error}");
        assert!(error.contains("invalid user ID or password"), "{error}");
    }
    let (status, _, error) = service.cluster(&["status"]);
    assert_eq!(status, 77, "{error}");
    assert!(error.contains("etcd refuses clients without a user: "), "{error}");
    let server = url.replace("etcd://", "etcd://root:wrong@");
    let (status, _, error) = drover(&["get", "k", "--server", &server], "");
    assert_eq!(status, 2, "{error}");
    assert!(error.contains("etcd refuses the user root: "), "{error}");
    let (_, report, _) = drover(&[&["doctor", "--cluster", &url], &login[..]].concat(), "");
    assert!(report.contains("name a user of etcd"), "{report}");
}

/// The password is often in a file of root's, and a member need not stay root.
#[test]
fn a_member_becomes_another_user_after_it_has_read_its_password() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let Some(service) = guarded("users") else { return };
    let right = file_with(&crate::common::folder("users"), "root:right");
    let login = ["--cluster-auth-file", text(&right)];
    let member = service.start(1, &[&["-u", "nobody"], &login[..]].concat());
    while service.cluster(&[&["check"], &login[..]].concat()).0 != 0 {}
    service.client(1).set_all(3, "a");
    service.client(1).expect_all(3, "a");
    let status = std::fs::read_to_string(format!("/proc/{}/status", member.pid())).expect("it lives");
    let uid = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .expect("a line");
    assert!(!uid.split_whitespace().any(|word| word == "0"), "{uid}");
    let (status, log) = member.stop_with_log();
    assert_eq!(status, 0, "{log}");
}
