//! Each file of memcached's suite: how it runs against drover, or why it does not apply. Long files come first, so that
//! the end does not wait for them.

/// How to run a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Against a fresh, running server.
    Running,
    /// The file starts servers itself, with flags.
    Own,
    /// As `Own`, over TLS.
    Tls,
    /// The file does not apply and would fail, for this reason.
    No(&'static str),
    /// The file would pass without any server, for this reason.
    Nothing(&'static str),
}

/// A file of the suite.
#[derive(Debug)]
pub struct Line {
    /// Path of the file below `t/`.
    pub file: &'static str,
    /// How to run it.
    pub fit: Fit,
    /// Ranges of assertions that do not apply (first, last, reason). They must fail.
    pub but: &'static [(usize, usize, &'static str)],
}

/// A file that applies completely, or not at all.
pub const fn line(file: &'static str, fit: Fit) -> Line {
    Line { file, fit, but: &[] }
}

impl Line {
    /// This line without these assertions.
    pub const fn but(self, but: &'static [(usize, usize, &'static str)]) -> Line {
        Line { but, ..self }
    }

    /// Numbers of the inapplicable assertions.
    pub fn excused(&self) -> impl Iterator<Item = usize> {
        self.but.iter().flat_map(|&(first, last, _)| first..=last)
    }
}

use Fit::{No, Nothing, Own, Running, Tls};

/// All files, as of memcached 1.6.18.
#[rustfmt::skip]
pub const TABLE: &[Line] = &[
    line("getset.t", Running),
    line("chunked-items.t", Running),
    line("metaget.t", Own),
    line("idle-timeout.t", Own),
    line("shutdown.t", Own),
    line("flush-all.t", Own).but(&[(27, 27, "wants a value that is stored after flush_all lost with -C; drover forgets exactly what was there before")]),
    line("expirations.t", Running),
    line("item_size_max.t", Own).but(&[(7, 7, "-I 32m: the length of a value has 23 bits in an item of drover's, so 8 MiB is the most")]),
    line("maxconns.t", Own),
    line("issue_14.t", Running),
    line("cas.t", Running),
    line("ssl_cert_refresh.t", Tls),
    line("ssl_ports.t", Tls),
    line("ssl_proto_version.t", Tls),
    line("ssl_session_resumption.t", Tls),
    line("ssl_settings.t", Tls),
    line("ssl_verify_modes.t", Tls),
    line("ascii-auth.t", Own),
    line("bogus-commands.t", Running),
    line("dash-M.t", Own),
    line("flags.t", Running),
    line("getandtouch.t", Running),
    line("incrdecr.t", Running),
    line("issue_104.t", Running),
    line("issue_108.t", Running),
    line("issue_152.t", Running),
    line("issue_163.t", No("counts what slab class 31 reclaimed; drover has no slabs")),
    line("issue_192.t", Running),
    line("issue_29.t", No("chunks of slab class 1; drover has no slabs")),
    line("issue_3.t", Running),
    line("issue_41.t", Running),
    line("issue_61.t", Own),
    line("issue_68.t", Running),
    line("issue_70.t", Running),
    line("malicious-commands.t", Running),
    line("multiversioning.t", Running),
    line("noreply.t", Running),
    line("quit.t", Running),
    line("stats-detail.t", Running),
    line("stats.t", Own).but(&[
        (1, 1, "expects exactly memcached's 83 counters; drover reports those it counts"),
        (17, 17, "get_flushed: flush_all forgets at once, so no get finds a flushed item"),
        (20, 21, "lrutail_reflocked, time_in_listen_disabled_us: drover does not count them"),
        (91, 91, "get_flushed, as above"),
        (103, 103, "lrutail_reflocked, as above"),
        (111, 111, "get_flushed, as above"),
    ]),
    line("strtol-testing.t", Running),
    line("touch.t", Running),
    line("unixsocket.t", Own),
    line("watcher.t", Own),
    line("watcher_connid.t", Own),
    line("restart.t", No("a memory file of memcached's own form, and counters kept in it; drover's is tested by drover's tests")),
    line("00-startup.t", Own).but(&[
        (13, 13, "-B binary: drover refuses the binary protocol"),
        (16, 16, "-vv -B binary, as above"),
    ]),
    line("64bit.t", No("wants allocations of memcached's slabs to be faked")),
    line("binary.t", No("binary protocol, which drover refuses")),
    line("binary-get.t", Nothing("binary protocol, which drover refuses; what it asserts holds where nothing answers")),
    line("binary-sasl.t", Nothing("skips what it has, and passes, where there is no SASL")),
    line("binary-extstore.t", No("items on flash; drover keeps them in memory")),
    line("chunked-extstore.t", No("items on flash; drover keeps them in memory")),
    line("error-extstore.t", No("items on flash; drover keeps them in memory")),
    line("extstore-buckets.t", No("items on flash; drover keeps them in memory")),
    line("extstore-jbod.t", No("items on flash; drover keeps them in memory")),
    line("extstore.t", No("items on flash; drover keeps them in memory")),
    line("conn-limits.t", No("wants a multiget refused for want of response objects; drover's budget makes the reader wait")),
    line("daemonize.t", No("-d: drover refuses it and points to a service manager")),
    line("dyn-maxbytes.t", No("memory given back by slabs, page by page, in three seconds")),
    line("evictions.t", Nothing("asks whether evictions of slab class 31 are other than \"0\", which no number at all is too")),
    line("issue_22.t", No("evictions of slab class 31; drover has no slabs")),
    line("issue_42.t", No("bytes of slab class 1; drover has no slabs")),
    line("issue_183.t", No("counts an item as reclaimed when it is written over after flush_all, as slabs do")),
    line("issue_50.t", No("binary protocol, which drover refuses")),
    line("issue_67.t", No("fixed ports, UDP, and a file of ports; drover refuses UDP")),
    line("lru.t", No("exactly 37 evictions: what slabs of 64 MiB hold of items of 1 MiB")),
    line("lru-crawler.t", No("chunks of slab class 1, before and after a crawl")),
    line("lru-maintainer.t", No("moves between the segments of memcached's lists")),
    line("misbehave.t", No("skips itself: privileges are dropped by seccomp in debugging builds only")),
    line("proxy.t", No("memcached's proxy, which is programmed in Lua")),
    line("slabs-reassign-chunked.t", No("moves pages between slab classes; drover has no slabs")),
    line("slabs-reassign2.t", No("moves pages between slab classes; drover has no slabs")),
    line("slabs_reassign.t", No("moves pages between slab classes; drover has no slabs")),
    line("stats-conns.t", No("expects a UDP listener and the states of memcached's connections, listeners among them")),
    line("udp.t", No("UDP, which drover refuses")),
    line("issue_140.t", No("skips itself: what it tests is not so")),
    line("issue_260.t", No("skips itself: only possible under artificial conditions")),
    line("refhang.t", No("skips itself: wants hooks in the server")),
    line("slabhang.t", No("skips itself: wants hooks in the server")),
    line("whitespace.t", No("skips itself outside memcached's repository")),
    line("line-lengths.t", Nothing("reads a document of memcached's; no server has a part in it")),
];
