//! Debian packages: downloaded and unpacked into a folder, never installed.

use crate::command;
use crate::setup;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Package that depends on the newest kernel.
const KERNEL: &str = "linux-image-amd64";
/// Packages with the guest's programs and libraries; a name with another suffix is for newer releases.
const NEEDED: &[&str] = &[
    "busybox-static",
    "libc6",
    "libgcc-s1",
    "libibverbs1",
    "ibverbs-providers",
    "libnl-3-200",
    "libnl-route-3-200",
    "iproute2",
    "libmnl0",
    "libcap2",
    "libbpf1",
    "libelf1",
    "zlib1g",
    "libselinux1",
    "libpcre2-8-0",
    "libbsd0",
    "libmd0",
    "libzstd1",
    "libxtables12",
    // Makes certificates.
    "openssl",
    "libssl3",
    // To compare our results with.
    "perftest",
    "librdmacm1",
    "libibumad3",
    "libpci3",
    "libudev1",
];

/// Text that identifies the image's contents: another list of packages makes another image.
pub fn recipe() -> String {
    format!("{KERNEL} {}", NEEDED.join(" "))
}

/// Downloads the packages into `folder`: the kernel's, and the others. Updates apt's lists if they are outdated or
/// missing.
pub fn download(folder: &Path) -> Result<(PathBuf, Vec<PathBuf>), String> {
    let _ = fs::remove_dir_all(folder);
    if let Err(why) = fetch(folder) {
        eprintln!("    {why}: once more with new lists");
        let _ = fs::remove_dir_all(folder);
        setup::update_lists()?;
        fetch(folder)?;
    }
    let mut packages = files(folder);
    let at = packages
        .iter()
        .position(|path| name_of(path).starts_with("linux-image-"))
        .ok_or("the kernel's package did not come")?;
    Ok((packages.remove(at), packages))
}

fn fetch(folder: &Path) -> Result<(), String> {
    let depends = command::output(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let kernel = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"));
    let kernel = kernel.ok_or("apt knows no kernel")?;
    fs::create_dir_all(folder).map_err(|e| format!("making {}: {e}", folder.display()))?;
    let mut get = Command::new("apt-get");
    get.args(["-qq", "-o", "APT::Sandbox::User=root", "download", kernel]);
    get.args(NEEDED.iter().map(|name| available(name)));
    command::run(get.current_dir(folder))?;
    Ok(())
}

/// The name of a library that Debian 13 renamed.
fn available(name: &str) -> String {
    let shown = Command::new("apt-cache")
        .args(["show", "--no-all-versions", name])
        .output();
    match shown {
        Ok(out) if out.status.success() && !out.stdout.is_empty() => name.to_string(),
        _ => format!("{name}t64"),
    }
}

/// Unpacks one package into `folder`.
pub fn unpack(package: &Path, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("making {}: {e}", folder.display()))?;
    let out = Command::new("dpkg-deb")
        .arg("-x")
        .arg(package)
        .arg(folder)
        .status();
    match out {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{} cannot be unpacked", package.display())),
    }
}

pub fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Files in a folder, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}
