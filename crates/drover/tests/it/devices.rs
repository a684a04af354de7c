//! `drover devices` where verbs do not work: the exact text and exit status, with the libraries that machines have
//! instead of a good one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the binary where the library of verbs is first looked for in `folder`.
fn devices(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_drover"))
        .arg("devices")
        .args(args)
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        out.status.code().unwrap_or(-1),
        text(&out.stdout),
        text(&out.stderr),
    )
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("drover-devices-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("temporary folder");
    path
}

#[test]
fn a_library_that_cannot_be_loaded() {
    let folder = folder("broken");
    let library = folder.join("libibverbs.so.1");
    std::fs::write(&library, "").expect("temporary file");
    let expected = format!(
        "drover: ibv is not available: libibverbs.so.1 cannot be loaded ({}: file too short); install it (Debian: \
         apt-get install libibverbs1 ibverbs-providers), or use another fabric\n",
        library.display()
    );
    for args in [&[][..], &["--json"], &["--ib-dev", "mlx5_0"]] {
        let answer = devices(&folder, args);
        assert_eq!(answer, (69, String::new(), expected.clone()), "{args:?}");
    }
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn a_library_that_is_too_old() {
    let folder = folder("old");
    let c_library = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let c_library = c_library
        .lines()
        .find_map(|line| {
            line.split_whitespace()
                .last()
                .filter(|path| path.ends_with("/libc.so.6"))
        })
        .expect("this test is linked to the C library")
        .to_string();
    std::os::unix::fs::symlink(c_library, folder.join("libibverbs.so.1")).expect("temporary file");
    assert_eq!(
        devices(&folder, &[]),
        (
            69,
            String::new(),
            "drover: ibv is not available: the library has no symbol ibv_get_device_list; version 32 of rdma-core \
             (2020) or newer is needed\n"
                .to_string()
        )
    );
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn options_that_make_no_sense() {
    let folder = folder("options");
    for args in [["--ib-port", "0"], ["--gid-index", "first"], ["--ib-port", "256"]] {
        let (status, out, error) = devices(&folder, &args);
        assert_eq!((status, out.as_str()), (64, ""), "{args:?}");
        assert!(error.contains(args[0]), "{error}");
    }
    std::fs::remove_dir_all(&folder).expect("ours");
}
