//! memcached's source package, which contains its tests, from the Debian archive of this machine's packages. The
//! machine's own package lists stay unchanged: sources get lists in our folder.

use crate::command;
use crate::setup;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Places of apt's list of archives.
const LISTS: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];
/// Marker file in the unpacked folder, written last: the folder is complete.
const WHOLE: &str = "unpacked-whole";

/// Release of the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// The release of this machine's packages.
    Own,
    /// Debian's newest release, from the same archive.
    Newest,
}

/// Debian's name of its newest packages.
const NEWEST: &str = "sid";

/// The unpacked source below `folder`; downloaded if missing.
///
/// # Errors
/// No archive, or no such package.
pub fn unpacked(folder: &Path, release: Release) -> Result<PathBuf, String> {
    let place = folder.join("source");
    if place.join(WHOLE).is_file() {
        return Ok(place);
    }
    let _ = fs::remove_dir_all(folder);
    for name in [
        "apt/parts",
        "apt/lists/partial",
        "apt/cache/archives/partial",
        "source",
    ] {
        fs::create_dir_all(folder.join(name)).map_err(|e| format!("making {}: {e}", folder.display()))?;
    }
    let known = write_source_lists(&folder.join("apt/parts"), release)?;
    if known == 0 {
        return Err(format!("no archive is named in {}", LISTS.join(" or ")));
    }
    command::run(apt(folder).arg("update"))?;
    // Mirrors drop the description of a replaced package before its archive.
    let downloaded = command::run(apt(folder).args(["source", "--download-only", "memcached"]));
    let archive = newest_archive(folder).map_err(|why| downloaded.err().unwrap_or(why))?;
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-xf"])
        .arg(&archive)
        .arg("-C")
        .arg(&place);
    command::run(&mut tar)?;
    fs::write(place.join(WHOLE), "").map_err(|e| format!("writing {WHOLE}: {e}"))?;
    Ok(place)
}

/// `apt-get` that uses our folder only, except for the machine's keys.
fn apt(folder: &Path) -> Command {
    let place = |name: &str| folder.join("apt").join(name).display().to_string();
    let mut command = Command::new("apt-get");
    command.current_dir(folder).arg("-qq");
    for setting in [
        format!("Dir::Etc::sourcelist={}", place("none")),
        format!("Dir::Etc::sourceparts={}", place("parts")),
        format!("Dir::State::lists={}", place("lists")),
        format!("Dir::Cache={}", place("cache")),
        "APT::Sandbox::User=root".to_string(),
    ] {
        command.args(["-o", &setting]);
    }
    command
}

fn newest_archive(folder: &Path) -> Result<PathBuf, String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut archives: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| path.to_string_lossy().contains(".orig.tar."))
        .collect();
    archives.sort();
    archives
        .pop()
        .ok_or("the source package has no archive".to_string())
}

/// Writes the machine's lists as lists of sources; returns how many archives there are.
fn write_source_lists(to: &Path, release: Release) -> Result<usize, String> {
    let mut files = vec![PathBuf::from(LISTS[0])];
    let parts = fs::read_dir(LISTS[1]).into_iter().flatten().flatten();
    files.extend(parts.map(|file| file.path()));
    let mut known = 0;
    for from in files {
        let Ok(text) = fs::read_to_string(&from) else {
            continue;
        };
        let (text, extension) = match from.extension().is_some_and(|e| e == "sources") {
            true => (sources_of_stanzas(&text), "sources"),
            false => (sources_of_lines(&text), "list"),
        };
        let text = match release {
            Release::Own => text,
            Release::Newest => newest(&text),
        };
        if !text.is_empty() {
            let name = to.join(format!("{known}.{extension}"));
            fs::write(&name, text).map_err(|e| format!("writing {}: {e}", name.display()))?;
            known += 1;
        }
    }
    Ok(known)
}

/// Parses the older format, one line per archive, for Debian's own packages.
fn sources_of_lines(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("deb ") && is_debian(line));
    lines
        .map(|line| format!("{}\n", line.replacen("deb ", "deb-src ", 1)))
        .collect()
}

/// Parses the newer format, paragraphs of fields.
fn sources_of_stanzas(text: &str) -> String {
    let stanzas = text
        .split("\n\n")
        .filter(|stanza| is_debian(stanza) && stanza.contains("Types:"));
    let change = |line: &str| match line.starts_with("Types:") {
        true => "Types: deb-src\n".to_string(),
        false => format!("{line}\n"),
    };
    let each = |stanza: &str| stanza.lines().map(change).collect::<String>() + "\n";
    stanzas.map(each).collect()
}

/// The same archives with their newest release; archives of security fixes have none.
fn newest(text: &str) -> String {
    let stanza = |stanza: &&str| !stanza.contains("security");
    let change = |line: &str| match line.split_once(' ') {
        Some(("Suites:", _)) => format!("Suites: {NEWEST}\n"),
        Some(("deb-src", rest)) => {
            let mut words: Vec<&str> = rest.split(' ').collect();
            if let Some(suite) = words.iter_mut().skip_while(|word| !word.contains("://")).nth(1) {
                *suite = NEWEST;
            }
            format!("deb-src {}\n", words.join(" "))
        }
        _ => format!("{line}\n"),
    };
    let each = |stanza: &str| stanza.lines().map(change).collect::<String>() + "\n";
    text.split_inclusive("\n\n")
        .filter(stanza)
        .map(|s| each(s.trim_end()))
        .collect()
}

/// Whether an archive is Debian's. Others (of a cloud, of a language) often have no sources, and then apt fails.
fn is_debian(text: &str) -> bool {
    text.contains("debian") && text.contains(" main")
}

/// Tools to unpack and run it.
pub const TOOLS: &[setup::Tool] = &[
    (
        "memcached",
        "memcached",
        "what its own suite, and our comparisons, are proven with",
    ),
    ("perl", "perl", "runs memcached's own suite"),
    ("xz", "xz-utils", "unpacks memcached's source"),
    ("dpkg-source", "dpkg-dev", "checks memcached's source"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_of_the_same_archive() {
        assert_eq!(
            newest("deb-src [trusted=yes] http://mirror/debian stable main\n"),
            "deb-src [trusted=yes] http://mirror/debian sid main\n\n"
        );
        let stanzas = "Types: deb-src\nURIs: http://m/debian\nSuites: a b\n\nTypes: deb-src\nURIs: http://m/debian-security\n\n";
        assert_eq!(
            newest(stanzas),
            "Types: deb-src\nURIs: http://m/debian\nSuites: sid\n\n"
        );
    }

    #[test]
    fn lists_of_packages_become_lists_of_sources() {
        let lines = "# ours\ndeb http://mirror/debian stable main\ndeb http://cloud/apt cloud main\n";
        assert_eq!(
            sources_of_lines(lines),
            "deb-src http://mirror/debian stable main\n"
        );
        let stanzas = "Types: deb\nURIs: http://mirror/debian\nComponents: main\n\nTypes: deb\nURIs: http://other\nComponents: main\n";
        assert_eq!(
            sources_of_stanzas(stanzas),
            "Types: deb-src\nURIs: http://mirror/debian\nComponents: main\n\n"
        );
    }
}
