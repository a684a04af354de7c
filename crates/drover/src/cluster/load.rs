//! [`Load`]: what a member does, from its admin port.

use super::addresses::{ADMIN, host_port};
use crate::top::{Reading, read};
use drover_base::{Cpu, Ns};
use drover_cluster::Advert;
use drover_control::Credentials;
use drover_mem::NativeCpu;
use serde::Serialize;
use std::time::Duration;

/// Time between two readings of the counters of operations.
const INTERVAL: Duration = Duration::from_millis(500);

/// Numbers of a member.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Load {
    /// Epoch of the newest map that it knows.
    pub epoch: Option<u64>,
    /// Items that it holds.
    pub items: u64,
    /// Operations a second.
    pub operations_per_s: f64,
    /// Share of the gets that found something, since it started; `None`: there was no get.
    pub hit_rate: Option<f64>,
    /// Seconds since its shards changed.
    pub last_change_s: Option<f64>,
}

/// Asks all members twice, as the user of `credentials`, at the same time; `None` for those that have no admin port, or whose port does not answer.
pub fn of_all(adverts: &[&Advert], credentials: Option<&Credentials>) -> Vec<Option<Load>> {
    if adverts.iter().all(|advert| host_port(advert, ADMIN).is_none()) {
        return vec![None; adverts.len()];
    }
    let cpu = NativeCpu::new(0);
    let (before, first) = (cpu.refresh(), readings(adverts, credentials));
    std::thread::park_timeout(INTERVAL);
    let (after, second) = (cpu.refresh(), readings(adverts, credentials));
    let pairs = first.into_iter().zip(second);
    let load = |(first, second): (Option<Reading>, Option<Reading>)| {
        Some(load_of(&first?, &second?, after.since(before)))
    };
    pairs.map(load).collect()
}

fn readings(adverts: &[&Advert], credentials: Option<&Credentials>) -> Vec<Option<Reading>> {
    std::thread::scope(|scope| {
        let ask = |advert: &&Advert| {
            let addr = host_port(advert, ADMIN).map(str::to_owned);
            scope.spawn(move || read(&addr?, credentials).ok())
        };
        let threads: Vec<_> = adverts.iter().map(ask).collect();
        let answers = threads
            .into_iter()
            .map(|thread| thread.join().expect("a reader does not panic"));
        answers.collect()
    })
}

fn load_of(first: &Reading, second: &Reading, time: Ns) -> Load {
    let sum = |reading: &Reading, name: &str| reading.sum(name, &[]);
    let operations = |reading: &Reading| sum(reading, "drover_worker_operations_total").unwrap_or(0.0);
    let gets = |status: &str| {
        let labels = [("command", "get"), ("status", status)];
        second.sum("drover_commands_total", &labels).unwrap_or(0.0)
    };
    let (hits, misses) = (gets("hit"), gets("miss"));
    let seconds = time.to_duration().as_secs_f64().max(0.001);
    Load {
        epoch: sum(second, "drover_cluster_epoch").map(|epoch| epoch as u64),
        items: sum(second, "drover_current_items").unwrap_or(0.0) as u64,
        operations_per_s: ((operations(second) - operations(first)) / seconds).max(0.0),
        hit_rate: (hits + misses > 0.0).then(|| hits / (hits + misses)),
        last_change_s: sum(second, "drover_cluster_last_change_seconds"),
    }
}
