//! Which parameter is fitted to which rows, and in which order.

use super::Target;

/// Some rows: of one figure, of one curve (or all), with x in a range.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    figure: &'static str,
    series: &'static str,
    x: (f64, f64),
}

impl Rows {
    /// True if `target` is one of them. Only rates and latencies are fitted to.
    pub fn take(&self, target: &Target) -> bool {
        let published = &target.published;
        target.figure == self.figure
            && (self.series.is_empty() || published.series == self.series)
            && (self.x.0..=self.x.1).contains(&published.x)
            && ["throughput", "latency"].contains(&published.metric.as_str())
    }
}

/// One parameter, or one point of a curve, and its rows.
#[derive(Clone, Debug)]
pub struct Step {
    /// The parameter.
    pub path: &'static str,
    /// The point of a curve; all of them one after the other, if none.
    pub index: Option<usize>,
    /// What it is fitted to.
    pub rows: Vec<Rows>,
}

impl Step {
    /// Its rows in words, for the profile.
    pub fn source(&self) -> String {
        let mut figures: Vec<&str> = self.rows.iter().map(|rows| rows.figure).collect();
        figures.dedup();
        figures.join(", ")
    }
}

/// Parameters that are fitted together and then left alone.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What it is about.
    pub name: &'static str,
    /// Its parameters.
    pub steps: Vec<Step>,
}

fn rows(figure: &'static str, series: &'static str, low: f64, high: f64) -> Rows {
    Rows {
        figure,
        series,
        x: (low, high),
    }
}

fn all(figure: &'static str, series: &'static str) -> Rows {
    rows(figure, series, 0.0, 1e9)
}

fn step(path: &'static str, rows: Vec<Rows>) -> Step {
    Step {
        path,
        index: None,
        rows,
    }
}

fn point(path: &'static str, index: usize, rows: Vec<Rows>) -> Step {
    Step {
        path,
        index: Some(index),
        rows,
    }
}

fn stage(name: &'static str, steps: Vec<Step>) -> Stage {
    Stage { name, steps }
}

/// The stages of `profile`, in order; none where no row speaks of it.
pub fn stages(profile: &str) -> Vec<Stage> {
    match profile {
        "apt" => apt(),
        "rfp" => rfp(),
        "cx6" => cx6(),
        "cib" => cib(),
        "prism" => prism(),
        _ => Vec::new(),
    }
}

