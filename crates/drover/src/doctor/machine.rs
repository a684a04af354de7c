//! [`Machine`]: the files in which Linux describes a machine, real or made up by a test.

use drover_verbs_ibv::Survey;
use drover_verbs_shm::ShmDevice;
use std::cell::OnceCell;
use std::path::PathBuf;

/// What checks look at: the folder that holds `proc`, `sys` and `dev`, the usable cores, and the RDMA devices; of this
/// machine, or made up by a test.
pub struct Machine {
    root: PathBuf,
    /// Indices of the cores that this process may use, ascending.
    pub cores: Vec<usize>,
    /// RDMA devices, surveyed on first use.
    survey: OnceCell<Result<Survey, String>>,
    /// Whether the kernel refuses to run barriers for processes here.
    pub barriers_refused: bool,
}

impl Machine {
    /// The machine that this process runs on.
    pub fn this() -> Machine {
        Machine {
            root: PathBuf::from("/"),
            cores: own_cores(),
            survey: OnceCell::new(),
            barriers_refused: ShmDevice::posts_are_fenced(),
        }
    }

    /// The trimmed text of a file, whose path is relative to the root; empty if it cannot be read.
    pub fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path))
            .unwrap_or_default()
            .trim()
            .to_string()
    }

    /// Names in a folder, sorted; none if it cannot be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Whether a file can be opened for reading and writing, as a device must be.
    pub fn can_open(&self, path: &str) -> bool {
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.root.join(path))
            .is_ok()
    }

    /// Whether this is the machine that the process runs on, not one made up by a test; otherwise measurements have no
    /// meaning.
    pub fn is_real(&self) -> bool {
        self.root == *"/"
    }

    /// RDMA devices of the machine, or why they cannot be listed. Looks for them in the first call only.
    pub fn survey(&self) -> Result<&Survey, &str> {
        let look = || Survey::take(None).map_err(|error| error.to_string());
        self.survey.get_or_init(look).as_ref().map_err(String::as_str)
    }

    /// The number in the line `name: number unit` of the file at `path`; `None` if there is no such line or file.
    pub fn number(&self, path: &str, name: &str) -> Option<u64> {
        let text = self.text(path);
        let rest = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_string))?;
        rest.split_whitespace().next()?.parse().ok()
    }
}

fn own_cores() -> Vec<usize> {
    let mut cores: Vec<usize> = drover_rt::cores::cores()
        .unwrap_or_default()
        .iter()
        .map(|core| core.index)
        .collect();
    cores.sort_unstable();
    cores
}

#[cfg(test)]
impl Machine {
    /// A machine without any files.
    pub fn empty() -> Machine {
        Machine {
            root: PathBuf::from("/nowhere"),
            cores: vec![0],
            survey: OnceCell::from(Err("nothing is there".to_string())),
            barriers_refused: false,
        }
    }

    /// The same machine with these devices.
    pub fn with(mut self, survey: Survey) -> Machine {
        self.survey = OnceCell::from(Ok(survey));
        self
    }

    /// A machine of these files, in a temporary folder.
    pub fn made_of(name: &str, files: &[(&str, &str)]) -> Machine {
        let root = std::env::temp_dir().join(format!("drover-doctor-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("temporary folder");
            std::fs::write(path, text).expect("temporary file");
        }
        Machine {
            root,
            cores: vec![0, 1],
            survey: OnceCell::from(Err("nothing is there".to_string())),
            barriers_refused: false,
        }
    }
}

#[cfg(test)]
impl Drop for Machine {
    fn drop(&mut self) {
        if self.root.starts_with(std::env::temp_dir()) && self.root != std::env::temp_dir() {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}
