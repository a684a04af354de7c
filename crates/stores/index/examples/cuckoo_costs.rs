//! Prints the costs of readers of a cuckoo table, with the values computed for them:
//! `cargo run -p drover-index --example cuckoo_costs [log2 of entries]`.

#[path = "../tests/it/common/mod.rs"]
mod common;

use common::{churn, filled, reads_per_get};

fn main() {
    let log = std::env::args()
        .nth(1)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(16);
    let entries = 1usize << log;
    println!("{entries} entries; computed values in brackets");
    println!("load   probes          READs per GET   without fingerprints");
    for (load, computed) in [(0.5, "1.32"), (0.75, "1.56"), (0.9, "1.80")] {
        let table = filled(entries, load).expect("space");
        let (with, without) = reads_per_get(&table, 0..table.len() as u64);
        let probes = table.mean_probes();
        println!("{load:4.2}   {probes:.3} ({computed})    {with:.3}           {without:.3}");
    }
    println!("ten table-fulls of DELETE and PUT at 0.75, scrubbing n entries after each:");
    for (scrub, computed) in [
        (0, "1.88"),
        (4, ""),
        (8, ""),
        (12, ""),
        (16, ""),
        (20, "at most 1.65"),
        (32, ""),
        (64, ""),
    ] {
        let mut table = filled(entries, 0.75).expect("space");
        churn(&mut table, 10, scrub);
        println!("n = {scrub:2}   {:.3} ({computed})", table.mean_probes());
    }
}
