//! The workspace as input of the rules: its files and cargo's metadata of its packages.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// All files that git tracks or would track, and the packages.
pub struct Tree {
    /// Files in git's order.
    pub files: Vec<File>,
    /// Output of `cargo metadata`, including dependencies.
    pub metadata: Value,
}

/// One file.
pub struct File {
    /// Path relative to the root, with `/`.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Text of the file; empty if it is not UTF-8.
    pub text: String,
}

impl Tree {
    /// Reads the workspace at `root`.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let listing = output(
            Command::new("git")
                .args(["ls-files", "--cached", "--others", "--exclude-standard"])
                .current_dir(root),
        )?;
        let files = listing
            .lines()
            .filter_map(|path| File::read(root, path))
            .collect();
        let metadata = output(
            Command::new("cargo")
                .args(["metadata", "--format-version", "1"])
                .current_dir(root),
        )?;
        let metadata = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
        Ok(Tree { files, metadata })
    }

    /// A file by its path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file or a folder of the tree.
    pub fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files
            .iter()
            .any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The Markdown files.
    pub fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }

    /// The packages of the workspace.
    pub fn members(&self) -> Vec<&Value> {
        let ids = self.metadata["workspace_members"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        self.packages()
            .filter(|package| ids.contains(&package["id"]))
            .collect()
    }

    /// All packages, including foreign ones.
    pub fn packages(&self) -> impl Iterator<Item = &Value> {
        self.metadata["packages"].as_array().into_iter().flatten()
    }
}

impl File {
    fn read(root: &Path, path: &str) -> Option<File> {
        let bytes = std::fs::read(root.join(path)).ok()?; // deleted, but still listed by git
        Some(File {
            path: path.to_string(),
            bytes: bytes.len() as u64,
            text: String::from_utf8(bytes).unwrap_or_default(),
        })
    }

    /// Lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

/// The code in a line of Rust: without its `//` comment and without the contents of strings.
pub fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut chars = line.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match (in_string, c) {
            (true, '\\') => drop(chars.next()),
            (true, '"') => in_string = false,
            (true, _) => continue,
            (false, '"') => in_string = true,
            (false, '\'') if chars.peek() == Some(&'"') => drop(chars.next()), // the character '"'
            (false, '/') if chars.peek() == Some(&'/') => break,
            (false, _) => {}
        }
        if !in_string || c == '"' {
            code.push(c);
        }
    }
    code
}

/// The comment in a line of Rust, without its slashes; `None` if there is none.
pub fn comment_of(line: &str) -> Option<&str> {
    let start = line.find("//")?;
    (!line[..start].ends_with(':')).then(|| line[start..].trim_start_matches(['/', '!']))
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command
        .output()
        .map_err(|e| format!("cannot start {name}: {e}"))?;
    if !out.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&out.stderr)));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
pub mod planted {
    //! Trees made up by tests.

    use super::*;

    /// A tree of these files, without packages.
    pub fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| File {
                path: path.to_string(),
                bytes: text.len() as u64,
                text: text.to_string(),
            })
            .collect();
        Tree {
            files,
            metadata: Value::Null,
        }
    }

    #[test]
    fn code_is_without_comments_and_strings() {
        assert_eq!(
            code_of("let a = \"// not a comment\"; // a comment"),
            "let a = \"\"; "
        );
        assert_eq!(code_of("unsafe { x() }"), "unsafe { x() }");
        assert_eq!(
            code_of("let quote = '\"'; unsafe"),
            "let quote = '; unsafe".replace("'; u", "''; u")
        );
    }

    #[test]
    fn comments_are_found_and_addresses_are_not() {
        assert_eq!(comment_of("x(); // why"), Some(" why"));
        assert_eq!(comment_of("/// doc"), Some(" doc"));
        assert_eq!(comment_of("\"https://example.org\""), None);
    }
}
