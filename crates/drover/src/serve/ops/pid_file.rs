//! `-P`: the process id in a file during the process's life.

use crate::advice;
use crate::exit::{self, Failure};
use std::path::{Path, PathBuf};

/// The pid file; dropping this removes it.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes this process's id to the file at `path`. Overwrites an old content; if that is the id of a live process,
    /// logs a warning.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(path: &Path) -> Result<PidFile, Failure> {
        let old = std::fs::read_to_string(path).unwrap_or_default();
        let old = old.trim();
        if old.parse::<u32>().is_ok() && Path::new("/proc").join(old).exists() {
            tracing::warn!("overwriting {}: process {old} in it is alive", path.display());
        }
        // The file is renamed into place when complete, so no reader sees half a number.
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}", std::process::id()));
        let written = std::fs::write(&new, format!("{}\n", std::process::id()))
            .and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| {
            let _ = std::fs::remove_file(&new); // it may not exist
            Failure::new(exit::OS_ERROR, advice::of_file("-P", path, &error))
        })?;
        Ok(PidFile(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            // After `-u` the folder may be root's alone.
            tracing::warn!(
                "cannot remove {}: {error}; the next start overwrites it",
                self.0.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_our_number_and_goes() {
        let path = std::env::temp_dir().join(format!("drover-pid-{}", std::process::id()));
        let file = PidFile::write(&path).expect("a folder for all");
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        let failure = PidFile::write(&path.join("x")).expect_err("no such folder");
        assert_eq!(failure.code, exit::OS_ERROR);
    }
}
