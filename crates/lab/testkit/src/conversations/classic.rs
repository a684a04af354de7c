use super::{Case, case, last};

/// Commands of the text protocol.
pub const CLASSIC: &[Case] = &[
    case(
        "set and get",
        &[
            ("set a 5 0 3|abc|", "STORED|"),
            ("get a|", "VALUE a 5 3|abc|END|"),
            ("get nobody|", "END|"),
        ],
    ),
    case(
        "flags have 32 bits and are kept",
        &[
            ("set a 4294967295 0 1|x|", "STORED|"),
            ("get a|", "VALUE a 4294967295 1|x|END|"),
            ("append a 7 0 1|y|", "STORED|"),
            ("get a|", "VALUE a 4294967295 2|xy|END|"),
        ],
    ),
    case(
        "an empty value",
        &[("set a 0 0 0||", "STORED|"), ("get a|", "VALUE a 0 0||END|")],
    ),
    case(
        "a value may hold line ends",
        &[
            ("set a 0 0 6|x|y||", "STORED|"),
            ("get a|", "VALUE a 0 6|x|y||END|"),
        ],
    ),
    case(
        "one END for many keys",
        &[
            ("set a 0 0 1|1|set b 0 0 1|2|", "STORED|STORED|"),
            ("get a b c a|", "VALUE a 0 1|1|VALUE b 0 1|2|VALUE a 0 1|1|END|"),
        ],
    ),
    case(
        "add, replace, append, prepend have their conditions",
        &[
            ("replace a 0 0 1|x|", "NOT_STORED|"),
            ("append a 0 0 1|x|", "NOT_STORED|"),
            ("prepend a 0 0 1|x|", "NOT_STORED|"),
            ("add a 0 0 1|1|", "STORED|"),
            ("add a 0 0 1|2|", "NOT_STORED|"),
            ("append a 0 0 2|>>|", "STORED|"),
            ("prepend a 0 0 2|<<|", "STORED|"),
            ("get a|", "VALUE a 0 5|<<1>>|END|"),
            ("replace a 3 0 1|r|", "STORED|"),
            ("get a|", "VALUE a 3 1|r|END|"),
        ],
    ),
    case(
        "cas of what is not there, and with another number",
        &[
            ("cas a 0 0 1 1|x|", "NOT_FOUND|"),
            ("set a 0 0 1|x|", "STORED|"),
            ("cas a 0 0 1 18446744073709551615|y|", "EXISTS|"),
            ("get a|", "VALUE a 0 1|x|END|"),
        ],
    ),
    case(
        "delete",
        &[
            ("delete a|", "NOT_FOUND|"),
            ("set a 0 0 1|x|", "STORED|"),
            ("delete a|", "DELETED|"),
            ("get a|", "END|"),
            ("set a 0 0 1|x|delete a 0|", "STORED|DELETED|"),
            ("set a 0 0 1|x|delete a 0 noreply|get a|", "STORED|END|"),
            (
                "delete a 5|",
                "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]|",
            ),
        ],
    ),
    case(
        "incr wraps at 64 bits",
        &[
            ("set n 0 0 20|18446744073709551615|", "STORED|"),
            ("incr n 1|", "0|"),
            ("get n|", "VALUE n 0 20|0                   |END|"),
        ],
    ),
    case(
        "decr stops at 0",
        &[
            ("set n 0 0 1|5|", "STORED|"),
            ("decr n 6|", "0|"),
            ("get n|", "VALUE n 0 1|0|END|"),
        ],
    ),
    case(
        "decr pads with spaces, incr grows",
        &[
            ("set n 9 0 2|10|", "STORED|"),
            ("decr n 1|", "9|"),
            ("get n|", "VALUE n 9 2|9 |END|"),
            ("incr n 91|", "100|"),
            ("get n|", "VALUE n 9 3|100|END|"),
        ],
    ),
    case(
        "arithmetic on what is no number",
        &[
            ("incr n 1|", "NOT_FOUND|"),
            ("decr n 1|", "NOT_FOUND|"),
            ("set n 0 0 1|x|", "STORED|"),
            (
                "incr n 1|",
                "CLIENT_ERROR cannot increment or decrement non-numeric value|",
            ),
            ("set n 0 0 0||", "STORED|"),
            (
                "incr n 1|",
                "CLIENT_ERROR cannot increment or decrement non-numeric value|",
            ),
            ("set n 0 0 2|-1|", "STORED|"),
            (
                "incr n 1|",
                "CLIENT_ERROR cannot increment or decrement non-numeric value|",
            ),
            ("incr n x|", "CLIENT_ERROR invalid numeric delta argument|"),
            ("incr n -1|", "CLIENT_ERROR invalid numeric delta argument|"),
        ],
    ),
    case(
        "touch, gat",
        &[
            ("touch a 0|", "NOT_FOUND|"),
            ("gat 10 a|", "END|"),
            ("set a 1 0 1|x|", "STORED|"),
            ("touch a 100|", "TOUCHED|"),
            ("gat 100 a b|", "VALUE a 1 1|x|END|"),
            ("touch a -1|", "TOUCHED|"),
            ("get a|", "END|"),
        ],
    ),
    case(
        "negative expiry is already over",
        &[
            ("set a 0 -1 1|x|", "STORED|"),
            ("get a|", "END|"),
            ("add a 0 0 1|y|", "STORED|"),
        ],
    ),
    case(
        "more than 30 days is a date: 1970 is over",
        &[
            ("set a 0 2592001 1|x|", "STORED|"),
            ("get a|", "END|"),
            ("set a 0 2592000 1|x|", "STORED|"),
            ("get a|", "VALUE a 0 1|x|END|"),
        ],
    ),
    case(
        "noreply everywhere",
        &[
            ("set a 0 0 1 noreply|1|get a|", "VALUE a 0 1|1|END|"),
            (
                "add a 0 0 1 noreply|2|replace a 0 0 1 noreply|3|get a|",
                "VALUE a 0 1|3|END|",
            ),
            (
                "append a 0 0 1 noreply|4|prepend a 0 0 1 noreply|2|get a|",
                "VALUE a 0 3|234|END|",
            ),
            ("incr a 1 noreply|decr a 3 noreply|get a|", "VALUE a 0 3|232|END|"),
            (
                "cas a 0 0 1 99999 noreply|4|touch a 0 noreply|verbosity 0 noreply|get a|",
                "VALUE a 0 3|232|END|",
            ),
            ("delete a noreply|get a|", "END|"),
            ("set a 0 0 1|1|flush_all noreply|get a|", "STORED|END|"),
        ],
    ),
    case(
        "flush_all",
        &[
            ("set a 0 0 1|1|", "STORED|"),
            ("flush_all|", "OK|"),
            ("get a|", "END|"),
            (
                "flush_all 0|flush_all 0 noreply|flush_all x|",
                "OK|CLIENT_ERROR invalid exptime argument|",
            ),
            ("flush_all 1 2 3|", "ERROR|"),
        ],
    ),
    case("keys of 250 bytes", &[("set @ 0 0 1|x|", "STORED|")]),
    case(
        "a number is what a value begins with",
        &[
            (
                "set a 0 0 5|7 abc|incr a 1|get a|",
                "STORED|8|VALUE a 0 5|8    |END|",
            ),
            (
                "set a 0 0 5|7abcd|incr a 1|",
                "STORED|CLIENT_ERROR cannot increment or decrement non-numeric value|",
            ),
        ],
    ),
    case(
        "verbosity",
        &[
            ("verbosity 1|", "OK|"),
            ("verbosity|", "ERROR|"),
            ("verbosity 0|", "OK|"),
        ],
    ),
    case(
        "cache_memlimit",
        &[
            ("cache_memlimit|", "ERROR|"),
            (
                "cache_memlimit 1|",
                "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m|",
            ),
        ],
    ),
    case(
        "shutdown must be allowed",
        &[("shutdown|", "ERROR: shutdown not enabled|")],
    ),
    last("quit", &[("quit|", "")]),
];
