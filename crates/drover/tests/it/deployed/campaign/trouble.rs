//! [`Trouble`]: what may happen to a member, or to etcd.

/// What may happen to a member, or to etcd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// SIGKILL, and a new start when the others serve all keys.
    Kill,
    /// SIGSTOP until the others serve all keys.
    Pause,
    /// No way to etcd until the others serve all keys.
    Cut,
    /// SIGKILL for etcd, and a new start.
    Etcd,
    /// `cluster drain`, a stop, and a new start.
    Drain,
}

const TROUBLES: [(&str, Trouble); 5] = [
    ("kill", Trouble::Kill),
    ("pause", Trouble::Pause),
    ("cut", Trouble::Cut),
    ("etcd", Trouble::Etcd),
    ("drain", Trouble::Drain),
];

/// The kinds that `counts` names, each as often as it says: `kill=2,pause=1`.
pub fn troubles_of(counts: &str) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for part in counts.split(',') {
        let (name, count) = part.split_once('=').expect("NAME=COUNT");
        let found = TROUBLES.iter().find(|trouble| trouble.0 == name);
        let (_, trouble) = found.unwrap_or_else(|| panic!("no trouble is called {name}"));
        let count: usize = count.parse().expect("a number");
        troubles.extend(std::iter::repeat_n(*trouble, count));
    }
    troubles
}
