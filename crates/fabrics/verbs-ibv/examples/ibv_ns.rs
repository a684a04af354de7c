//! Cost of the provider over the library's own calls, in nanoseconds per request posted and per completion polled. Both
//! variants are interleaved; it prints medians with the lowest and highest tenth: on a shared core the lowest tenth
//! shows what a dedicated machine would. `ibv_ns [SAMPLES]`
//!
//! ```text
//! cargo run --release -p drover-verbs-ibv --example ibv_ns
//! ```

mod cost;

use cost::{Bench, OPERATIONS, Pair};
use drover_mem::{NativeCpu, timestamp};

/// Requests per list.
const LISTS: [usize; 3] = [1, 4, 16];
/// Requests of one sample: long compared with the clock, short compared with a scheduler's slice.
const REQUESTS: usize = 16_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let samples = std::env::args().nth(1).map_or(Ok(301), |text| text.parse())?;
    println!("ns per request: median of {samples} samples [first and last tenth], ours and bare in turns");
    let bench = Bench::new()?;
    for name in OPERATIONS {
        for count in LISTS {
            report(bench.pair(name, count)?, samples);
        }
    }
    Ok(())
}

fn report(mut pair: Pair, samples: usize) {
    let calls = REQUESTS / pair.count;
    let [mut ours, mut bare, mut more] = [const { Vec::new() }; 3];
    for _ in 0..samples {
        let [o, b] = [&mut pair.ours, &mut pair.bare].map(|call| sample(calls, call) / pair.count as f64);
        ours.push(o);
        bare.push(b);
        more.push(o - b);
    }
    let Pair { what, count, .. } = pair;
    let [ours, bare, more] = [ours, bare, more].map(tenths);
    println!("{what:<20} x {count:<2}  ours {ours}  bare {bare}  more {more}");
}

/// Nanoseconds per call.
fn sample(calls: usize, call: &mut Box<dyn FnMut()>) -> f64 {
    let start = timestamp();
    (0..calls).for_each(|_| call());
    NativeCpu::ticks_to_ns(timestamp() - start) as f64 / calls as f64
}

fn tenths(mut samples: Vec<f64>) -> String {
    samples.sort_by(f64::total_cmp);
    let at = |tenth: usize| samples[(samples.len() - 1) * tenth / 10];
    format!("{:5.2} [{:5.2} {:5.2}]", at(5), at(1), at(9))
}
