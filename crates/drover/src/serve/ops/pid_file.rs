//! `-P`: the process's number in a file, for as long as the process lives.

use crate::exit::{self, Failure};
use std::path::{Path, PathBuf};

/// A file that goes when this is dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes it. A number of another process that lives is overwritten with a warning, as it may be of another service.
    pub fn write(path: &Path) -> Result<PidFile, Failure> {
        let old = std::fs::read_to_string(path).unwrap_or_default();
        let old = old.trim();
        if old.parse::<u32>().is_ok() && Path::new("/proc").join(old).exists() {
            tracing::warn!("{} names process {old}, which lives", path.display());
        }
        // Nobody ever sees half a number: it appears under its name when it is whole.
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}", std::process::id()));
        let written = std::fs::write(&new, format!("{}\n", std::process::id()))
            .and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| {
            let _ = std::fs::remove_file(&new); // it may not even be there
            Failure::new(exit::OS_ERROR, format!("-P {}: {error}", path.display()))
        })?;
        Ok(PidFile(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!("{} stays: {error}", self.0.display());
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
