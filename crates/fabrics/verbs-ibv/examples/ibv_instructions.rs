//! Runs an operation so that a tool can count its instructions:
//! `valgrind --tool=callgrind --toggle-collect=ibv_instructions::repeat ibv_instructions OPERATION COUNT`.
//!
//! OPERATION is a verb and a length, `write-16` (a list of 16 WRITEs), or the same without the provider:
//! `bare-write-16`. `cargo xtask instructions` runs it and records the counts.

mod cost;

use cost::Bench;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("an operation")?;
    let times = args.next().ok_or("a count")?.parse()?;
    let (verb, length) = name
        .rsplit_once('-')
        .ok_or("an operation is a verb and a length")?;
    let (bare, verb) = match verb.strip_prefix("bare-") {
        Some(verb) => (true, verb),
        None => (false, verb),
    };
    let mut pair = Bench::new()?.pair(verb, length.parse()?)?;
    repeat(if bare { &mut pair.bare } else { &mut pair.ours }, times);
    Ok(())
}

/// The code that is counted: the calls and a loop of four instructions, the same in both variants.
#[inline(never)]
fn repeat(call: &mut Box<dyn FnMut()>, times: u64) {
    (0..times).for_each(|_| call());
}
