//! The base image: the part that is the same in every run, built once and kept.

use super::cpio::Archive;
use super::modules;
use super::packages::{self, files, name_of};
use crate::counts::Counts;
use crate::steps::StepResult;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// File names in the folder of the guest.
pub const BASE: &str = "base.cpio";
pub const KERNEL: &str = "vmlinuz";

/// Recipe of the existing image; written last.
const RECIPE: &str = "recipe.txt";

/// Builds kernel and base image, unless they exist and match the current recipe.
pub fn prepare(folder: &Path) -> StepResult {
    let recipe = format!("{}\n{}\n", packages::recipe(), modules::WANTED.join(" "));
    if fs::read_to_string(folder.join(RECIPE)).is_ok_and(|made| made == recipe) {
        return Ok(Counts::default());
    }
    let (kernel, others) = packages::download(&folder.join("packages"))?;
    let unpacked = folder.join("unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    let mut archive = Archive::default();
    for name in ["proc", "sys", "dev", "run", "app"] {
        archive.folder(name);
    }
    for (link, target) in [
        ("bin", "usr/bin"),
        ("sbin", "usr/sbin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
    ] {
        archive.folder(target);
        archive.link(link, target);
    }
    for package in &others {
        let place = unpacked.join(name_of(package));
        packages::unpack(package, &place)?;
        add_tree(&mut archive, &place, "").map_err(|e| format!("reading {}: {e}", place.display()))?;
    }
    let place = unpacked.join("kernel");
    packages::unpack(&kernel, &place)?;
    add_modules(&mut archive, &place)?;
    take_kernel(&place, &folder.join(KERNEL))?;
    let base = folder.join(BASE);
    fs::write(&base, archive.finish()).map_err(|e| format!("writing {}: {e}", base.display()))?;
    let _ = fs::remove_dir_all(&unpacked);
    fs::write(folder.join(RECIPE), recipe).map_err(|e| format!("writing {RECIPE}: {e}"))?;
    Ok(Counts::default())
}

fn add_modules(archive: &mut Archive, kernel: &Path) -> Result<(), String> {
    let mut order = String::new();
    for (name, bytes) in modules::load_order(kernel)? {
        archive.file(&format!("modules/{name}"), 0o644, bytes);
        order.push_str(&name);
        order.push('\n');
    }
    archive.file("modules/order", 0o644, order.into_bytes());
    Ok(())
}

fn take_kernel(kernel: &Path, to: &Path) -> Result<(), String> {
    let boot = files(&kernel.join("boot"));
    let image = boot.iter().find(|path| name_of(path).starts_with("vmlinuz"));
    let image = image.ok_or("the kernel's package has no kernel")?;
    fs::copy(image, to).map_err(|e| format!("copying {}: {e}", image.display()))?;
    Ok(())
}

/// Adds the contents of `folder` as `path` in the guest, where all programs and libraries are under usr.
fn add_tree(archive: &mut Archive, folder: &Path, path: &str) -> std::io::Result<()> {
    for from in files(folder) {
        let name = name_of(&from);
        let path = if path.is_empty() {
            name
        } else {
            format!("{path}/{name}")
        };
        let meta = fs::symlink_metadata(&from)?;
        if is_left_out(&path) {
            continue;
        }
        let guest = guest_path(&path);
        if meta.is_dir() {
            add_tree(archive, &from, &path)?;
        } else if meta.is_symlink() {
            archive.link(&guest, &fs::read_link(&from)?.to_string_lossy());
        } else if meta.is_file() {
            archive.file(&guest, meta.permissions().mode() & 0o755, fs::read(&from)?);
        }
    }
    Ok(())
}

/// Maps paths of older packages, such as /lib, to those of newer ones, such as /usr/lib.
fn guest_path(path: &str) -> String {
    match path.split_once('/') {
        Some(("bin" | "sbin" | "lib" | "lib64", _)) => format!("usr/{path}"),
        _ => path.to_string(),
    }
}

/// Whether no program in the guest opens the file: documents, character sets, and drivers of cards.
fn is_left_out(path: &str) -> bool {
    let driver = path.contains("/libibverbs/") || path.contains("/libibverbs.d/");
    let name = path.rsplit('/').next().unwrap_or(path);
    ["usr/share", "usr/include", "usr/lib/tmpfiles.d"].contains(&path)
        || path.ends_with("/gconv")
        || driver && !name.starts_with("librxe") && !name.starts_with("rxe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_under_usr_and_only_one_driver_stays() {
        assert_eq!(
            guest_path("lib/x86_64-linux-gnu/libc.so.6"),
            "usr/lib/x86_64-linux-gnu/libc.so.6"
        );
        assert_eq!(guest_path("usr/bin/rdma"), "usr/bin/rdma");
        assert_eq!(
            guest_path("etc/libibverbs.d/rxe.driver"),
            "etc/libibverbs.d/rxe.driver"
        );
        assert!(is_left_out(
            "usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so"
        ));
        assert!(!is_left_out(
            "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"
        ));
        assert!(!is_left_out("etc/libibverbs.d/rxe.driver") && is_left_out("etc/libibverbs.d/mlx5.driver"));
        assert!(!is_left_out("usr/lib/x86_64-linux-gnu/libibverbs.so.1"));
    }
}
