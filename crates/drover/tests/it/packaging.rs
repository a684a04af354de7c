//! Everything that packages, units and images name is there and is understood by the binary they start.

use crate::common::{drover, folder};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn packaging(name: &str) -> String {
    let path = root().join("packaging").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What `drover config` says to a file.
fn config(name: &str, text: &str) -> (i32, String) {
    let file = folder(name).join("drover.conf");
    std::fs::write(&file, text).expect("temporary file");
    let (status, _, error) = drover(&["config", "--config", file.to_str().expect("UTF-8")], "");
    (status, error)
}

#[test]
fn every_file_of_the_debian_package_is_there() {
    let text = std::fs::read_to_string(root().join("crates/drover/Cargo.toml")).expect("our own");
    let manifest: toml::Table = text.parse().expect("TOML");
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets = deb["assets"].as_array().expect("a list");
    assert!(assets.len() > 8);
    let mut generated = 0;
    for asset in assets {
        let source = asset[0].as_str().expect("a path");
        if source.contains("target/") {
            generated += 1; // by `cargo xtask deb`
            continue;
        }
        let path = root().join("crates/drover").join(source);
        assert!(path.is_file(), "{source} is missing");
    }
    assert_eq!(
        generated, 6,
        "the binary, two sections of the manual, completions of three shells"
    );
    let scripts = root()
        .join("crates/drover")
        .join(deb["maintainer-scripts"].as_str().expect("a path"));
    assert!(scripts.join("postinst").is_file());
    let conf = deb["conf-files"][0]
        .as_str()
        .expect("a path")
        .trim_start_matches('/');
    assert!(
        assets.iter().any(|asset| asset[1].as_str() == Some(conf)),
        "{conf} is packaged"
    );
}

#[test]
fn the_packaged_settings_are_settings() {
    let text = packaging("drover.conf");
    let (status, error) = config("packaged", &text);
    assert_eq!((status, error.as_str()), (0, ""));
    // Examples on adjacent lines belong together.
    let example = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let lines: Vec<&str> = text.lines().collect();
    let groups = lines.chunk_by(|one, next| example(one) == example(next));
    let examples: Vec<String> = groups
        .filter(|group| example(&group[0]))
        .map(|group| group.join("\n").replace('#', ""))
        .collect();
    assert!(examples.len() > 5);
    for example in examples {
        let (status, error) = config("example", &example);
        // A machine without a device, or with few cores, may refuse the value, but knows the name.
        assert!(status == 0 && error.is_empty(), "{example}: {error}");
    }
    assert_eq!(
        config("unknown", "no-such-setting = 1").0,
        64,
        "unknown names are noticed"
    );
}

/// Values of `key` in a unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .collect()
}

#[test]
fn units_start_what_there_is() {
    for name in ["drover.service", "drover@.service"] {
        let unit = packaging(name);
        assert_eq!(values(&unit, "Type"), ["notify"], "{name}");
        let start: Vec<&str> = values(&unit, "ExecStart")[0].split(' ').collect();
        assert_eq!(start[..3], ["/usr/bin/drover", "serve", "--config"], "{name}");
        let user = values(&unit, "User")[0];
        assert!(
            packaging("drover.sysusers").contains(&format!("u {user} ")),
            "{user}"
        );
        assert_eq!(values(&unit, "LimitMEMLOCK"), ["infinity"]);
        assert!(
            values(&unit, "PrivateDevices").is_empty(),
            "it would hide verbs devices"
        );
    }
    let one = packaging("drover.service");
    assert!(one.contains(" /etc/drover.conf\n"), "the packaged file is read");
    let kept = format!(
        "#memory-file = /var/lib/{}/items\n",
        values(&one, "StateDirectory")[0]
    );
    assert!(packaging("drover.conf").contains(&kept), "{kept} outlives a stop");
}

/// systemd's own opinion, where it is installed.
#[test]
fn systemd_understands_the_units() {
    let folder = folder("units");
    for name in ["drover.service", "drover@.service", "drover.socket"] {
        let unit = packaging(name).replace("/usr/bin/drover", env!("CARGO_BIN_EXE_drover"));
        std::fs::write(folder.join(name), unit).expect("temporary file");
    }
    let verify = |name: &str| {
        Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no", name])
            .current_dir(&folder)
            .output()
    };
    for name in ["drover.service", "drover@.service", "drover.socket"] {
        match verify(name) {
            Err(error) => println!("skipped: systemd-analyze: {error}"),
            Ok(out) => {
                let text = String::from_utf8_lossy(&out.stderr);
                let ours: Vec<&str> = text.lines().filter(|line| line.contains("drover")).collect();
                assert!(out.status.success() && ours.is_empty(), "{name}: {text}");
            }
        }
    }
}

#[test]
fn the_image_copies_what_there_is_and_runs_without_rights() {
    let text = packaging("Dockerfile");
    let lines = || text.lines().map(str::trim);
    let copied = lines().filter_map(|line| line.strip_prefix("COPY --from=build /src/"));
    for copy in copied {
        assert_eq!(copy, "target/release/drover /usr/bin/drover");
    }
    let user = lines().filter_map(|line| line.strip_prefix("USER ")).next_back();
    assert_eq!(user, Some("990:990"), "not root");
    let entry = lines()
        .find_map(|line| line.strip_prefix("ENTRYPOINT "))
        .expect("a command");
    let words: Vec<String> = serde_json::from_str(entry).expect("a list of words");
    let flags: Vec<&str> = words.iter().skip(2).map(String::as_str).collect();
    assert_eq!(words[..2], ["drover", "serve"]);
    let (status, _, error) = drover(&[&["config"], &flags[..]].concat(), "");
    assert_eq!((status, error.as_str()), (0, ""));
    let pinned = std::fs::read_to_string(root().join("rust-toolchain.toml")).expect("our own");
    let image = lines()
        .find_map(|line| line.strip_prefix("FROM rust:"))
        .expect("a toolchain");
    let version = image.split('-').next().expect("a version");
    assert!(
        pinned.contains(&format!("\"{version}")),
        "{version} is not what rust-toolchain.toml names"
    );
}
