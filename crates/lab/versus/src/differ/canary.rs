//! Planted mistakes: one side's answers are changed before the comparison, which must notice.

/// A mistake planted on purpose to test the comparison: a change of one server's answers that it must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Canary {
    /// Name of the mistake.
    pub name: &'static str,
    find: &'static [u8],
    put: &'static [u8],
}

/// All mistakes that can be planted. Each replaces certain bytes where they first occur in the answers to a batch.
pub const CANARIES: &[Canary] = &[
    canary(
        "a store that is refused",
        b"\r\nSTORED\r\n",
        b"\r\nNOT_STORED\r\n",
    ),
    canary("a hit that is none", b"\r\nHD\r\n", b"\r\nEN\r\n"),
    canary("flags lost", b" 65536 ", b" 0 "),
    canary("an answer left out", b"\r\nDELETED\r\n", b"\r\n"),
    canary("an item not fetched", b"\r\nNF\r\n", b"\r\nHD\r\n"),
    canary("a time to live for ever", b" t-1 ", b" t0 "),
    canary("an end too many", b"\r\nEND\r\n", b"\r\nEND\r\nEND\r\n"),
    canary(
        "an error of another kind",
        b"\r\nERROR\r\n",
        b"\r\nCLIENT_ERROR bad command line format\r\n",
    ),
];

const fn canary(name: &'static str, find: &'static [u8], put: &'static [u8]) -> Canary {
    Canary { name, find, put }
}

impl Canary {
    /// Plants the mistake in `answers`, the answers to one batch: replaces the first place where it fits, if any.
    pub fn sing(&self, answers: &mut Vec<u8>) {
        let place = answers
            .windows(self.find.len())
            .position(|window| window == self.find);
        if let Some(at) = place {
            answers.splice(at..at + self.find.len(), self.put.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_one_place() {
        let mut answers = b"END\r\nSTORED\r\nSTORED\r\n".to_vec();
        CANARIES[0].sing(&mut answers);
        assert_eq!(answers, b"END\r\nNOT_STORED\r\nSTORED\r\n");
    }
}
