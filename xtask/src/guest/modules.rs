//! Selection and order of kernel modules: each lists its dependencies in its `.modinfo`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules that the guest needs. Software RoCE requests `crc32_generic` through the crypto layer, so no module lists it
/// as a dependency. A module that the kernel does not have is built in, or not needed there.
pub const WANTED: &[&str] = &["veth", "crc32_generic", "sch_netem", "ib_uverbs", "rdma_rxe"];
/// The module that provides the RDMA devices.
const ESSENTIAL: &str = "rdma_rxe";

/// Names and contents of the modules in `kernel`, each after its dependencies.
pub fn load_order(kernel: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut files = BTreeMap::new();
    find(kernel, &mut files);
    let mut order = Vec::new();
    for name in WANTED {
        add(name, &files, &mut order)?;
    }
    match order.iter().any(|(name, _)| name == ESSENTIAL) {
        true => Ok(order),
        false => Err(format!(
            "this kernel has no module {ESSENTIAL}: the `cloud` flavour has none"
        )),
    }
}

fn find(folder: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&path, files);
        } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
            files.insert(name.replace('-', "_"), path);
        }
    }
}

fn add(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    order: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), String> {
    let name = name.replace('-', "_");
    let Some(path) = files.get(&name) else {
        return Ok(());
    };
    if order.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    let bytes = read(path)?;
    for dependency in dependencies(&bytes) {
        add(&dependency, files, order)?;
    }
    order.push((name, bytes));
    Ok(())
}

/// Reads a module and decompresses it if needed.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let packed = path.extension().is_some_and(|end| end == "xz");
    if !packed {
        return fs::read(path).map_err(|e| format!("reading {}: {e}", path.display()));
    }
    let out = Command::new("xz").arg("-dc").arg(path).output();
    match out {
        Ok(out) if out.status.success() => Ok(out.stdout),
        _ => Err(format!("{} cannot be unpacked", path.display())),
    }
}

/// The comma-separated list after `depends=` in a module.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let list = module[at + KEY.len()..]
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default();
    let names = list.split(|&byte| byte == b',').filter(|name| !name.is_empty());
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_the_module() {
        let module = b"\x7fELF...license=GPL\0depends=ib_core,udp_tunnel\0name=rdma_rxe\0";
        assert_eq!(dependencies(module), ["ib_core", "udp_tunnel"]);
        assert_eq!(
            dependencies(b"license=GPL\0depends=\0name=veth\0"),
            Vec::<String>::new()
        );
        assert_eq!(dependencies(b"no module"), Vec::<String>::new());
    }
}
