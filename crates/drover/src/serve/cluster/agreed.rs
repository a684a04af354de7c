//! [`Agreed`]: what all members of a service must have in common, and what becomes of a member that wants something else.

use crate::cluster::ServiceUrl;
use crate::exit::{self, Failure};
use crate::serve::settings::ClusterSettings;
use drover_cluster::ServiceSettings;

/// Lease and replicas of a member, as its service has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Seconds of the lease.
    pub lease_s: u64,
    /// Members that have each item.
    pub replicas: u8,
}

impl Agreed {
    /// What the member wants, or chooses for a service that has no settings yet.
    pub fn of(wanted: &ClusterSettings) -> Agreed {
        Agreed {
            lease_s: wanted.lease_s.value,
            replicas: wanted.replicas.value,
        }
    }

    /// What the service has. A member that was not told anything has the same.
    ///
    /// # Errors
    /// The member was told something else.
    pub fn with(
        service: &ServiceUrl,
        wanted: &ClusterSettings,
        found: &ServiceSettings,
    ) -> Result<Agreed, Failure> {
        let own = Agreed::of(wanted);
        let agreed = Agreed {
            lease_s: found.lease_s.map_or(own.lease_s, u64::from),
            replicas: found.replicas,
        };
        if wanted.lease_s.is_said() && own.lease_s != agreed.lease_s {
            let (own, agreed) = (own.lease_s, agreed.lease_s);
            return Err(differs(service, "--lease", own, agreed, "a lease", " seconds"));
        }
        if wanted.replicas.is_said() && own.replicas != agreed.replicas {
            let (own, agreed) = (own.replicas.into(), agreed.replicas.into());
            return Err(differs(
                service,
                "--replicas",
                own,
                agreed,
                "a number of replicas",
                "",
            ));
        }
        Ok(agreed)
    }
}

/// Both values, and what to do.
fn differs(service: &ServiceUrl, flag: &str, own: u64, agreed: u64, what: &str, unit: &str) -> Failure {
    let text = format!(
        "{flag} {own}: the members of {service} have {what} of {agreed}{unit}, which its first member chose: say {flag} \
         {agreed}, or nothing; to change it, stop all members, and delete the key drover/{}/settings in etcd",
        service.service()
    );
    Failure::new(exit::USAGE, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::settings::ClusterArgs;
    use drover_base::{HashKind, HashSeed};
    use drover_cluster::SECRET_BYTES;

    fn found(lease_s: Option<u16>, replicas: u8) -> ServiceSettings {
        ServiceSettings {
            hash_seed: HashSeed::of(HashKind::Aes, 1, 2),
            secret: [0; SECRET_BYTES],
            replicas,
            lease_s,
        }
    }

    /// What becomes of a member that was told this lease and this number of replicas.
    fn with(lease_s: Option<u64>, replicas: Option<u8>, found: &ServiceSettings) -> Result<Agreed, String> {
        let service: ServiceUrl = "etcd://h:1/cache".parse().expect("a sound address");
        let typed = ClusterArgs {
            lease_s,
            replicas,
            ..ClusterArgs::default()
        };
        let wanted = ClusterSettings::fill(typed, ClusterArgs::default(), &mut Vec::new());
        let wanted = wanted.map_err(|failure| failure.text)?;
        Agreed::with(&service, &wanted, found).map_err(|failure| failure.text)
    }

    #[test]
    fn a_member_that_was_told_nothing_has_what_the_service_has() {
        let expected = Ok(Agreed {
            lease_s: 20,
            replicas: 2,
        });
        assert_eq!(with(None, None, &found(Some(20), 2)), expected);
        assert_eq!(with(Some(20), Some(2), &found(Some(20), 2)), expected);
    }

    #[test]
    fn members_of_an_older_service_have_leases_of_their_own() {
        let own = Agreed {
            lease_s: 9,
            replicas: 1,
        };
        assert_eq!(with(Some(9), None, &found(None, 1)), Ok(own));
    }

    #[test]
    fn another_value_is_refused_with_both() {
        let lease = with(Some(9), None, &found(Some(20), 1)).expect_err("refused");
        assert_eq!(
            lease,
            "--lease 9: the members of etcd://h:1/cache have a lease of 20 seconds, which its first member chose: say --lease \
             20, or nothing; to change it, stop all members, and delete the key drover/cache/settings in etcd"
        );
        let replicas = with(None, Some(1), &found(Some(6), 2)).expect_err("refused");
        assert!(
            replicas
                .starts_with("--replicas 1: the members of etcd://h:1/cache have a number of replicas of 2,"),
            "{replicas}"
        );
    }
}
