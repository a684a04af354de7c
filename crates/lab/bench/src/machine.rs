//! [`Machine`]: description of the machine that a result was measured on.

use serde::{Deserialize, Serialize};

/// Properties of the machine that affect results.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the folder for this machine's results, made from the processor's name and the number of cores: lower
    /// case, digits and dashes.
    pub name: String,
    /// The processor's name in `/proc/cpuinfo`, or `unknown processor`.
    pub cpu: String,
    /// Number of logical cores of the machine, not only those that this process may use.
    pub cores: usize,
    /// Whether the processor reports a hypervisor.
    pub hypervisor: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Total memory, MiB.
    pub memory_mib: u64,
    /// Number of reserved huge pages of the default size, used or free.
    pub huge_pages: u64,
    /// The system's setting for transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: String,
}

impl Machine {
    /// Describes this machine. Properties that the operating system does not report are empty, 0 or false, except
    /// `cores` (1) and `cpu` (`unknown processor`).
    pub fn this() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (cpuinfo, meminfo) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let cpu = field(&cpuinfo, "model name")
            .unwrap_or("unknown processor")
            .to_owned();
        // Not the cores of this thread, which may be pinned.
        let cores = cpuinfo
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count()
            .max(1);
        let number = |name| field(&meminfo, name).and_then(first_number).unwrap_or(0);
        Machine {
            name: format!("{}-{cores}c", slug(&cpu)),
            cores,
            hypervisor: field(&cpuinfo, "flags").is_some_and(|f| f.split(' ').any(|w| w == "hypervisor")),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            memory_mib: number("MemTotal") / 1024,
            huge_pages: number("HugePages_Total"),
            transparent_huge_pages: chosen(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            cpu,
        }
    }
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or_else(String::new, |(word, _)| word.to_owned())
}

/// Lower case, with single dashes for everything but letters and digits.
fn slug(text: &str) -> String {
    let words = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_their_spacing() {
        let text = "model name\t: Some CPU (R) @ 2 GHz\nMemTotal:  24684096 kB\n";
        assert_eq!(field(text, "model name"), Some("Some CPU (R) @ 2 GHz"));
        assert_eq!(field(text, "MemTotal").and_then(first_number), Some(24_684_096));
        assert_eq!(slug("Some CPU (R) @ 2 GHz"), "some-cpu-r-2-ghz");
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("nonsense"), "");
    }

    #[test]
    fn this_machine_has_a_name_and_cores() {
        let machine = Machine::this();
        assert!(machine.cores >= 1);
        assert!(!machine.name.contains(' '), "{}", machine.name);
    }
}
