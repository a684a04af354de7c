//! The table of key-value systems. Commands, benchmarks, simulations, suites and documents iterate over it, so a new
//! system needs its crate and one line here.
//!
//! ```
//! use drover_systems::System;
//! let names: Vec<&str> = System::ALL.iter().map(|system| system.facts().name).collect();
//! assert_eq!(
//!     names,
//!     ["herd", "pilaf", "farm", "jakiro", "server-reply", "server-reply-faithful", "rdma-memcached", "race"]
//! );
//! assert_eq!(System::named("pilaf"), Some(System::Pilaf));
//! ```
#![forbid(unsafe_code)]

/// Defines a table of systems: an enum with a variant per row, and the only `match` from a variant to its type, which
/// implements [`kv::SteppedSystem`](drover_kv::SteppedSystem). The enum implements [`SystemTable`](drover_kv::SystemTable).
#[macro_export]
macro_rules! systems {
    ($(#[$meta:meta])* $visibility:vis enum $Name:ident { $($(#[$about:meta])* $Variant:ident = $Type:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        $visibility enum $Name {
            $($(#[$about])* $Variant,)+
        }

        impl $Name {
            /// All systems, in the order of the table.
            pub const ALL: &'static [$Name] = &[$($Name::$Variant,)+];

            /// Static properties of the system.
            pub fn facts(self) -> &'static $crate::kv::Facts {
                match self {
                    $($Name::$Variant => const { &<$Type as $crate::kv::System>::FACTS },)+
                }
            }

            /// Calls `run` of `job` with the system's type, and returns the job's answer.
            pub fn run<J: $crate::kv::SystemJob>(self, job: J) -> J::Answer {
                match self {
                    $($Name::$Variant => job.run::<$Type>(),)+
                }
            }

            /// The system whose name is `name`, such as `herd`; `None` if the table has none.
            pub fn named(name: &str) -> Option<$Name> {
                <$Name as $crate::kv::SystemTable>::named(name)
            }
        }

        impl $crate::kv::SystemTable for $Name {
            const ALL: &'static [$Name] = $Name::ALL;

            fn facts(self) -> &'static $crate::kv::Facts {
                $Name::facts(self)
            }

            fn run<J: $crate::kv::SystemJob>(self, job: J) -> J::Answer {
                $Name::run(self, job)
            }

            fn stepped<J: $crate::kv::SteppedJob>(self, job: J) -> J::Answer {
                match self {
                    $($Name::$Variant => job.run::<$Type>(),)+
                }
            }
        }

        impl ::std::fmt::Display for $Name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.facts().name)
            }
        }
    };
}

#[doc(hidden)]
pub use drover_kv as kv;

systems! {
    /// The key-value systems of this workspace.
    pub enum System {
        /// HERD: requests by WRITE, replies by SEND, a worker per partition.
        Herd = drover_kv_herd::Herd,
        /// Pilaf: GETs by READs of a cuckoo table and of records.
        Pilaf = drover_kv_pilaf::Pilaf,
        /// FaRM-KV: GETs by READs of neighbourhoods of a hopscotch table, which holds short values itself.
        Farm = drover_kv_farm::Farm,
        /// Jakiro: requests by WRITE, results that clients READ, or that are pushed while the server is slow.
        Jakiro = drover_kv_rfp::Jakiro,
        /// ServerReply: requests by WRITE, results by WRITE.
        ServerReply = drover_kv_rfp::ServerReply,
        /// ServerReply that waits for the completion of each WRITE, to be measured.
        ServerReplyFaithful = drover_kv_rfp::ServerReplyFaithful,
        /// RDMA-Memcached: as ServerReply, but all workers share one locked store.
        RdmaMemcached = drover_kv_rfp::RdmaMemcached,
        /// RACE: a hash table in memory nodes, which clients READ, WRITE and CAS.
        Race = drover_kv_race::RaceSystem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_kv::{HostingJob, HostingSystem, SystemTable};

    struct Hosts;

    impl HostingJob for Hosts {
        type Answer = ();

        fn run<S: HostingSystem>(self) {}
    }

    #[test]
    fn systems_that_offer_memcached_or_a_memory_file_host() {
        for system in System::ALL {
            let (offers, hosts) = (system.facts().offers, system.hosting(Hosts).is_ok());
            assert_eq!(
                (offers.memcached, offers.memory_file.is_ok()),
                (hosts, hosts),
                "{system}"
            );
        }
    }

    #[test]
    fn every_system_is_found_by_its_name_and_no_other() {
        for system in System::ALL {
            assert_eq!(System::named(&system.to_string()), Some(*system));
        }
        assert_eq!(System::named("redis"), None);
    }

    #[test]
    fn names_and_counters_are_distinct() {
        let mut names: Vec<&str> = System::ALL.iter().map(|system| system.facts().name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), System::ALL.len());
        for system in System::ALL {
            let mut names: Vec<&str> = system
                .facts()
                .counters
                .iter()
                .map(|counter| counter.name)
                .collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), system.facts().counters.len(), "{system}");
        }
    }
}