fn apt() -> Vec<Stage> {
    let write = |low, high| vec![rows("herd-3", "WRITE UC", low, high)];
    let acked = |low, high| vec![rows("herd-3", "WRITE RC", low, high)];
    let read = |low, high| vec![rows("herd-3", "READ RC", low, high)];
    let gather = |x| vec![rows("herd-4", "WRITE UC", x, x)];
    vec![
        stage(
            "MMIO and transmit engine",
            vec![
                step("pio.line_ns", vec![rows("herd-4", "SEND UD inline", 4.0, 240.0)]),
                step(
                    "pio.bf_over_ns",
                    vec![rows("herd-4", "SEND UD inline", 244.0, 256.0)],
                ),
                step(
                    "tx.write_inline_ns",
                    vec![rows("herd-4", "WRITE UC inline", 4.0, 28.0)],
                ),
                step("tx.send_ud_ns", vec![rows("atc-t5", "apt SEND", 0.0, 0.0)]),
                step("tx.read_ns", vec![rows("herd-4", "READ RC", 4.0, 96.0)]),
            ],
        ),
        stage(
            "receive engine",
            vec![
                point("rx.write_uc_ns", 0, write(4.0, 16.0)),
                point("rx.write_uc_ns", 1, write(32.0, 32.0)),
                point("rx.write_uc_ns", 2, write(64.0, 96.0)),
                point("rx.write_rc_ns", 0, acked(4.0, 32.0)),
                point("rx.write_rc_ns", 1, acked(64.0, 64.0)),
                step("rx.recv_ns", vec![rows("atc-t5", "apt RECV", 1.0, 1.0)]),
                step("rx.recv_header_ns", vec![rows("atc-t5", "apt RECV", 0.0, 0.0)]),
            ],
        ),
        stage(
            "link",
            vec![step("link.bytes_per_ns", vec![rows("herd-3", "", 384.0, 1024.0)])],
        ),
        stage(
            "shape at middling sizes",
            vec![
                point("rx.write_uc_ns", 3, write(128.0, 128.0)),
                point("rx.write_uc_ns", 4, write(160.0, 192.0)),
                point("rx.write_rc_ns", 2, acked(96.0, 128.0)),
                point("rx.write_rc_ns", 3, acked(160.0, 160.0)),
                point("rx.write_rc_ns", 4, acked(192.0, 192.0)),
                point("rx.write_rc_ns", 5, acked(224.0, 224.0)),
                point("rx.write_rc_ns", 6, acked(256.0, 256.0)),
                point("tx.response_ns", 0, read(4.0, 4.0)),
                point("tx.response_ns", 1, read(16.0, 32.0)),
                point("tx.response_ns", 2, read(64.0, 64.0)),
                point("tx.response_ns", 3, read(96.0, 96.0)),
                point("tx.response_ns", 4, read(128.0, 128.0)),
                point("tx.response_ns", 5, read(160.0, 160.0)),
                point("tx.response_ns", 6, read(192.0, 192.0)),
                point("tx.response_ns", 7, read(224.0, 224.0)),
                point("tx.response_ns", 8, read(256.0, 256.0)),
                point("tx.gather_ns", 0, gather(4.0)),
                point("tx.gather_ns", 1, gather(32.0)),
                point("tx.gather_ns", 2, gather(64.0)),
                point("tx.gather_ns", 3, gather(96.0)),
                point("tx.gather_ns", 4, gather(128.0)),
                point("tx.gather_ns", 5, gather(160.0)),
                point("tx.gather_ns", 6, gather(192.0)),
                point("tx.gather_ns", 7, gather(224.0)),
                point("tx.gather_ns", 8, gather(256.0)),
                point("rx.response_ns", 2, vec![rows("herd-4", "READ RC", 160.0, 160.0)]),
                point("rx.response_ns", 3, vec![rows("herd-4", "READ RC", 192.0, 192.0)]),
                point("rx.response_ns", 4, vec![rows("herd-4", "READ RC", 224.0, 224.0)]),
                point("rx.response_ns", 5, vec![rows("herd-4", "READ RC", 256.0, 256.0)]),
                point(
                    "rx.response_ns",
                    6,
                    vec![rows("fasst-1", "apt READ", 264.0, 328.0)],
                ),
                point(
                    "rx.response_ns",
                    7,
                    vec![rows("fasst-1", "apt READ", 328.0, 384.0)],
                ),
            ],
        ),
        stage(
            "latencies",
            vec![
                step("latency.wire_ns", vec![rows("herd-2", "ECHO", 4.0, 64.0)]),
                step(
                    "latency.dma_read_ns",
                    vec![all("herd-2", "READ"), all("herd-2", "WRITE")],
                ),
                step("latency.ack_ns", vec![rows("herd-2", "WRITE inline", 4.0, 16.0)]),
                step(
                    "pio.extra_line_ns",
                    vec![rows("herd-2", "WRITE inline", 64.0, 256.0), all("herd-2", "ECHO")],
                ),
                step("latency.gather_ns", vec![all("herd-2", "WRITE")]),
            ],
        ),
        stage(
            "one core",
            vec![step("cpu.post_ns", vec![rows("herd-6", "", 1.0, 2.0)])],
        ),
        stage(
            "queue-pair contexts",
            vec![
                step(
                    "context.miss_tx_ns",
                    vec![rows("herd-6", "outbound WRITE UC", 14.0, 16.0)],
                ),
                step(
                    "context.miss_rx_rc_ns",
                    vec![rows("fasst-2", "apt READ", 22.0, 55.0)],
                ),
            ],
        ),
        stage(
            "work requests fetched again",
            vec![
                step(
                    "wqe_cache.miss_read_tx_ns",
                    vec![rows("atc-13", "apt READ", 32.0, 512.0)],
                ),
                step(
                    "wqe_cache.miss_read_rx_ns",
                    vec![rows("atc-13", "apt READ", 32.0, 512.0)],
                ),
                step(
                    "wqe_cache.miss_write_tx_ns",
                    vec![rows("atc-13", "apt WRITE", 16.0, 512.0)],
                ),
            ],
        ),
        stage(
            "atomics",
            vec![step("atomics.hold_ns", vec![all("atc-14", "apt FAA")])],
        ),
        stage(
            "acknowledgements",
            vec![step("tx.ack_ns", vec![rows("herd-5", "WRITE/WRITE", 0.0, 0.0)])],
        ),
        stage(
            "one core in lists",
            vec![
                step(
                    "qp.fetch_spacing_ns",
                    vec![rows("atc-11b", "apt batch 16", 1.0, 1.0)],
                ),
                step("cpu.list_ns", vec![rows("atc-11b", "apt batch 16", 2.0, 4.0)]),
            ],
        ),
    ]
}

