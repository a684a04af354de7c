//! [`Network`]: how a member's threads reach cores, its own and those of other members.

use std::fmt;
use std::io;

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallTarget {
    /// The core with this index.
    Core(u16),
    /// The core with this index, for messages about copies, which it takes while it waits for other members.
    Copies(u16),
    /// The member's control thread.
    Control,
}

impl fmt::Display for CallTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallTarget::Core(index) => write!(f, "core {index}"),
            CallTarget::Copies(index) => write!(f, "core {index}, for copies"),
            CallTarget::Control => f.write_str("the control thread"),
        }
    }
}

/// A connection on which a thread asks one question after the other.
pub trait Call: Send {
    /// Sends a message and waits for its reply.
    ///
    /// # Errors
    /// The connection broke, or there was no reply in time. No other call must follow then.
    fn call(&mut self, message: &[u8]) -> io::Result<&[u8]>;
}

/// Connects to the cores and control threads of members.
pub trait Network: Send + Sync {
    /// Connects to a part of the member `name` that is reached at `address`.
    ///
    /// # Errors
    /// Nobody answers there, or somebody else does.
    fn connect(&self, name: &str, address: &MemberAddress, target: CallTarget) -> io::Result<Box<dyn Call>>;
}

/// The address at which members reach each other: `member://HOST:PORT?cores=N`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberAddress {
    /// Host and port.
    pub host_port: String,
    /// Number of cores, not 0.
    pub core_count: u16,
}

impl MemberAddress {
    /// The first such address of those that a member advertises.
    pub fn of(addresses: &[String]) -> Option<MemberAddress> {
        addresses.iter().find_map(|text| {
            let (host_port, cores) = text.strip_prefix("member://")?.split_once("?cores=")?;
            let core_count = cores.parse().ok().filter(|count| *count > 0)?;
            Some(MemberAddress {
                host_port: host_port.to_string(),
                core_count,
            })
        })
    }
}

impl fmt::Display for MemberAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member://{}?cores={}", self.host_port, self.core_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_member_stands_among_others() {
        let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        let found = MemberAddress::of(&texts(&["memcached://a:1", "member://[::1]:11212?cores=3"]));
        let found = found.expect("an address");
        assert_eq!((found.host_port.as_str(), found.core_count), ("[::1]:11212", 3));
        assert_eq!(found.to_string(), "member://[::1]:11212?cores=3");
        for bad in [
            "member://a:1",
            "member://a:1?cores=0",
            "member://a:1?cores=x",
            "tcp://a:1?cores=1",
        ] {
            assert_eq!(MemberAddress::of(&texts(&[bad])), None, "{bad}");
        }
    }
}
