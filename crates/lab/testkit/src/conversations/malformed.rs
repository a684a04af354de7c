use super::{Case, case, last};

const BAD: &str = "CLIENT_ERROR bad command line format|";

/// What is no command.
pub const MALFORMED: &[Case] = &[
    case(
        "nothing known",
        &[
            ("bogus abc|", "ERROR|"),
            ("|", "ERROR|"),
            ("x|", "ERROR|"),
            ("  |", "ERROR|"),
            ("GET a|", "ERROR|"),
            ("mx a|", "ERROR|"),
            ("gets|", "ERROR|"),
            ("get|", "ERROR|"),
            ("get |", "ERROR|"),
            ("gat 0|", "END|"),
            ("gat|", "ERROR|"),
        ],
    ),
    case(
        "too few or too many words",
        &[
            ("set a 0 0|", "ERROR|"),
            ("set a 0 0 1 noreply x|", "ERROR|"),
            ("cas a 0 0 1|", "ERROR|"),
            ("incr a|", "ERROR|"),
            ("incr a 1 noreply x|", "ERROR|"),
            ("touch a|", "ERROR|"),
            ("delete|", "ERROR|"),
            ("delete a 0 noreply x|", "ERROR|"),
        ],
    ),
    case(
        "white space between words",
        &[
            ("  set   a  0 0   1  |x|", "STORED|"),
            ("  get   a  |", "VALUE a 0 1|x|END|"),
        ],
    ),
    case(
        "a line may end without a return",
        &[("set a 0 0 1\nx|", "STORED|"), ("get a\n", "VALUE a 0 1|x|END|")],
    ),
    case(
        "a key too long",
        &[
            ("get @k|", BAD),
            ("get a @k b|", BAD),
            ("set @k 0 0 1|", BAD),
            ("delete @k|", BAD),
            ("incr @k 1|", BAD),
            ("touch @k 1|", BAD),
            ("mg @k v|", BAD),
            ("md @k|", BAD),
            ("ma @k|", BAD),
            ("me @k|", BAD),
        ],
    ),
    case(
        "numbers of a set",
        &[
            ("set a x 0 1|", BAD),
            ("set a 0 x 1|", BAD),
            ("set a 0 0 x|", BAD),
            ("set a 0 0 -1|", BAD),
            ("set a 0 0 4294967295|", BAD),
            ("set a 0 0 2147483647|", BAD),
            ("set a -1 0 1|", BAD),
            ("cas a 0 0 1 x|", BAD),
        ],
    ),
    case(
        "noreply on malformed lines",
        &[
            ("set a x 0 1 noreply|mn|", "MN|"),
            ("set a 0 0 noreply|mn|", "MN|"),
            ("incr a x noreply|mn|", "MN|"),
            ("touch a x noreply|mn|", "MN|"),
            ("delete a 5 noreply|mn|", "MN|"),
            ("flush_all x noreply|mn|", "MN|"),
            ("verbosity x noreply|mn|", "MN|"),
            // memcached counts words before it looks at the last one.
            ("verbosity 0 0 noreply|mn|", "ERROR|MN|"),
            ("flush_all 0 0 noreply|mn|", "ERROR|MN|"),
            ("cache_memlimit 64 0 noreply|mn|", "ERROR|MN|"),
        ],
    ),
    case(
        "a value that is longer than it said",
        &[
            ("set a 0 0 1|xyz", "CLIENT_ERROR bad data chunk|"),
            ("|", "ERROR|"),
            ("set a 0 0 1 noreply|xyz|mn|", "ERROR|MN|"),
            ("ms a 1 q|xyz", "CLIENT_ERROR bad data chunk|"),
            ("|get a|", "ERROR|END|"),
        ],
    ),
    case(
        "exptime of touch and gat",
        &[
            ("touch a x|", "CLIENT_ERROR invalid exptime argument|"),
            ("gat x a|", "CLIENT_ERROR invalid exptime argument|"),
        ],
    ),
    last("who speaks HTTP is hung up on", &[("PUT /a HTTP/1.1|", "")]),
    last("who speaks HTTP is hung up on, GET", &[("GET / HTTP/1.0|", "")]),
];
