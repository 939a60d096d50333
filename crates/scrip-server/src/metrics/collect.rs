//! Collects all metrics for a scrape, family by family.

use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use nix::sys::resource::{Resource, getrlimit};
use scrip_api::{
    app::{App, readiness::NotReadyReason},
    limiter::{Limiter, RateLimitDecisions},
    metrics::{Label, Metrics, STATUSES, label::Counters},
    routes::ROUTES,
};
use scrip_core::{
    expression::compilation,
    types::{
        Operation,
        metrics::{Counter, LONG_WORK_MICROS, StoreMetrics, WriterMetrics},
    },
};
use scrip_egress::EgressStats;
use scrip_seal::{EpochKeys, KeyExchange};

use crate::{
    directory_servers::{self, ConnectedScheme},
    files::DiskSpace,
    metrics::{
        page::{HistogramUnit, MetricsPage},
        table::{self, MetricFamily},
    },
    node::Node,
};

/// These series exist from the start, so that the first error is visible as an increase.
const ALWAYS_EXPORTED_STATUSES: [u16; 2] = [500, 503];

/// Renders the page. It only reads counters and blocks no request.
pub(crate) fn render(node: &Node) -> String {
    let mut page = MetricsPage::default();
    let app = &*node.app;
    let metrics = &app.metrics;
    page.start_family(&table::BUILD_INFO)
        .write_sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    write_readiness(&mut page, app);
    write_unlock_methods(&mut page, node);
    page.start_family(&table::AUDIT_SINK_UP);
    if let Some(sink) = &node.settings.audit_sink {
        page.write_sample(&[], u64::from(sink.cause().is_none()));
    }
    let dual_control = node.settings.dual_control.as_ref();
    page.write_single(&table::APPROVALS_WAITING, dual_control.map_or(0, |it| it.waiting_count()));
    write_disk(&mut page, node);
    write_requests(&mut page, metrics);
    write_connections(&mut page, node);
    write_memory(&mut page, app);
    write_counters(&mut page, &table::REQUESTS_UNROUTED, "reason", &metrics.unrouted);
    write_counters(
        &mut page,
        &table::AUTHENTICATION_FAILURES,
        "reason",
        &metrics.authentication_failures,
    );
    write_counters(&mut page, &table::IDEMPOTENCY, "outcome", &metrics.idempotency);
    write_counters(&mut page, &table::DIRECTORY_RELOADS, "outcome", &metrics.reloads);
    page.write_single(
        &table::LONG_WORK,
        Duration::from_micros(LONG_WORK_MICROS.get()).as_secs_f64(),
    );
    page.write_single(&table::PANICS, metrics.panics.get());
    write_limiter(&mut page, &app.limiter);
    write_directory(&mut page, app);
    write_sweepers(&mut page, metrics);
    write_labelled(
        &mut page,
        &table::BUDGETS_EXHAUSTED,
        "budget",
        app.vault.guess_ledger.exhausted.iter(),
    );
    write_caches(&mut page);
    write_threeds(&mut page, node);
    write_proxy(&mut page, app);
    write_webhooks(&mut page, app);
    write_key_rotation(&mut page, app);
    write_store(&mut page, &app.vault.store.metrics());
    write_certificate_expiry(&mut page, node);
    let started = u64::try_from(metrics.started_at.unix_ms).unwrap_or_default();
    page.write_single(&table::STARTED_AT, to_seconds(started));
    write_process_metrics(&mut page);
    page.into_text()
}

/// Every reason has a series, so that an alert can rely on it.
fn write_readiness(page: &mut MetricsPage, app: &App) {
    let (storage, rejection) = (app.storage_reason(), app.rejection_reason());
    page.write_single(&table::SEALED, u64::from(app.is_sealed()));
    let is_up = storage.is_none() && rejection != Some(NotReadyReason::StoreUnreachable);
    page.write_single(&table::STORE_UP, u64::from(is_up));
    let is_reported = |it: NotReadyReason| u64::from([storage, rejection].contains(&Some(it)));
    let rows = NotReadyReason::ALL.iter().map(|it| (it.as_str(), is_reported(*it)));
    write_labelled(page, &table::NOT_READY, "reason", rows);
}

