//! [`TaskStats`]: counters of a pool.

use super::conflict::RETRY_CLASSES;
use drover_base::Ns;

/// Counters of a [`TaskPool`](super::TaskPool) since its creation, and its present limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskStats {
    /// Suspensions of tasks.
    pub suspensions: u64,
    /// Requests and what it took to post and complete them.
    pub requests: RequestStats,
    /// Credits, which bound the outstanding requests.
    pub credits: CreditStats,
    /// Operations inside a [`ConflictGuard`](super::ConflictGuard).
    pub conflicts: ConflictStats,
    /// Detached requests that failed.
    pub detached_failures: u64,
    /// Syncs and detached requests that timed out.
    pub timed_out: u64,
}

/// Requests of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestStats {
    /// Lists posted, each with one doorbell.
    pub doorbells: u64,
    /// Requests posted.
    pub posted: u64,
    /// Requests that have ended by a completion, their own or a later one.
    pub ended: u64,
    /// Completions taken.
    pub completions: u64,
    /// Polls that found completions.
    pub polls: u64,
    /// Requests outstanding now.
    pub outstanding: u64,
}

/// Credits of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreditStats {
    /// Times that requests waited although their queue had space, because no credit was left for them.
    pub waits: u64,
    /// Most requests that may be outstanding now; `u64::MAX`: no limit.
    pub max: u64,
}

/// Operations of a pool that may lose races.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConflictStats {
    /// Retries.
    pub retries: u64,
    /// Finished operations by their number of retries: 0, 1, and so on; in the last place, 8 or more.
    pub finished_by_retries: [u64; RETRY_CLASSES],
    /// Times that a task waited for a conflict slot.
    pub slot_waits: u64,
    /// Most tasks that may be inside a guard now; `u64::MAX`: all.
    pub tasks_max: u64,
    /// Limit of waits before retries now.
    pub backoff_max: Ns,
}

impl TaskStats {
    /// Calls `each` with the name of every metric, as `drover_task_*`, and its value.
    pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
        for (name, value) in [
            ("drover_task_suspensions_total", self.suspensions),
            ("drover_task_doorbells_total", self.requests.doorbells),
            ("drover_task_requests_posted_total", self.requests.posted),
            ("drover_task_requests_ended_total", self.requests.ended),
            ("drover_task_completions_total", self.requests.completions),
            ("drover_task_polls_total", self.requests.polls),
            ("drover_task_credit_waits_total", self.credits.waits),
            ("drover_task_requests_outstanding", self.requests.outstanding),
            ("drover_task_credits_max", self.credits.max),
            ("drover_task_retries_total", self.conflicts.retries),
            ("drover_task_slot_waits_total", self.conflicts.slot_waits),
            ("drover_task_conflict_tasks_max", self.conflicts.tasks_max),
            ("drover_task_backoff_max_ns", self.conflicts.backoff_max.0),
            ("drover_task_detached_failures_total", self.detached_failures),
            ("drover_task_timed_out_total", self.timed_out),
        ] {
            each(name, value);
        }
        const BY_RETRIES: [&str; RETRY_CLASSES] = [
            "drover_task_operations_total{retries=\"0\"}",
            "drover_task_operations_total{retries=\"1\"}",
            "drover_task_operations_total{retries=\"2\"}",
            "drover_task_operations_total{retries=\"3\"}",
            "drover_task_operations_total{retries=\"4\"}",
            "drover_task_operations_total{retries=\"5\"}",
            "drover_task_operations_total{retries=\"6\"}",
            "drover_task_operations_total{retries=\"7\"}",
            "drover_task_operations_total{retries=\"8+\"}",
        ];
        for (name, count) in BY_RETRIES.into_iter().zip(self.conflicts.finished_by_retries) {
            each(name, count);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_every_metric() {
        let document = include_str!("../../../../../docs/metrics.md");
        TaskStats::default().each(|name, _| {
            let family = name.split('{').next().expect("a name");
            assert!(
                document.contains(&format!("`{family}`")),
                "docs/metrics.md lacks {family}"
            );
        });
    }
}
