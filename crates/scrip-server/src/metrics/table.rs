//! Every metric, declared once: its name, its kind and what it tells.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Debug)]
pub(super) struct MetricFamily {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) help: &'static str,
}

macro_rules! families {
    ($($constant:ident $kind:ident $name:literal $about:literal;)+) => {
        $(pub(super) const $constant: MetricFamily =
            MetricFamily { name: $name, kind: MetricKind::$kind, help: $about };)+

        #[cfg(test)]
        const ALL: &[MetricFamily] = &[$($constant),+];
    };
}

#[rustfmt::skip]
families! {
    BUILD_INFO Gauge "scrip_build_info" "Always 1; the version is its label.";
    SEALED Gauge "scrip_sealed" "1 while every request is refused because the keys are not open, or rights could not be followed.";
    REQUESTS Counter "scrip_requests_total" "Answers at routes, by operation and status.";
    REQUEST_DURATION Histogram "scrip_request_duration_seconds" "From the head of a request to its answer, by operation.";
    IN_FLIGHT Gauge "scrip_requests_in_flight" "Requests that have no answer yet.";
    REQUESTS_UNROUTED Counter "scrip_requests_refused_total" "Requests that came to no route, by reason.";
    PANICS Counter "scrip_panics_total" "Requests that ended by a panic.";
    CONNECTIONS Gauge "scrip_connections" "Open connections.";
    CONNECTIONS_MAX Gauge "scrip_connections_max" "Connections that may be open at once; further ones wait.";
    CONNECTIONS_ACCEPTED Counter "scrip_connections_accepted_total" "Connections so far.";
    CONNECTIONS_REJECTED Counter "scrip_connections_refused_total" "New connections that were closed at once, by reason.";
    CONNECTIONS_EVICTED Counter "scrip_connections_evicted_total" "Idle connections that were closed in favour of a new one, by reason.";
    CONNECTIONS_CLOSED Counter "scrip_connections_cut_total" "Connections that were closed because the client was too slow, by reason.";
    BODY_MEMORY Gauge "scrip_body_memory_free_bytes" "Memory that is left for request bodies and what is parsed from them, by pool.";
    BODIES_REJECTED Counter "scrip_bodies_refused_total" "Request bodies that found no memory, by reason.";
    RESPONSE_MEMORY Gauge "scrip_answer_memory_free_bytes" "Memory that is left for large answers that clients have not read.";
    RESPONSES_REJECTED Counter "scrip_answers_refused_total" "Requests that were refused because their answers found no memory, by reason.";
    READINESS_CHECKS Counter "scrip_readiness_checks_total" "Checks of the storage on behalf of /readyz.";
    AUTHENTICATION_FAILURES Counter "scrip_authentication_failures_total" "Requests at routes without a good key, by reason.";
    IDEMPOTENCY Counter "scrip_idempotency_turns_total" "Requests with an idempotency key: the first, a replay, or a conflict with one in flight.";
    LIMITER_DECISIONS Counter "scrip_limiter_decisions_total" "Decisions of the rate limiter, by row of its table.";
    LIMITER_COUNTERS Gauge "scrip_limiter_counters" "Counters of the rate limiter that are in use in this process.";
    LIMITER_COUNTERS_MAX Gauge "scrip_limiter_counters_max" "Counters there is room for; beyond them newcomers share.";
    SHARED_COUNTER_FAILURES Counter "scrip_shared_counters_failures_total" "Requests for which shared counters did not answer.";
    SHARED_COUNTERS_UP Gauge "scrip_shared_counters_up" "1 while shared counters answer; absent when there are none.";
    DIRECTORY_VERSION Gauge "scrip_directory_version" "Version of tenants, applications and keys in memory.";
    DIRECTORY_TENANTS Gauge "scrip_directory_tenants" "Tenants in memory.";
    DIRECTORY_RELOADS Counter "scrip_directory_reloads_total" "Loads of tenants, applications and keys, by outcome.";
    POLICY_ALTERATIONS Gauge "scrip_policy_alterations" "Policy rows that are not as the vault wrote them.";
    EPOCH_KEYS Gauge "scrip_epoch_keys" "Keys of card verification codes that are held now.";
    EPOCH_KEY_FAILURES Counter "scrip_shared_epoch_keys_failures_total" "Times that shared keys of card verification codes could not be asked for.";
    EPOCH_KEYS_UP Gauge "scrip_shared_epoch_keys_up" "1 while shared keys of card verification codes can be asked for; absent when there are none.";
    SWEPT Counter "scrip_sweeper_removed_total" "What left because its time was over, by kind.";
    SWEEP_FAILURES Counter "scrip_sweeper_failures_total" "Runs of a sweeper that broke off, by kind.";
    SWEEP_FINISHED Gauge "scrip_sweeper_last_finished_timestamp_seconds" "When a sweeper last left nothing to remove, by kind; 0 before the first time.";
    BUDGETS_SPENT Counter "scrip_guessing_budgets_spent_total" "Times that a guessing or search budget was spent, by budget.";
    CACHE_HITS Counter "scrip_cache_hits_total" "Lookups that found what they looked for, by cache.";
    CACHE_MISSES Counter "scrip_cache_misses_total" "Lookups that did not, by cache.";
    CACHE_ENTRIES Gauge "scrip_cache_entries" "What is kept, by cache.";
    THREEDS_REQUESTS Counter "scrip_threeds_asks_total" "Authentications that directory servers were asked for, by outcome.";
    THREEDS_DURATION Histogram "scrip_threeds_ask_duration_seconds" "From looking for a directory server to its answer.";
    CARD_RANGES Gauge "scrip_threeds_card_ranges" "Card ranges in force; 0 before the first were fetched.";
    CARD_RANGES_FETCHED Gauge "scrip_threeds_card_ranges_fetched_timestamp_seconds" "When card ranges were last fetched; 0 before the first time.";
    CARD_RANGES_FAILURES Counter "scrip_threeds_card_ranges_failures_total" "Times that card ranges could not be fetched.";
    STORE_QUEUE Gauge "scrip_store_queue_depth" "Writes that wait for the writer, by log.";
    STORE_QUEUE_MAX Gauge "scrip_store_queue_max" "Writes that may wait; further ones are refused.";
    STORE_WRITES_REJECTED Counter "scrip_store_writes_refused_total" "Writes that found no place to wait, by log.";
    STORE_COMMITS Counter "scrip_store_commits_total" "Durable commits, by log.";
    STORE_COMMIT_FAILURES Counter "scrip_store_commit_failures_total" "Transactions that failed, by log.";
    STORE_BATCH Histogram "scrip_store_commit_batch_size" "Writes that shared a commit, by log.";
    STORE_DURATION Histogram "scrip_store_commit_duration_seconds" "From the beginning of a transaction until it is durable, by log.";
    WAL_BYTES Gauge "scrip_store_wal_bytes" "Size of the write-ahead log's file, by log.";
    WAL_PAGES_PENDING Gauge "scrip_store_wal_pages_waiting" "Pages of the write-ahead log that are not in the database file yet, by log.";
    READERS_BUSY Gauge "scrip_store_readers_busy" "Connections of the engine that read now.";
    READERS_IDLE Gauge "scrip_store_readers_idle" "Connections of the engine that are kept for the next read.";
    READERS_OPENED Counter "scrip_store_readers_opened_total" "Connections of the engine that were opened to read.";
    STARTED_AT Gauge "scrip_process_start_time_seconds" "When this server started, by its own clock.";
    RESIDENT_MEMORY Gauge "scrip_process_resident_memory_bytes" "Memory that is not swapped or given back, mapped files included.";
    ANONYMOUS_MEMORY Gauge "scrip_process_anonymous_memory_bytes" "Of it, what is the process's own.";
    OPEN_FILES Gauge "scrip_process_open_fds" "Open files and sockets.";
    OPEN_FILES_MAX Gauge "scrip_process_max_fds" "Files and sockets that may be open.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_follow_prometheus_conventions() {
        for family in ALL {
            let name = family.name;
            assert!(name.starts_with("scrip_"), "{name}");
            assert_eq!(family.kind == MetricKind::Counter, name.ends_with("_total"), "{name}");
            let plain = |it: char| it.is_ascii_lowercase() || it == '_';
            assert!(name.chars().all(plain), "{name}");
            for unit in ["_ms", "_micros", "_kib", "_minutes"] {
                assert!(!name.contains(unit), "{name}: a unit is a base unit");
            }
            assert!(family.help.ends_with('.') && !family.help.contains(['\n', '\\']), "{name}");
        }
        let mut names: Vec<_> = ALL.iter().map(|it| it.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