fn write_unlock_methods(page: &mut MetricsPage, node: &Node) {
    let results = node.settings.key_manager.as_ref().map(|it| it.health.results());
    let results = results.unwrap_or_default();
    page.start_family(&table::UNLOCK_OK);
    for (method, is_ok) in &results {
        page.write_sample(&[("method", method)], u64::from(*is_ok));
    }
}

fn write_disk(page: &mut MetricsPage, node: &Node) {
    let space = node.settings.data_dir.as_deref().and_then(|it| DiskSpace::read(it).ok());
    let rows = |bytes: fn(&DiskSpace) -> u64| space.iter().map(move |it| ("data", bytes(it)));
    write_labelled(page, &table::DISK_FREE, "directory", rows(|it| it.free_bytes));
    write_labelled(page, &table::DISK_SIZE, "directory", rows(|it| it.size_bytes));
}

fn to_seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

fn counter_values<L: Label>(counters: &Counters<L>) -> impl Iterator<Item = (&'static str, u64)> {
    counters.iter().map(|(label, counter)| (label, counter.get()))
}

fn write_counters<L: Label>(
    page: &mut MetricsPage,
    family: &MetricFamily,
    name: &'static str,
    counters: &Counters<L>,
) {
    write_labelled(page, family, name, counter_values(counters));
}

