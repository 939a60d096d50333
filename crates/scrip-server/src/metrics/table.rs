//! Table of all metrics: name, type and help text.

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
    BUILD_INFO Gauge "scrip_build_info" "Always 1; the label has the version.";
    SEALED Gauge "scrip_sealed" "1 while all requests are rejected because the root key has not opened the vault; 0 if the storage is the reason.";
    NOT_READY Gauge "scrip_not_ready" "1 while the server is not ready for this reason.";
    UNLOCK_OK Gauge "scrip_unlock_ok" "1 while an unlock method returns the vault key, by method; absent for methods that need people.";
    AUDIT_SINK_UP Gauge "scrip_audit_sink_up" "1 while records are written to the audit sink; absent without audit.sink.";
    APPROVALS_WAITING Gauge "scrip_approvals_waiting" "Requests that wait for a second operator.";
    STORE_UP Gauge "scrip_store_up" "1 while the storage accepts reads and writes.";
    DISK_FREE Gauge "scrip_disk_free_bytes" "Free bytes of the file system of a directory.";
    DISK_SIZE Gauge "scrip_disk_size_bytes" "Size of the file system of a directory.";
    REQUESTS Counter "scrip_requests_total" "Responses of routes, by operation and status.";
    REQUEST_DURATION Histogram "scrip_request_duration_seconds" "Time from the request head to the response, by operation.";
    IN_FLIGHT Gauge "scrip_requests_in_flight" "Requests without a response yet.";
    REQUESTS_UNROUTED Counter "scrip_requests_unrouted_total" "Requests that matched no route, by reason.";
    LONG_WORK Counter "scrip_long_work_seconds_total" "Time of work that ran outside of the async workers, because it may take long.";
    PANICS Counter "scrip_panics_total" "Requests that ended with a panic.";
    CONNECTIONS Gauge "scrip_connections" "Open connections.";
    CONNECTIONS_MAX Gauge "scrip_connections_max" "Maximum number of open connections; further ones wait.";
    CONNECTIONS_ACCEPTED Counter "scrip_connections_accepted_total" "Accepted connections.";
    CONNECTIONS_REJECTED Counter "scrip_connections_rejected_total" "New connections that were closed immediately, by reason.";
    CONNECTIONS_EVICTED Counter "scrip_connections_evicted_total" "Idle connections that were closed in favour of a new one, by reason.";
    CONNECTIONS_CLOSED Counter "scrip_connections_closed_total" "Connections that were closed because the client was too slow, by reason.";
    BODY_MEMORY Gauge "scrip_body_memory_free_bytes" "Free memory for request bodies and data parsed from them, by pool.";
    BODIES_REJECTED Counter "scrip_request_bodies_rejected_total" "Request bodies rejected for lack of memory, by reason.";
    RESPONSE_MEMORY Gauge "scrip_response_memory_free_bytes" "Free memory for large responses that clients have not read.";
    RESPONSES_REJECTED Counter "scrip_responses_rejected_total" "Requests rejected for lack of response memory, by reason.";
    READINESS_CHECKS Counter "scrip_readiness_checks_total" "Storage checks for /readyz.";
    AUTHENTICATION_FAILURES Counter "scrip_authentication_failures_total" "Requests at routes without a valid key, by reason.";
    IDEMPOTENCY Counter "scrip_idempotency_requests_total" "Requests with an idempotency key, by outcome: first request, replay, or conflict with a request in flight.";
    LIMITER_DECISIONS Counter "scrip_limiter_decisions_total" "Decisions of the rate limiter, by limit.";
    LIMITER_COUNTERS Gauge "scrip_limiter_counters" "Rate limit counters in use in this process.";
    LIMITER_COUNTERS_MAX Gauge "scrip_limiter_counters_max" "Maximum number of rate limit counters; beyond it new callers share overflow counters.";
    SHARED_COUNTER_FAILURES Counter "scrip_shared_counters_failures_total" "Requests for which the shared counters did not respond.";
    SHARED_COUNTERS_UP Gauge "scrip_shared_counters_up" "1 while the shared counters respond; absent without shared counters.";
    DIRECTORY_VERSION Gauge "scrip_directory_version" "Version of the tenants, applications and keys in memory.";
    DIRECTORY_TENANTS Gauge "scrip_directory_tenants" "Tenants in memory.";
    DIRECTORY_RELOADS Counter "scrip_directory_reloads_total" "Loads of tenants, applications and keys, by outcome.";
    POLICY_ALTERATIONS Gauge "scrip_policy_alterations" "Policy rows that were altered outside the vault.";
    EPOCH_KEYS Gauge "scrip_epoch_keys" "CVC epoch keys in memory.";
    EPOCH_KEY_FAILURES Counter "scrip_shared_epoch_keys_failures_total" "Failed requests to the shared CVC epoch keys.";
    EPOCH_KEYS_UP Gauge "scrip_shared_epoch_keys_up" "1 while the shared CVC epoch keys are available; absent without shared keys.";
    SWEPT Counter "scrip_sweeper_removed_total" "Expired rows that were deleted, by kind.";
    SWEEP_FAILURES Counter "scrip_sweeper_failures_total" "Failed runs of a sweeper, by kind.";
    SWEEP_FINISHED Gauge "scrip_sweeper_last_finished_timestamp_seconds" "Time when a sweeper last had nothing left to delete, by kind; 0 before the first time.";
    BUDGETS_EXHAUSTED Counter "scrip_guessing_budgets_exhausted_total" "Times that a guessing or search budget was exhausted, by budget.";
    CACHE_HITS Counter "scrip_cache_hits_total" "Cache lookups that found an entry, by cache.";
    CACHE_MISSES Counter "scrip_cache_misses_total" "Cache lookups that found no entry, by cache.";
    CACHE_ENTRIES Gauge "scrip_cache_entries" "Entries, by cache.";
    THREEDS_REQUESTS Counter "scrip_threeds_requests_total" "Authentication requests to directory servers, by outcome.";
    THREEDS_DURATION Histogram "scrip_threeds_request_duration_seconds" "Time from the DNS lookup of a directory server to its response.";
    CARD_RANGES Gauge "scrip_threeds_card_ranges" "Card ranges in force; 0 before the first fetch.";
    CARD_RANGES_FETCHED Gauge "scrip_threeds_card_ranges_fetched_timestamp_seconds" "Time of the last fetch of card ranges; 0 before the first one.";
    CARD_RANGES_FAILURES Counter "scrip_threeds_card_ranges_failures_total" "Failed fetches of card ranges.";
    PROXY_CALLS Counter "scrip_proxy_calls_total" "Proxied calls, by how far they got.";
    PROXY_FAILURES Counter "scrip_proxy_failures_total" "Proxied calls without an answer that could be passed on, by reason.";
    PROXY_DURATION Histogram "scrip_proxy_answer_duration_seconds" "Time from the start of a proxied call to the head of the answer.";
    PROXY_IN_PROGRESS Gauge "scrip_proxy_calls_in_progress" "Proxied calls in progress.";
    PROXY_WAITING Gauge "scrip_proxy_calls_waiting" "Proxied calls that wait until others end.";
    PROXY_IDLE Gauge "scrip_proxy_idle_connections" "Idle connections to destinations.";
    PROXY_OPENED Counter "scrip_proxy_connections_opened_total" "Connections opened to destinations.";
    PROXY_REUSED Counter "scrip_proxy_connections_reused_total" "Proxied calls on a connection that was idle.";
    PROXY_OUTCOMES_LOST Counter "scrip_proxy_outcomes_lost_total" "Outcomes of proxied calls that could not be recorded in the read log.";
    WEBHOOK_ATTEMPTS Counter "scrip_webhook_attempts_total" "Attempts to deliver an event to a webhook, by outcome.";
    WEBHOOK_DURATION Histogram "scrip_webhook_attempt_duration_seconds" "Time from the lookup of a webhook's receiver to its answer.";
    WEBHOOK_DELIVERIES Counter "scrip_webhook_deliveries_total" "Deliveries that ended, by outcome.";
    WEBHOOK_DISABLED Counter "scrip_webhook_disabled_total" "Webhooks that the vault disabled, by reason.";
    WEBHOOK_IN_PROGRESS Gauge "scrip_webhook_attempts_in_progress" "Attempts in progress.";
    WEBHOOK_PENDING Gauge "scrip_webhook_deliveries_pending" "Deliveries that wait for an attempt, also those of disabled webhooks.";
    WEBHOOK_OLDEST_PENDING Gauge "scrip_webhook_oldest_pending_seconds" "Age of the oldest event that waits for an attempt; 0 if none waits.";
    KEY_ROTATION_ROWS Counter "scrip_key_rotation_rows_total" "Rows that this server encrypted with a new version of a sealing key.";
    KEY_ROTATION_FAILURES Counter "scrip_key_rotation_failures_total" "Failed steps of key rotations.";
    KEY_ROTATIONS_RUNNING Gauge "scrip_key_rotations_running" "Tenants with more than one version of their sealing key.";
    KEY_ROTATION_UNOPENED Gauge "scrip_key_rotation_unopened_rows" "Rows that cannot be decrypted, so that a key rotation keeps an old version.";
    TENANT_KEY_AGE Gauge "scrip_tenant_key_age_max_seconds" "Age of the oldest sealing key of a tenant.";
    TENANT_KEYS_OVERDUE Gauge "scrip_tenant_keys_overdue" "Sealing keys of tenants that are older than keys.tenant_max_age_days.";
    VAULT_KEY_AGE Gauge "scrip_vault_key_age_seconds" "Age of the vault key.";
    VAULT_KEY_OVERDUE Gauge "scrip_vault_key_overdue" "1 if the vault key is older than keys.vault_max_age_days.";
    STORE_QUEUE Gauge "scrip_store_queue_depth" "Writes in the write queue, by log.";
    STORE_QUEUE_MAX Gauge "scrip_store_queue_max" "Maximum number of queued writes; further ones are rejected.";
    STORE_WRITES_REJECTED Counter "scrip_store_writes_rejected_total" "Writes rejected because the queue was full, by log.";
    STORE_COMMITS Counter "scrip_store_commits_total" "Durable commits, by log.";
    STORE_COMMIT_FAILURES Counter "scrip_store_commit_failures_total" "Failed transactions, by log.";
    STORE_BATCH Histogram "scrip_store_commit_batch_size" "Writes per group commit, by log.";
    STORE_DURATION Histogram "scrip_store_commit_duration_seconds" "Time from the start of a transaction until it is durable, by log.";
    WAL_BYTES Gauge "scrip_store_wal_bytes" "Size of the WAL file, by log.";
    WAL_PAGES_PENDING Gauge "scrip_store_wal_pages_pending" "WAL pages that are not yet copied to the database file, by log.";
    READERS_BUSY Gauge "scrip_store_readers_busy" "Database connections that are reading.";
    READERS_IDLE Gauge "scrip_store_readers_idle" "Idle database connections for reads.";
    READERS_OPENED Counter "scrip_store_readers_opened_total" "Database connections opened for reads.";
    TLS_CERTIFICATE_EXPIRY Gauge "scrip_tls_certificate_expiry_timestamp_seconds" "Time at which the certificate of the client listener expires; absent without TLS.";
    STARTED_AT Gauge "scrip_process_start_time_seconds" "Start time of this server, by its own clock.";
    RESIDENT_MEMORY Gauge "scrip_process_resident_memory_bytes" "Resident memory, including mapped files.";
    ANONYMOUS_MEMORY Gauge "scrip_process_anonymous_memory_bytes" "Resident memory without mapped files.";
    OPEN_FILES Gauge "scrip_process_open_fds" "Open files and sockets.";
    OPEN_FILES_MAX Gauge "scrip_process_max_fds" "Maximum number of open files and sockets.";
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
            let is_name_character = |it: char| it.is_ascii_lowercase() || it == '_';
            assert!(name.chars().all(is_name_character), "{name}");
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
