//! What a gateway refuses: commands and flags about facts that items of a [`KvClient`](drover_kv::KvClient) do not have,
//! and what a system does not [offer](drover_kv::OperationOffers).

use drover_kv::OperationOffers;
use drover_memcached::request::{Meta, MetaKind};

/// The command that some systems have.
const FLUSH: &str = "flush_all";

/// Commands that no gateway has, but for that one.
const COMMANDS: [&str; 8] = [
    "me",
    FLUSH,
    "cache_memlimit",
    "watch",
    "metadump",
    "mgdump",
    "stats cachedump",
    "stats detail",
];

/// Flags that no gateway has, by command: they are about the CAS to give an item, its times, and marks on it.
const FLAGS: [(MetaKind, &str, &[u8]); 4] = [
    (MetaKind::Get, "mg", b"ENRhlt"),
    (MetaKind::Set, "ms", b"EI"),
    (MetaKind::Delete, "md", b"EIx"),
    (MetaKind::Arithmetic, "ma", b"Et"),
];

/// Whether `meta` has a flag that cannot be served.
pub(crate) fn has_refused_flag(meta: &Meta<'_>, offers: &OperationOffers) -> bool {
    let has_one = |letters: &[u8]| letters.iter().any(|&letter| meta.has(letter));
    FLAGS
        .iter()
        .any(|&(kind, _, letters)| kind == meta.kind && has_one(letters))
        || (!offers.versions && has_one(b"Cc"))
        || (!offers.touch && meta.kind == MetaKind::Get && meta.has(b'T'))
        || (!offers.ttl && meta.kind != MetaKind::Delete && has_one(b"NT"))
        || (!offers.flags && meta.client_flags != 0)
}

/// All that a gateway to a system of these `offers` refuses, in memcached's names and separated by commas: for `stats
/// settings`.
pub fn refusals(offers: &OperationOffers) -> String {
    let commands = COMMANDS
        .iter()
        .filter(|&&command| command != FLUSH || !offers.flush);
    let mut all: Vec<String> = commands.map(|&command| command.to_owned()).collect();
    for (_, command, letters) in FLAGS {
        all.extend(
            letters
                .iter()
                .map(|&letter| format!("{command}:{}", letter as char)),
        );
    }
    let lacks = [
        (offers.conditions, "add,replace,cas,append,prepend,incr,decr,ma"),
        (offers.versions, "gets,gats,cas,append,prepend,incr,decr,ma,C,c"),
        (offers.ttl, "exptime,T,N"),
        (offers.flags, "flags,F"),
        (offers.touch, "touch,gat,gats,mg:T"),
    ];
    for (_, what) in lacks.iter().filter(|(has, _)| !has) {
        all.extend(what.split(',').map(str::to_owned));
    }
    let mut seen = Vec::new();
    all.retain(|what| {
        !seen.contains(what) && {
            seen.push(what.clone());
            true
        }
    });
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_system_lacks_is_listed_once() {
        let all = refusals(&OperationOffers::POINT);
        assert_eq!(
            all,
            "me,flush_all,cache_memlimit,watch,metadump,mgdump,stats cachedump,stats detail,mg:E,mg:N,mg:R,mg:h,mg:l,mg:t,ms:E,\
             ms:I,md:E,md:I,md:x,ma:E,ma:t"
        );
        let flushing = OperationOffers {
            flush: true,
            ..OperationOffers::POINT
        };
        assert!(refusals(&flushing).starts_with("me,cache_memlimit,"));
        let poor = OperationOffers {
            conditions: false,
            versions: false,
            touch: false,
            ..OperationOffers::POINT
        };
        let all = refusals(&poor);
        for what in ["add", "gets", "touch", "gat"] {
            assert_eq!(
                all.split(',').filter(|word| *word == what).count(),
                1,
                "{what} in {all}"
            );
        }
    }
}