fn write_labelled(
    page: &mut MetricsPage,
    family: &MetricFamily,
    name: &'static str,
    rows: impl IntoIterator<Item = (&'static str, u64)>,
) {
    page.start_family(family);
    for (label, number) in rows {
        page.write_sample(&[(name, label)], number);
    }
}

fn write_proxy(page: &mut MetricsPage, app: &App) {
    let metrics = &app.metrics;
    write_counters(page, &table::PROXY_CALLS, "result", &metrics.proxy_calls);
    write_counters(page, &table::PROXY_FAILURES, "reason", &metrics.proxy_failures);
    page.start_family(&table::PROXY_DURATION);
    page.write_histogram(&[], &metrics.proxy_answer_micros.snapshot(), HistogramUnit::Micros);
    let stats = app.egress.proxied_calls.client.stats();
    let gauge = |read: fn(&EgressStats) -> usize| stats.as_ref().map_or(0, read);
    page.write_single(&table::PROXY_IN_PROGRESS, gauge(|it| it.requests_in_progress));
    page.write_single(&table::PROXY_WAITING, gauge(|it| it.requests_waiting));
    page.write_single(&table::PROXY_IDLE, gauge(|it| it.idle_connections));
    let counter = |read: fn(&EgressStats) -> u64| stats.as_ref().map_or(0, read);
    page.write_single(&table::PROXY_OPENED, counter(|it| it.connections_opened));
    page.write_single(&table::PROXY_REUSED, counter(|it| it.connections_reused));
    page.write_single(&table::PROXY_OUTCOMES_LOST, app.vault.outcome_queue.lost.get());
}

fn write_webhooks(page: &mut MetricsPage, app: &App) {
    let metrics = &app.metrics.webhooks;
    write_counters(page, &table::WEBHOOK_ATTEMPTS, "outcome", &metrics.attempts);
    page.start_family(&table::WEBHOOK_DURATION);
    page.write_histogram(&[], &metrics.attempt_micros.snapshot(), HistogramUnit::Micros);
    write_counters(page, &table::WEBHOOK_DELIVERIES, "outcome", &metrics.deliveries);
    write_counters(page, &table::WEBHOOK_DISABLED, "reason", &metrics.disabled);
    let in_progress = app.egress.webhooks.stats().map_or(0, |it| it.requests_in_progress);
    page.write_single(&table::WEBHOOK_IN_PROGRESS, in_progress);
    page.write_single(&table::WEBHOOK_PENDING, metrics.pending.get());
    page.write_single(&table::WEBHOOK_OLDEST_PENDING, metrics.oldest_pending_seconds.get());
}

fn write_key_rotation(page: &mut MetricsPage, app: &App) {
    let metrics = &app.metrics.key_rotation;
    page.write_single(&table::KEY_ROTATION_ROWS, metrics.resealed.get());
    page.write_single(&table::KEY_ROTATION_FAILURES, metrics.failures.get());
    page.write_single(&table::KEY_ROTATIONS_RUNNING, metrics.running.get());
    page.write_single(&table::KEY_ROTATION_UNOPENED, metrics.unopened.get());
    page.write_single(&table::TENANT_KEY_AGE, metrics.oldest_key_seconds.get());
    page.write_single(&table::TENANT_KEYS_OVERDUE, metrics.overdue.get());
    page.write_single(&table::VAULT_KEY_AGE, metrics.vault_key_seconds.get());
    page.write_single(&table::VAULT_KEY_OVERDUE, metrics.is_vault_key_overdue.get());
}

/// Operations that have a route; other operations are never requested over HTTP.
fn routed_operations() -> impl Iterator<Item = Operation> {
    let routed: BTreeSet<_> = ROUTES.iter().map(|it| it.operation.index()).collect();
    Operation::ALL.iter().copied().filter(move |it| routed.contains(&it.index()))
}

fn write_requests(page: &mut MetricsPage, metrics: &Metrics) {
    page.start_family(&table::REQUESTS);
    let rows = || {
        routed_operations()
            .filter_map(|it| Some((it.as_str(), metrics.operations.get(it.index())?)))
    };
    for (operation, operation_metrics) in rows() {
        let counts = operation_metrics.statuses.iter().map(Counter::get);
        for ((status, status_label), count) in STATUSES.iter().zip(counts) {
            if count > 0 || ALWAYS_EXPORTED_STATUSES.contains(status) {
                page.write_sample(&[("operation", operation), ("status", status_label)], count);
            }
        }
    }
    page.start_family(&table::REQUEST_DURATION);
    for (operation, operation_metrics) in rows() {
        page.write_histogram(
            &[("operation", operation)],
            &operation_metrics.micros.snapshot(),
            HistogramUnit::Micros,
        );
    }
    page.write_single(&table::IN_FLIGHT, metrics.in_flight.get());
}

fn write_connections(page: &mut MetricsPage, node: &Node) {
    let counts = &node.connection_counts;
    page.write_single(&table::CONNECTIONS, counts.open.load(Ordering::Relaxed));
    page.write_single(&table::CONNECTIONS_MAX, node.connections_max());
    page.write_single(&table::CONNECTIONS_ACCEPTED, counts.accepted.get());
    write_counters(page, &table::CONNECTIONS_REJECTED, "reason", &counts.rejected);
    write_counters(page, &table::CONNECTIONS_EVICTED, "reason", &counts.evicted);
    write_counters(page, &table::CONNECTIONS_CLOSED, "reason", &counts.closed);
}

fn write_memory(page: &mut MetricsPage, app: &App) {
    let metrics = &app.metrics;
    page.start_family(&table::BODY_MEMORY);
    page.write_sample(&[("pool", "keyed")], app.memory.bodies.free_bytes());
    page.write_sample(&[("pool", "keyless")], app.memory.keyless_bodies.free_bytes());
    write_counters(page, &table::BODIES_REJECTED, "reason", &metrics.bodies_rejected);
    page.write_single(&table::RESPONSE_MEMORY, app.memory.responses.free_bytes());
    write_counters(page, &table::RESPONSES_REJECTED, "reason", &metrics.responses_rejected);
    page.write_single(&table::READINESS_CHECKS, metrics.readiness_checks.get());
}

/// Label values come from the rate limit table, so their number is bounded.
fn write_limiter(page: &mut MetricsPage, limiter: &Limiter) {
    page.start_family(&table::LIMITER_DECISIONS);
    for RateLimitDecisions { name, allowed, rejected } in limiter.decisions() {
        page.write_sample(&[("limit", name.as_str()), ("decision", "allowed")], allowed);
        page.write_sample(&[("limit", name.as_str()), ("decision", "rejected")], rejected);
    }
    let usage = limiter.counter_usage();
    page.write_single(&table::LIMITER_COUNTERS, usage.counters);
    page.write_single(&table::LIMITER_COUNTERS_MAX, usage.counters_max);
    page.write_single(
        &table::SHARED_COUNTER_FAILURES,
        limiter.shared_counter_failures().unwrap_or_default(),
    );
    page.start_family(&table::SHARED_COUNTERS_UP);
    if let Some(is_available) = limiter.shared_counters_available() {
        page.write_sample(&[], u64::from(is_available));
    }
}

fn write_directory(page: &mut MetricsPage, app: &App) {
    let directory = app.directory.load();
    let summary = directory.as_ref().map(|it| (it.version(), it.tenants().len(), it.alterations()));
    let (version, tenants, alterations) = summary.unwrap_or_default();
    page.write_single(&table::DIRECTORY_VERSION, version);
    page.write_single(&table::DIRECTORY_TENANTS, tenants);
    page.write_single(&table::POLICY_ALTERATIONS, alterations.len());
    write_epoch_keys(page, &app.vault.epoch_keys);
}

fn write_epoch_keys(page: &mut MetricsPage, epochs: &EpochKeys) {
    page.write_single(&table::EPOCH_KEYS, epochs.key_count());
    let exchange = epochs.exchange();
    page.write_single(
        &table::EPOCH_KEY_FAILURES,
        exchange.map(KeyExchange::failure_count).unwrap_or_default(),
    );
    page.start_family(&table::EPOCH_KEYS_UP);
    if let Some(exchange) = exchange {
        page.write_sample(&[], u64::from(exchange.is_available()));
    }
}

fn write_sweepers(page: &mut MetricsPage, metrics: &Metrics) {
    write_counters(page, &table::SWEPT, "kind", &metrics.swept);
    write_counters(page, &table::SWEEP_FAILURES, "kind", &metrics.sweep_failures);
    page.start_family(&table::SWEEP_FINISHED);
    for (kind, finished_ms) in metrics.sweep_finished.iter() {
        page.write_sample(&[("kind", kind)], to_seconds(finished_ms.get()));
    }
}

fn write_caches(page: &mut MetricsPage) {
    let expressions = compilation::cache_metrics();
    write_labelled(page, &table::CACHE_HITS, "cache", [("expressions", expressions.hits)]);
    write_labelled(page, &table::CACHE_MISSES, "cache", [("expressions", expressions.misses)]);
    write_labelled(page, &table::CACHE_ENTRIES, "cache", [("expressions", expressions.entries)]);
}

/// Labelled by tenant type and scheme; absent if no scheme is connected.
fn write_threeds(page: &mut MetricsPage, node: &Node) {
    let scheme_clients: Vec<_> =
        node.settings.directory_servers.iter().flat_map(|it| it.connected_schemes()).collect();
    let labels_of = |it: &Arc<dyn ConnectedScheme>| {
        [
            ("tenant_type", directory_servers::tenant_kind_name(it.kind())),
            ("scheme", it.scheme().slug()),
        ]
    };
    page.start_family(&table::THREEDS_REQUESTS);
    for scheme_client in &scheme_clients {
        let [tenant_type, scheme] = labels_of(scheme_client);
        for (outcome, count) in counter_values(&scheme_client.metrics().requests) {
            page.write_sample(&[tenant_type, scheme, ("outcome", outcome)], count);
        }
    }
    page.start_family(&table::THREEDS_DURATION);
    for scheme_client in &scheme_clients {
        page.write_histogram(
            &labels_of(scheme_client),
            &scheme_client.metrics().micros.snapshot(),
            HistogramUnit::Micros,
        );
    }
    page.start_family(&table::CARD_RANGES);
    for scheme_client in &scheme_clients {
        page.write_sample(
            &labels_of(scheme_client),
            scheme_client.ranges().map_or(0, |it| it.len()),
        );
    }
    page.start_family(&table::CARD_RANGES_FETCHED);
    for scheme_client in &scheme_clients {
        page.write_sample(
            &labels_of(scheme_client),
            to_seconds(scheme_client.metrics().ranges_fetched_at.get()),
        );
    }
    page.start_family(&table::CARD_RANGES_FAILURES);
    for scheme_client in &scheme_clients {
        page.write_sample(&labels_of(scheme_client), scheme_client.metrics().range_failures.get());
    }
}

fn write_certificate_expiry(page: &mut MetricsPage, node: &Node) {
    page.start_family(&table::TLS_CERTIFICATE_EXPIRY);
    let validity = node.settings.certificates.as_ref().and_then(|it| it.validity());
    if let Some(validity) = validity {
        let expiry_ms = u64::try_from(validity.not_after.unix_ms).unwrap_or_default();
        page.write_sample(&[], to_seconds(expiry_ms));
    }
}

type WriterMetric = fn(&WriterMetrics) -> u64;

fn write_store(page: &mut MetricsPage, metrics: &StoreMetrics) {
    let numbers: [(&MetricFamily, WriterMetric); 7] = [
        (&table::STORE_QUEUE, |it| it.queued),
        (&table::STORE_QUEUE_MAX, |it| it.queue_capacity),
        (&table::STORE_WRITES_REJECTED, |it| it.rejected),
        (&table::STORE_COMMITS, |it| it.batch_sizes.count()),
        (&table::STORE_COMMIT_FAILURES, |it| it.unknown_outcomes),
        (&table::WAL_BYTES, |it| it.wal_bytes),
        (&table::WAL_PAGES_PENDING, |it| it.wal_pages_pending),
    ];
    for (family, number) in numbers {
        write_labelled(page, family, "log", metrics.writers.iter().map(|it| (it.log, number(it))));
    }
    page.start_family(&table::STORE_BATCH);
    for it in &metrics.writers {
        page.write_histogram(&[("log", it.log)], &it.batch_sizes, HistogramUnit::Plain);
    }
    page.start_family(&table::STORE_DURATION);
    for it in &metrics.writers {
        page.write_histogram(&[("log", it.log)], &it.commit_micros, HistogramUnit::Micros);
    }
    let readers = metrics.readers;
    page.write_single(&table::READERS_BUSY, readers.busy);
    page.write_single(&table::READERS_IDLE, readers.idle);
    page.write_single(&table::READERS_OPENED, readers.opened);
}

/// Process metrics from the kernel. On systems other than Linux there are none.
pub(super) fn write_process_metrics(page: &mut MetricsPage) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let read_bytes = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kib.saturating_mul(1024))
    };
    // The read directory itself is one of the descriptors.
    let open_files = fs::read_dir("/proc/self/fd").ok().map(|it| it.count().saturating_sub(1));
    let open_files = open_files.and_then(|it| u64::try_from(it).ok());
    let open_files_max = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft);
    let samples = [
        (&table::RESIDENT_MEMORY, read_bytes("VmRSS:")),
        (&table::ANONYMOUS_MEMORY, read_bytes("RssAnon:")),
        (&table::OPEN_FILES, open_files),
        (&table::OPEN_FILES_MAX, open_files_max),
    ];
    for (family, number) in samples {
        page.start_family(family);
        if let Some(number) = number {
            page.write_sample(&[], number);
        }
    }
}
