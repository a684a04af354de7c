//! [`simulate`]: one pass over a trace, which all caches play side by side.

use crate::batch::Batch;
use crate::cache::Cache;
use crate::feed::{Asked, Feed};
use crate::trace::{Trace, TraceError};
use crate::{Options, OptionsError, Report};
use drover_mem::{AllocError, NativeCpu};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Why a simulation has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The options cannot be simulated.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no memory for a cache.
    #[error("no memory to simulate a cache of {}: {source}", crate::sizes::show(*bytes))]
    Memory {
        /// Size of the cache, bytes.
        bytes: u64,
        /// What the system says.
        source: AllocError,
    },
}

/// Batches that wait for a thread that is behind.
const QUEUED: usize = 2;

/// Plays `trace` in every cache of `options`. Cost: a pass over the trace, in which each request costs each cache that
/// its key is sampled for 50 to 500 ns, most of it memory accesses; memory as [`Options::memory_bytes`] says for each
/// cache, and some 110 bytes for each item of the LRU model (measured by us), whose values take none.
///
/// `progress` is set to the [position](Trace::position) in the trace from time to time.
///
/// # Errors
/// [`SimError`] if the options are refused, memory is missing, or the trace cannot be read or is empty.
pub fn simulate(trace: Trace, options: &Options, progress: &AtomicU64) -> Result<Report, SimError> {
    options.check()?;
    let mut caches = Vec::new();
    for &bytes in &options.sizes {
        for &policy in &options.policies {
            let cache = Cache::new(bytes, policy, options);
            caches.push(cache.map_err(|source| SimError::Memory { bytes, source })?);
        }
    }
    let rate = caches
        .iter()
        .map(|cache| cache.rate)
        .max()
        .expect("there is a cache");
    let feed = Feed::new(trace, options, rate, progress);
    let (asked, caches) = match options.jobs.min(caches.len()) {
        0 | 1 => play(feed, caches, options)?,
        jobs => play_in_threads(feed, caches, options, jobs)?,
    };
    Ok(Report::new(&asked, &caches, options))
}

fn play(
    mut feed: Feed<'_>,
    mut caches: Vec<Cache>,
    options: &Options,
) -> Result<(Asked, Vec<Cache>), TraceError> {
    let (cpu, mut batch) = (NativeCpu::new(0), Batch::default());
    loop {
        feed.fill(&mut batch)?;
        if batch.requests.is_empty() {
            return Ok((feed.finish(options.warmup)?, caches));
        }
        caches.iter_mut().for_each(|cache| cache.play(&cpu, &batch));
    }
}

/// Each of `jobs` threads has its share of the caches; this one reads the trace. The result is the same for any number.
fn play_in_threads(
    mut feed: Feed<'_>,
    caches: Vec<Cache>,
    options: &Options,
    jobs: usize,
) -> Result<(Asked, Vec<Cache>), TraceError> {
    let mut shares: Vec<Vec<(usize, Cache)>> = (0..jobs).map(|_| Vec::new()).collect();
    for (position, cache) in caches.into_iter().enumerate() {
        shares[position % jobs].push((position, cache));
    }
    std::thread::scope(|scope| {
        let mut senders: Vec<SyncSender<Arc<Batch>>> = Vec::new();
        let mut threads = Vec::new();
        for mut share in shares {
            let (sender, receiver) = sync_channel::<Arc<Batch>>(QUEUED);
            senders.push(sender);
            threads.push(scope.spawn(move || {
                let cpu = NativeCpu::new(0);
                for batch in receiver {
                    share.iter_mut().for_each(|(_, cache)| cache.play(&cpu, &batch));
                }
                share
            }));
        }
        let read = send_all(&mut feed, &senders);
        // Ends the threads.
        drop(senders);
        let shares = threads
            .into_iter()
            .map(|thread| thread.join().expect("a cache does not panic"));
        let mut caches: Vec<(usize, Cache)> = shares.flatten().collect();
        read?;
        caches.sort_by_key(|(position, _)| *position);
        let caches = caches.into_iter().map(|(_, cache)| cache).collect();
        Ok((feed.finish(options.warmup)?, caches))
    })
}

fn send_all(feed: &mut Feed<'_>, senders: &[SyncSender<Arc<Batch>>]) -> Result<(), TraceError> {
    loop {
        let mut batch = Batch::default();
        feed.fill(&mut batch)?;
        if batch.requests.is_empty() {
            return Ok(());
        }
        let batch = Arc::new(batch);
        for sender in senders {
            if sender.send(Arc::clone(&batch)).is_err() {
                // The thread panicked, which is noticed when it is joined.
                return Ok(());
            }
        }
    }
}