fn rfp() -> Vec<Stage> {
    vec![
        stage(
            "link",
            vec![step(
                "link.bytes_per_ns",
                vec![rows("rfp-5", "in-bound READ", 1024.0, 4096.0)],
            )],
        ),
        stage(
            "latencies",
            vec![
                step(
                    "latency.wire_ns",
                    vec![rows("rfp-3", "out-bound WRITE", 1.0, 1.0)],
                ),
                step("latency.dma_read_ns", vec![rows("rfp-4", "", 7.0, 14.0)]),
            ],
        ),
        stage(
            "doorbell lock",
            vec![
                step("lock.hold_ns", vec![rows("rfp-3", "out-bound WRITE", 2.0, 16.0)]),
                step(
                    "lock.per_waiter_ns",
                    vec![rows("rfp-3", "out-bound WRITE", 6.0, 16.0)],
                ),
                step("lock.read_extra_ns", vec![rows("rfp-4", "", 21.0, 70.0)]),
            ],
        ),
        stage(
            "long payloads",
            vec![step(
                "pio.extra_line_ns",
                vec![rows("rfp-5", "out-bound WRITE", 64.0, 256.0)],
            )],
        ),
    ]
}

fn cx6() -> Vec<Stage> {
    let depth_one = |series| rows("smart-4", series, 1.0, 1.0);
    let own = "READ / doorbell per thread";
    vec![
        stage(
            "one thread",
            vec![
                step("cpu.post_ns", vec![rows("smart-3", own, 1.0, 8.0)]),
                step(
                    "cpu.batch_tail_ns",
                    vec![
                        rows("smart-13", "depth 16 / doorbell per thread", 1.0, 24.0),
                        rows("smart-3", own, 1.0, 24.0),
                    ],
                ),
            ],
        ),
        stage(
            "latencies",
            vec![
                step(
                    "latency.wire_ns",
                    vec![depth_one("READ / 12 threads"), depth_one("READ / 24 threads")],
                ),
                step(
                    "latency.far_socket_ns",
                    vec![depth_one("READ / 84 threads"), depth_one("READ / 96 threads")],
                ),
                step(
                    "latency.gather_ns",
                    vec![
                        depth_one("WRITE / 12 threads"),
                        depth_one("WRITE / 24 threads"),
                        depth_one("WRITE / 36 threads"),
                    ],
                ),
            ],
        ),
        stage(
            "engines",
            vec![
                step(
                    "tx.read_ns",
                    vec![
                        rows("smart-3", own, 80.0, 96.0),
                        rows("smart-4", "READ / 48 threads", 16.0, 16.0),
                    ],
                ),
                point(
                    "tx.gather_ns",
                    0,
                    vec![
                        rows("smart-3", "WRITE / doorbell per thread", 72.0, 96.0),
                        rows("smart-4", "WRITE / 48 threads", 16.0, 16.0),
                    ],
                ),
            ],
        ),
        stage(
            "sibling threads",
            vec![step(
                "machine.sibling_factor",
                vec![rows("smart-3", own, 56.0, 80.0)],
            )],
        ),
        stage(
            "work requests fetched again",
            vec![
                step(
                    "wqe_cache.sets",
                    vec![
                        all("smart-4", "READ / 60 threads"),
                        all("smart-4", "READ / 84 threads"),
                        all("smart-4", "READ / 96 threads"),
                    ],
                ),
                step(
                    "wqe_cache.miss_read_tx_ns",
                    vec![
                        rows("smart-4", "READ / 96 threads", 16.0, 32.0),
                        rows("smart-4", "READ / 84 threads", 16.0, 32.0),
                    ],
                ),
                step(
                    "wqe_cache.miss_read_rx_ns",
                    vec![
                        rows("smart-4", "READ / 96 threads", 16.0, 32.0),
                        rows("smart-4", "READ / 84 threads", 16.0, 32.0),
                    ],
                ),
                step(
                    "wqe_cache.miss_write_tx_ns",
                    vec![
                        rows("smart-4", "WRITE / 96 threads", 16.0, 32.0),
                        rows("smart-4", "WRITE / 84 threads", 16.0, 32.0),
                    ],
                ),
            ],
        ),
        stage(
            "doorbell locks",
            vec![
                lock("lock.hold_ns"),
                lock("lock.per_waiter_ns"),
                lock("lock.per_far_waiter_ns"),
            ],
        ),
    ]
}

