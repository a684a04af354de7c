//! The command lines in `examples/deploy/compose.yaml`.

use std::path::Path;

/// A service of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its name, which is its host name, too.
    pub name: String,
    /// Its program and that one's arguments.
    pub words: Vec<String>,
}

/// All services of the file, in its order.
pub fn services() -> Vec<Service> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/deploy/compose.yaml");
    services_of(&std::fs::read_to_string(path).expect("our own"))
}

/// Services as that file writes them: two spaces before a name, and lists of words on one line, as JSON has them.
fn services_of(text: &str) -> Vec<Service> {
    let mut services: Vec<Service> = Vec::new();
    let (_, rest) = text.split_once("\nservices:\n").expect("services");
    let (ours, _) = rest.split_once("\nvolumes:\n").unwrap_or((rest, ""));
    for line in ours.lines() {
        let name = line.strip_prefix("  ").and_then(|line| line.strip_suffix(':'));
        if let Some(name) = name.filter(|name| !name.starts_with(' ')) {
            let name = name.to_owned();
            services.push(Service {
                name,
                words: Vec::new(),
            });
        }
        let list = ["entrypoint: ", "command: "]
            .iter()
            .find_map(|key| line.trim().strip_prefix(key));
        if let Some(list) = list {
            let words: Vec<String> = serde_json::from_str(list).expect("a list of words");
            let service = services.last_mut().expect("a service");
            service.words.extend(words);
        }
    }
    services
}

#[test]
fn the_file_has_a_registry_and_three_members() {
    let services = services();
    let names: Vec<&str> = services.iter().map(|service| &*service.name).collect();
    assert_eq!(names, ["etcd", "a", "b", "c"]);
    assert_eq!(services[0].words[0], "etcd");
    for member in &services[1..] {
        assert_eq!(member.words[..2], ["drover", "serve"]);
        assert!(member.words.contains(&member.name), "it advertises its own name");
    }
}
