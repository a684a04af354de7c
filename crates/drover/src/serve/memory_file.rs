//! `-e`: items in a file that the next start takes over.

use super::file_space;
use super::memcached::unix_time_s;
use super::settings::Settings;
use crate::advice;
use crate::exit::{self, Failure};
use drover_base::HashSeed;
use drover_kv::Hosting;
use drover_store::{PartitionOptions, WarmFile};
use drover_verbs::Provider;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the memory file and stores it in `hosting`, with its hash seed and the seconds since its first start. Does
/// nothing if `settings` has no memory file. The hash seed is the file's own after a warm start (its items are kept),
/// otherwise `seed`. `now_s` is the wall clock at the server's start, seconds since 1970. Logs whether the start is
/// warm or cold; for a cold start, also the reason.
///
/// # Errors
/// The file belongs to another user, cannot be opened, or does not fit on its file system.
pub fn open<P: Provider>(
    settings: &Settings,
    partition: &PartitionOptions,
    hosting: &mut Hosting<P>,
    seed: HashSeed,
    now_s: u64,
) -> Result<(), Failure> {
    let Some(path) = &settings.memory.memory_file.value else {
        return Ok(());
    };
    check_owner(path)?;
    let count = settings.capacity.threads.value;
    let (file, doubt) = WarmFile::open(path, partition, count, seed, None, now_s)
        .map_err(|error| Failure::new(exit::OS_ERROR, advice::of_file("-e", path, &error)))?;
    let is_warm = doubt.is_none();
    file_space::reserve(path, settings.capacity.memory_mib.value, count, is_warm)?;
    let start_s = now_s.saturating_sub(file.start_unix_s());
    match doubt {
        None => tracing::info!(
            "memory file {}: warm start, {start_s} s after the first",
            path.display()
        ),
        Some(doubt) => tracing::info!("memory file {}: cold start: {doubt}", path.display()),
    }
    hosting.start_s = start_s as u32;
    hosting.hash_seed = Some(file.seed());
    hosting.memory_file = Some(Arc::new(file));
    Ok(())
}

/// Checks that this user owns the file: the owner may write to it while it is mapped.
///
/// # Errors
/// The file belongs to another user.
fn check_owner(path: &Path) -> Result<(), Failure> {
    let Ok(is) = std::fs::metadata(path) else {
        return Ok(()); // missing, or opening it reports the error
    };
    let (owner, we) = (is.uid(), rustix::process::geteuid().as_raw());
    if owner == we {
        return Ok(());
    }
    let text = format!(
        "-e {}: it belongs to user {owner}, and this is user {we}: chown it, or name another file",
        path.display()
    );
    Err(Failure::new(exit::NO_PERMISSION, text))
}

/// Writes the description of the items into the memory file, so that the next start can take them over. To be called
/// after all workers have ended; if one did not end cleanly, only logs that the next start will be cold.
///
/// # Errors
/// The description cannot be written.
pub fn seal(path: &Path, warm: &WarmFile) -> Result<(), Failure> {
    let shown = path.display();
    match warm.seal(unix_time_s()) {
        Ok(true) => tracing::info!("memory file {shown}: items kept for the next start"),
        Ok(false) => {
            tracing::warn!(
                "memory file {shown}: some workers did not end cleanly; the next start will be cold"
            )
        }
        Err(error) => {
            let meta = PathBuf::from(format!("{shown}.meta"));
            let why = advice::of_file("-e", &meta, &error);
            let text = format!("{why}; the next start will be cold");
            return Err(Failure::new(exit::OS_ERROR, text));
        }
    }
    Ok(())
}