/// The three numbers of a lock shape one curve together.
fn lock(path: &'static str) -> Step {
    step(
        path,
        vec![
            rows("smart-3", "READ / queue pair per thread", 16.0, 96.0),
            rows("smart-3", "WRITE / queue pair per thread", 24.0, 96.0),
            rows("smart-13", "depth 16 / queue pair per thread", 24.0, 96.0),
        ],
    )
}

fn cib() -> Vec<Stage> {
    // Three of nine: each takes as long as all others together.
    let fewer = vec![
        rows("fasst-2", "cib READ", 22.0, 22.0),
        rows("fasst-2", "cib READ", 55.0, 55.0),
        rows("fasst-2", "cib READ", 99.0, 99.0),
    ];
    vec![
        stage(
            "MMIO and transmit engine",
            vec![
                step("pio.line_ns", vec![all("atc-11", "cib single")]),
                step("pcie.in_bytes_per_ns", vec![all("atc-11", "cib batch 16")]),
                step("tx.send_ud_ns", vec![rows("atc-t5", "cib SEND", 0.0, 0.0)]),
                step("tx.read_ns", vec![all("atc-t4", "cib outbound READ")]),
            ],
        ),
        stage(
            "receive engine",
            vec![
                point("rx.write_uc_ns", 0, vec![rows("atc-12", "cib WRITE", 8.0, 8.0)]),
                point("rx.write_uc_ns", 1, vec![rows("atc-12", "cib WRITE", 32.0, 32.0)]),
                point("rx.write_uc_ns", 2, vec![rows("atc-12", "cib WRITE", 64.0, 64.0)]),
                step("rx.read_ns", vec![rows("atc-12", "cib READ", 8.0, 32.0)]),
                step("rx.recv_ns", vec![rows("atc-t5", "cib RECV", 1.0, 1.0)]),
                step("rx.recv_header_ns", vec![rows("atc-t5", "cib RECV", 0.0, 0.0)]),
            ],
        ),
        stage(
            "link",
            vec![step(
                "link.bytes_per_ns",
                vec![
                    rows("atc-12", "cib WRITE", 128.0, 250.0),
                    rows("atc-12", "cib READ", 128.0, 250.0),
                ],
            )],
        ),
        stage(
            "responses",
            vec![
                point("rx.response_ns", 0, vec![rows("fasst-1", "cib READ", 8.0, 40.0)]),
                point(
                    "rx.response_ns",
                    1,
                    vec![rows("fasst-1", "cib READ", 40.0, 136.0)],
                ),
                point(
                    "rx.response_ns",
                    2,
                    vec![rows("fasst-1", "cib READ", 168.0, 384.0)],
                ),
            ],
        ),
        stage(
            "latencies",
            vec![
                step("latency.dma_read_ns", vec![rows("atc-13", "cib READ", 1.0, 1.0)]),
                step("latency.wire_ns", vec![rows("atc-13", "cib WRITE", 1.0, 1.0)]),
            ],
        ),
        stage(
            "one core",
            vec![
                step("cpu.post_ns", vec![all("atc-11b", "cib single")]),
                step(
                    "qp.fetch_spacing_ns",
                    vec![rows("atc-11b", "cib batch 16", 1.0, 1.0)],
                ),
                step("cpu.list_ns", vec![rows("atc-11b", "cib batch 16", 4.0, 4.0)]),
            ],
        ),
        stage(
            "queue-pair contexts",
            vec![
                step("context.capacity", fewer.clone()),
                step("context.miss_tx_ns", fewer.clone()),
                step("context.miss_rx_rc_ns", fewer.clone()),
            ],
        ),
        stage(
            "work requests fetched again",
            vec![
                step(
                    "tx.write_inline_ns",
                    vec![rows("atc-13", "cib WRITE", 256.0, 512.0)],
                ),
                step("wqe_cache.sets", vec![rows("atc-13", "cib READ", 16.0, 128.0)]),
                step(
                    "wqe_cache.miss_read_rx_ns",
                    vec![rows("atc-13", "cib READ", 64.0, 512.0)],
                ),
            ],
        ),
        stage(
            "atomics",
            vec![
                step("atomics.hold_ns", vec![rows("atc-14", "cib FAA", 1.0, 1.0)]),
                step("atomics.unit_ns", vec![rows("atc-14", "cib FAA", 512.0, 4096.0)]),
                step("atomics.waiting", vec![rows("atc-14", "cib FAA", 2.0, 256.0)]),
            ],
        ),
    ]
}

fn prism() -> Vec<Stage> {
    vec![stage(
        "latencies",
        vec![
            step("latency.dma_read_ns", vec![all("prism-1", "READ")]),
            step("latency.gather_ns", vec![all("prism-1", "WRITE")]),
        ],
    )]
}
