//! [`Reply`]: lines of memcached's text protocol that a server answers with.

/// A line of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// A found item: its value and a line end follow.
    Value {
        /// The key.
        key: &'a str,
        /// Size of the value.
        bytes: usize,
    },
    /// The end of the found items, or of the statistics.
    End,
    /// A `set` was done.
    Stored,
    /// The server has no memory for an item, or the item is too large.
    Refused,
    /// A statistic.
    Stat {
        /// Its name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
}

impl<'a> Reply<'a> {
    /// Parses a line, with or without its end.
    ///
    /// # Errors
    /// Any other line, with its text.
    pub fn parse(line: &'a [u8]) -> Result<Reply<'a>, String> {
        let unexpected = || format!("unexpected answer: {}", String::from_utf8_lossy(line).trim_end());
        let text = std::str::from_utf8(line).map_err(|_| unexpected())?.trim_end();
        let words: Vec<&str> = text.splitn(5, ' ').collect();
        match words[..] {
            ["VALUE", key, _flags, bytes] => match bytes.parse() {
                Ok(bytes) => Ok(Reply::Value { key, bytes }),
                Err(_) => Err(unexpected()),
            },
            ["END"] => Ok(Reply::End),
            ["STORED"] => Ok(Reply::Stored),
            ["SERVER_ERROR", ..] => Ok(Reply::Refused),
            ["STAT", name, value, ..] => Ok(Reply::Stat { name, value }),
            ["STAT", name] => Ok(Reply::Stat { name, value: "" }),
            _ => Err(unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_answer() {
        for (line, reply) in [
            (
                "VALUE k1 0 400\r\n",
                Reply::Value {
                    key: "k1",
                    bytes: 400,
                },
            ),
            ("END\r\n", Reply::End),
            ("STORED\r\n", Reply::Stored),
            ("SERVER_ERROR out of memory storing object\r\n", Reply::Refused),
            (
                "STAT curr_items 12\r\n",
                Reply::Stat {
                    name: "curr_items",
                    value: "12",
                },
            ),
            (
                "STAT empty \r\n",
                Reply::Stat {
                    name: "empty",
                    value: "",
                },
            ),
        ] {
            assert_eq!(Reply::parse(line.as_bytes()), Ok(reply), "{line}");
        }
    }

    #[test]
    fn refuses_other_lines_and_shows_them() {
        for line in [
            "",
            "ERROR\r\n",
            "VALUE k 0\r\n",
            "VALUE k 0 x\r\n",
            "CLIENT_ERROR bad\r\n",
        ] {
            let why = Reply::parse(line.as_bytes()).expect_err("no such answer");
            assert_eq!(why, format!("unexpected answer: {}", line.trim_end()));
        }
        assert!(Reply::parse(b"\xff\r\n").is_err());
    }
}
