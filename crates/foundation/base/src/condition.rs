//! [`Condition`] of an update, and the longest key: what stores and systems have in common without knowing each other.

/// Longest key, bytes (memcached's limit). The shortest is 1.
pub const KEY_BYTES_MAX: usize = 250;

/// Condition of an update of a key. A key that has expired does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Condition {
    /// No condition.
    #[default]
    Always,
    /// The key does not exist (memcached's `add`).
    IfAbsent,
    /// The key exists (`replace`).
    IfPresent,
    /// The key exists, and its item has this version (`cas`).
    IfVersion(u64),
}

impl Condition {
    /// Whether the condition holds for a key whose item has the version `present`; `None`: the key does not exist.
    #[inline]
    pub fn holds(self, present: Option<u64>) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfAbsent => present.is_none(),
            Condition::IfPresent => present.is_some(),
            Condition::IfVersion(wanted) => present == Some(wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Condition::{Always, IfAbsent, IfPresent, IfVersion};

    #[test]
    fn conditions_say_who_is_there() {
        for (condition, to_none, to_seven) in [
            (Always, true, true),
            (IfAbsent, true, false),
            (IfPresent, false, true),
            (IfVersion(7), false, true),
            (IfVersion(6), false, false),
            (IfVersion(0), false, false),
        ] {
            let held = (condition.holds(None), condition.holds(Some(7)));
            assert_eq!(held, (to_none, to_seven), "{condition:?}");
        }
    }
}
