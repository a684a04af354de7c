//! What a member's addresses are for: links between members, memcached's clients, monitors; all others are for native clients.

use drover_cluster::Advert;

/// Links between members and hand-overs: `member://HOST:PORT?cores=N`.
pub const MEMBER: &str = "member://";
/// memcached's clients: `memcached://HOST:PORT`.
pub const MEMCACHED: &str = "memcached://";
/// The admin port: `http://HOST:PORT`.
pub const ADMIN: &str = "http://";

/// `HOST:PORT` of the first address of this kind.
pub fn host_port<'a>(advert: &'a Advert, scheme: &str) -> Option<&'a str> {
    let rest = advert
        .addresses()
        .iter()
        .find_map(|address| address.strip_prefix(scheme))?;
    rest.split('?').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_by_kind() {
        let addresses = ["member://a:1?cores=2", "memcached://b:2"].map(str::to_owned);
        let advert = Advert::new("a", 1, addresses.to_vec()).expect("a sound advert");
        assert_eq!(host_port(&advert, MEMBER), Some("a:1"));
        assert_eq!(host_port(&advert, MEMCACHED), Some("b:2"));
        assert_eq!(host_port(&advert, ADMIN), None);
    }
}
