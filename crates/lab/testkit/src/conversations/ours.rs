use super::{Case, case};

/// Conversations where drover differs from Debian's memcached, or has a fixed reply.
pub const OURS: &[Case] = &[
    case("version", &[("version|", "VERSION 1.2.3|")]),
    case(
        "CAS numbers are unique for each store",
        &[
            ("set a 0 0 1|x|gets a|", "STORED|VALUE a 0 1 1|x|END|"),
            ("set a 0 0 1|x|gets a|", "STORED|VALUE a 0 1 2|x|END|"),
            ("cas a 0 0 1 1|y|", "EXISTS|"),
            ("cas a 0 0 1 2|y|", "STORED|"),
            ("gats 0 a|", "VALUE a 0 1 3|y|END|"),
            ("append a 0 0 1|z|gets a|", "STORED|VALUE a 0 2 4|yz|END|"),
            ("touch a 0|gets a|", "TOUCHED|VALUE a 0 2 4|yz|END|"),
        ],
    ),
    case(
        "meta commands tell CAS numbers, and take them with E",
        &[
            ("ms a 1 c|1|", "HD c1|"),
            ("mg a c|", "HD c1|"),
            ("ma a c v|", "VA 1 c2|2|"),
            ("ms a 1 C2 c E99|3|", "HD c99|"),
            ("mg a c v|", "VA 1 c99|3|"),
            ("ma a E7 c|", "HD c7|"),
            ("ms a 1 C1|x|", "EX|"),
            ("md a C7|", "HD|"),
        ],
    ),
    case(
        "ms with an older CAS and I stores as stale",
        &[
            ("ms a 1 E50 T60|1|", "HD|"),
            ("ms a 1 C20 I|2|", "HD|"),
            ("mg a v t|", "VA 1 t60 X W|2|"),
            ("ms a 1 C999999 I|3|", "EX|"),
            // No item has CAS 0, and 0 is older than every CAS.
            ("ms a 1 C0 I|3|ms a 1 C0|3|", "EX|EX|"),
        ],
    ),
    case(
        "ma gives a number that grows out of its place the time to live that it asks for",
        &[(
            "ms a 1 T60|9|ma a T90 t v|mg a t v|",
            "HD|VA 2 t90|10|VA 2 t90|10|",
        )],
    ),
    case(
        "md x empties an item and keeps it",
        &[
            ("ms a 3 F5|abc|md a x|", "HD|HD|"),
            ("mg a v f|", "VA 0 f0||"),
            ("ms a 3|abc|md a x I T30|mg a v t|", "HD|HD|VA 0 t30 X W||"),
        ],
    ),
    case(
        "me",
        &[
            (
                "set a 0 50 3|abc|me a|",
                "STORED|ME a exp=50 la=100 cas=1 fetch=no cls=1 size=32|",
            ),
            (
                "get a|me a|",
                "VALUE a 0 3|abc|END|ME a exp=50 la=100 cas=1 fetch=no cls=1 size=32|",
            ),
            (
                "ms a 3|abc|get a|me a|",
                "HD|VALUE a 0 3|abc|END|ME a exp=-1 la=0 cas=2 fetch=yes cls=1 size=48|",
            ),
            (
                "ms AAEC 1 b|x|me AAEC b|",
                "HD|ME AAEC exp=-1 la=0 cas=3 fetch=no cls=1 size=48|",
            ),
        ],
    ),
    case(
        "absolute expiry is held against the wall clock of the start",
        &[
            ("set a 0 1700000101 1|x|mg a t|", "STORED|HD t1|"),
            ("set a 0 1700000100 1|x|mg a t|", "STORED|EN|"),
        ],
    ),
    case(
        "admin commands that have nothing to do here",
        &[
            ("lru_crawler enable|lru_crawler disable|", "OK|OK|"),
            (
                "lru_crawler sleep 100|lru_crawler tocrawl 5|lru_crawler crawl all|",
                "OK|OK|OK|",
            ),
            (
                "lru_crawler sleep 1000001|",
                "CLIENT_ERROR sleep must be one second or less|",
            ),
            (
                "lru_crawler crawl x|lru_crawler nonsense|",
                "BADCLASS invalid class id|ERROR|",
            ),
            (
                "slabs reassign 1 2|slabs automove 1|slabs automove x|slabs|",
                "CLIENT_ERROR slab reassignment disabled|OK|CLIENT_ERROR bad command line format|ERROR|",
            ),
            ("lru mode flat|", "ERROR|"),
            (
                "cache_memlimit 64|cache_memlimit 128|",
                "OK|MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust|",
            ),
            ("stats sizes|", "STAT sizes_status disabled|END|"),
            ("stats reset|stats bogus|", "RESET|ERROR|"),
            ("refresh_certs|", "CLIENT_ERROR TLS is not enabled|"),
        ],
    ),
    case(
        "dumps",
        &[
            ("lru_crawler metadump all|lru_crawler mgdump all|", "END|EN|"),
            (
                "set a%b 0 100 1|x|lru_crawler metadump all|",
                "STORED|key=a%25b exp=1700000200 la=1700000000 cas=1 fetch=no cls=1 size=32\nEND|",
            ),
            ("lru_crawler mgdump 1|", "mg a%b|EN|"),
            ("lru_crawler metadump 2,3|lru_crawler mgdump 2|", "END|EN|"),
            (
                "set c 0 0 3|xyz|stats cachedump 1 0 0|delete c|",
                "STORED|ITEM a%b [1 b; 1700000200 s]|ITEM c [3 b; 0 s]|END|DELETED|",
            ),
            ("stats cachedump 0 0|stats cachedump 63 5|", "END|END|"),
            (
                "stats cachedump 64 0|stats cachedump 1|stats cachedump 1 x|",
                "CLIENT_ERROR Illegal slab id|CLIENT_ERROR bad command line|CLIENT_ERROR bad command line format|",
            ),
            (
                "ms AAEC 1 b|x|delete a%b|lru_crawler mgdump hash|",
                "HD|DELETED|mg AAEC b|EN|",
            ),
            // A key that a line could not show.
            ("stats cachedump 1 0|", "END|"),
            ("lru_crawler metadump x|", "BADCLASS invalid class id|"),
        ],
    ),
    case(
        "watch is quiet",
        &[
            ("watch bogus|", "ERROR|"),
            ("watch fetchers evictions|", "OK|"),
            ("get a|", ""),
        ],
    ),
];
