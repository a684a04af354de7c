//! [`Advertised`]: where others reach a member.

use std::fmt;
use std::str::FromStr;

/// Port of the links between members, where none is named: the one after memcached's.
const MEMBER_PORT: u16 = 11212;

/// `HOST[:PORT]` of `--advertise`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advertised {
    /// Host name or IP address, the latter without brackets.
    pub host: String,
    /// Port of the links between members.
    pub port: u16,
}

impl Advertised {
    /// `HOST:PORT` of another port at this host.
    pub fn at(&self, port: u16) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{port}", self.host),
            false => format!("{}:{port}", self.host),
        }
    }
}

impl fmt::Display for Advertised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at(self.port))
    }
}

impl FromStr for Advertised {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Advertised, &'static str> {
        let expected = "expected HOST or HOST:PORT, such as 10.0.0.1";
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(expected)?,
            None if text.matches(':').count() > 1 => (text, ""),
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or(expected)?,
            None if port.is_empty() => MEMBER_PORT,
            None => return Err(expected),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(expected);
        }
        if host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_unspecified()) {
            return Err("nobody reaches a host by this address: name one that the other machines know");
        }
        let host = host.to_owned();
        Ok(Advertised { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_and_without_ports() {
        for (text, shown) in [
            ("10.0.0.1", "10.0.0.1:11212"),
            ("cache-1.example:7", "cache-1.example:7"),
            ("::1", "[::1]:11212"),
            ("[::1]", "[::1]:11212"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(
                text.parse::<Advertised>().map(|it| it.to_string()),
                Ok(shown.to_owned())
            );
        }
        for text in [
            "", ":7", "a:", "a:0", "a:x", "[::1", "[::1]7", "0.0.0.0", "::", "a b", "a/b",
        ] {
            assert!(text.parse::<Advertised>().is_err(), "{text}");
        }
    }
}
