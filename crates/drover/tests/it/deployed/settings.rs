//! Settings and command lines in `examples/deploy/` mean something to drover.

use super::compose::services;
use crate::common::drover;
use std::path::Path;

fn deploy(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/deploy")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `drover config` reads what `drover serve` would, and names what it does not understand.
fn is_understood(flags: &[&str]) -> Result<(), String> {
    let (status, _, said) = drover(&[&["config"], flags].concat(), "");
    match (status, said.is_empty()) {
        (0, true) => Ok(()),
        _ => Err(said),
    }
}

#[test]
fn the_compose_file_starts_members() {
    for service in services().iter().filter(|service| service.words[0] == "drover") {
        let flags: Vec<&str> = service.words[2..].iter().map(String::as_str).collect();
        assert_eq!(is_understood(&flags), Ok(()), "{}", service.name);
        let wrong = [&flags[..], &["--advertize", "a"]].concat();
        assert!(is_understood(&wrong).is_err(), "a mistake is noticed");
    }
}

#[test]
fn the_stateful_set_starts_members() {
    let text = deploy("kubernetes/drover.yaml");
    let list = |key: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
        serde_json::from_str(line.expect("a list")).expect("a list of words")
    };
    assert_eq!(list("command: "), ["drover", "serve"]);
    let known = [
        ("$(CLUSTER)", "etcd://etcd:2379/cache"),
        ("$(POD_NAME)", "drover-0"),
        ("$(POD_IP)", "192.0.2.1"),
    ];
    let replaced = |word: String| {
        known
            .iter()
            .fold(word, |word, (name, value)| word.replace(name, value))
    };
    let words: Vec<String> = list("args: ").into_iter().map(replaced).collect();
    let flags: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(is_understood(&flags), Ok(()));
    let wrong = words.join(" ").replace("--member-name", "--members-name");
    let wrong: Vec<&str> = wrong.split(' ').collect();
    assert!(is_understood(&wrong).is_err(), "a mistake is noticed");
}

#[test]
fn the_settings_of_the_unit_are_settings() {
    let folder = crate::common::folder("member");
    let understood = |text: &str| {
        let file = folder.join("member.conf");
        std::fs::write(&file, text).expect("a temporary file");
        is_understood(&["--config", file.to_str().expect("UTF-8")])
    };
    // The users are a file of their own.
    let text = deploy("systemd/cache-1.conf").replace("auth-file = /etc/drover/users", "insecure = true");
    assert_eq!(understood(&text), Ok(()));
    let wrong = text.replace("member-name", "members-name");
    assert!(understood(&wrong).is_err(), "a mistake is noticed");
}
