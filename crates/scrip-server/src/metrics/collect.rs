//! What a scrape shows: read from the server when asked, family by family.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use scrip_api::{
    app::App,
    limiter::{Limiter, decisions::RateLimitDecisions},
    metrics::{Label, Metrics, STATUSES, label::Counters},
    routes::ROUTES,
};
use scrip_core::{
    audit::Operation,
    metrics::{Counter, StoreMetrics, WriterMetrics},
    token::expression::compilation,
};
use scrip_seal::{EpochKeys, KeyExchange};

use crate::{
    directory_servers::{self, ConnectedScheme},
    metrics::{
        page::{HistogramUnit, MetricsPage},
        process_metrics,
        table::{self, MetricFamily},
    },
    node::Node,
};

/// These are there from the start, so that the first one is seen as a rise.
const ALWAYS_EXPORTED_STATUSES: [u16; 2] = [500, 503];

/// The whole page. It reads what others count, and makes nobody wait.
pub(crate) fn render(node: &Node) -> String {
    let mut page = MetricsPage::default();
    let app = &*node.app;
    let metrics = &app.metrics;
    page.family(&table::BUILD_INFO).sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.single(&table::SEALED, u64::from(app.is_sealed()));
    requests(&mut page, metrics);
    connections(&mut page, node);
    memory(&mut page, app);
    write_labelled(
        &mut page,
        &table::REQUESTS_UNROUTED,
        "reason",
        counter_values(&metrics.unrouted),
    );
    write_labelled(
        &mut page,
        &table::AUTHENTICATION_FAILURES,
        "reason",
        counter_values(&metrics.authentication_failures),
    );
    write_labelled(&mut page, &table::IDEMPOTENCY, "turn", counter_values(&metrics.idempotency));
    write_labelled(
        &mut page,
        &table::DIRECTORY_RELOADS,
        "outcome",
        counter_values(&metrics.reloads),
    );
    page.single(&table::PANICS, metrics.panics.get());
    limiter(&mut page, &app.limiter);
    directory(&mut page, app);
    sweepers(&mut page, metrics);
    write_labelled(
        &mut page,
        &table::BUDGETS_SPENT,
        "budget",
        app.vault.guess_ledger.exhausted.iter(),
    );
    caches(&mut page);
    threeds(&mut page, node);
    store(&mut page, &app.vault.store.metrics());
    let started = u64::try_from(metrics.started_at.unix_ms).unwrap_or_default();
    page.single(&table::STARTED_AT, seconds(started));
    process_metrics::write_process_metrics(&mut page);
    page.into_text()
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

fn counter_values<L: Label>(counters: &Counters<L>) -> impl Iterator<Item = (&'static str, u64)> {
    counters.iter().map(|(word, counter)| (word, counter.get()))
}

fn write_labelled(
    page: &mut MetricsPage,
    family: &MetricFamily,
    name: &'static str,
    rows: impl IntoIterator<Item = (&'static str, u64)>,
) {
    page.family(family);
    for (word, number) in rows {
        page.sample(&[(name, word)], number);
    }
}

/// Operations that have a route; the others are nobody's request.
fn routed_operations() -> impl Iterator<Item = Operation> {
    let routed: BTreeSet<_> = ROUTES.iter().map(|it| it.operation.index()).collect();
    Operation::ALL.iter().copied().filter(move |it| routed.contains(&it.index()))
}

fn requests(page: &mut MetricsPage, metrics: &Metrics) {
    page.family(&table::REQUESTS);
    let rows = || {
        routed_operations()
            .filter_map(|it| Some((it.as_str(), metrics.operations.get(it.index())?)))
    };
    for (operation, answered) in rows() {
        let counts = answered.statuses.iter().map(Counter::get);
        for ((status, word), count) in STATUSES.iter().zip(counts) {
            if count > 0 || ALWAYS_EXPORTED_STATUSES.contains(status) {
                page.sample(&[("operation", operation), ("status", word)], count);
            }
        }
    }
    page.family(&table::REQUEST_DURATION);
    for (operation, answered) in rows() {
        page.histogram(
            &[("operation", operation)],
            &answered.micros.snapshot(),
            HistogramUnit::Micros,
        );
    }
    page.single(&table::IN_FLIGHT, metrics.in_flight.get());
}

fn connections(page: &mut MetricsPage, node: &Node) {
    let counts = &node.connections;
    page.single(&table::CONNECTIONS, counts.open.load(Ordering::Relaxed));
    page.single(&table::CONNECTIONS_MAX, node.connection_slots());
    page.single(&table::CONNECTIONS_ACCEPTED, counts.accepted.get());
    write_labelled(page, &table::CONNECTIONS_REJECTED, "reason", counter_values(&counts.rejected));
    write_labelled(page, &table::CONNECTIONS_EVICTED, "reason", counter_values(&counts.evicted));
    write_labelled(page, &table::CONNECTIONS_CLOSED, "reason", counter_values(&counts.closed));
}

fn memory(page: &mut MetricsPage, app: &App) {
    let metrics = &app.metrics;
    page.family(&table::BODY_MEMORY);
    page.sample(&[("pool", "keyed")], app.body_memory.free_bytes());
    page.sample(&[("pool", "keyless")], app.keyless_body_memory.free_bytes());
    write_labelled(
        page,
        &table::BODIES_REJECTED,
        "reason",
        counter_values(&metrics.bodies_rejected),
    );
    page.single(&table::RESPONSE_MEMORY, app.response_memory.free_bytes());
    write_labelled(
        page,
        &table::RESPONSES_REJECTED,
        "reason",
        counter_values(&metrics.responses_rejected),
    );
    page.single(&table::READINESS_CHECKS, metrics.readiness_checks.get());
}

/// Rows are those of a table of ours, so there are only so many of them.
fn limiter(page: &mut MetricsPage, limiter: &Limiter) {
    page.family(&table::LIMITER_DECISIONS);
    for RateLimitDecisions { name: row, allowed, rejected: refused } in limiter.decisions() {
        page.sample(&[("row", row.as_str()), ("decision", "allowed")], allowed);
        page.sample(&[("row", row.as_str()), ("decision", "refused")], refused);
    }
    let fullness = limiter.counter_usage();
    page.single(&table::LIMITER_COUNTERS, fullness.counters);
    page.single(&table::LIMITER_COUNTERS_MAX, fullness.counters_max);
    page.single(
        &table::SHARED_COUNTER_FAILURES,
        limiter.shared_counter_failures().unwrap_or_default(),
    );
    page.family(&table::SHARED_COUNTERS_UP);
    if let Some(answer) = limiter.shared_counters_available() {
        page.sample(&[], u64::from(answer));
    }
}

fn directory(page: &mut MetricsPage, app: &App) {
    let directory = app.directory.load();
    let found = directory.as_ref().map(|it| (it.version(), it.tenants().len(), it.alterations()));
    let (version, tenants, alterations) = found.unwrap_or_default();
    page.single(&table::DIRECTORY_VERSION, version);
    page.single(&table::DIRECTORY_TENANTS, tenants);
    page.single(&table::POLICY_ALTERATIONS, alterations.len());
    epoch_keys(page, &app.vault.epoch_keys);
}

fn epoch_keys(page: &mut MetricsPage, epochs: &EpochKeys) {
    page.single(&table::EPOCH_KEYS, epochs.key_count());
    let exchange = epochs.exchange();
    page.single(
        &table::EPOCH_KEY_FAILURES,
        exchange.map(KeyExchange::failure_count).unwrap_or_default(),
    );
    page.family(&table::EPOCH_KEYS_UP);
    if let Some(exchange) = exchange {
        page.sample(&[], u64::from(exchange.is_available()));
    }
}

fn sweepers(page: &mut MetricsPage, metrics: &Metrics) {
    write_labelled(page, &table::SWEPT, "kind", counter_values(&metrics.swept));
    write_labelled(page, &table::SWEEP_FAILURES, "kind", counter_values(&metrics.sweep_failures));
    page.family(&table::SWEEP_FINISHED);
    for (kind, at) in metrics.sweep_finished.iter() {
        page.sample(&[("kind", kind)], seconds(at.get()));
    }
}

fn caches(page: &mut MetricsPage) {
    let expressions = compilation::cache_metrics();
    write_labelled(page, &table::CACHE_HITS, "cache", [("expressions", expressions.hits)]);
    write_labelled(page, &table::CACHE_MISSES, "cache", [("expressions", expressions.misses)]);
    write_labelled(page, &table::CACHE_ENTRIES, "cache", [("expressions", expressions.entries)]);
}

/// By the tenants that a scheme is connected for, and by scheme; nothing where none is.
fn threeds(page: &mut MetricsPage, node: &Node) {
    let peers: Vec<_> =
        node.settings.directory_servers.iter().flat_map(|it| it.connected_schemes()).collect();
    let named = |it: &Arc<dyn ConnectedScheme>| {
        [("world", directory_servers::tenant_kind_name(it.kind())), ("scheme", it.scheme().slug())]
    };
    page.family(&table::THREEDS_REQUESTS);
    for peer in &peers {
        let [harness, scheme] = named(peer);
        for (outcome, count) in counter_values(&peer.metrics().requests) {
            page.sample(&[harness, scheme, ("outcome", outcome)], count);
        }
    }
    page.family(&table::THREEDS_DURATION);
    for peer in &peers {
        page.histogram(&named(peer), &peer.metrics().micros.snapshot(), HistogramUnit::Micros);
    }
    page.family(&table::CARD_RANGES);
    for peer in &peers {
        page.sample(&named(peer), peer.ranges().map_or(0, |it| it.len()));
    }
    page.family(&table::CARD_RANGES_FETCHED);
    for peer in &peers {
        page.sample(&named(peer), seconds(peer.metrics().ranges_fetched_at.get()));
    }
    page.family(&table::CARD_RANGES_FAILURES);
    for peer in &peers {
        page.sample(&named(peer), peer.metrics().range_failures.get());
    }
}

type WriterMetric = fn(&WriterMetrics) -> u64;

fn store(page: &mut MetricsPage, measures: &StoreMetrics) {
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
        write_labelled(page, family, "log", measures.writers.iter().map(|it| (it.log, number(it))));
    }
    page.family(&table::STORE_BATCH);
    for it in &measures.writers {
        page.histogram(&[("log", it.log)], &it.batch_sizes, HistogramUnit::Plain);
    }
    page.family(&table::STORE_DURATION);
    for it in &measures.writers {
        page.histogram(&[("log", it.log)], &it.commit_micros, HistogramUnit::Micros);
    }
    let readers = measures.readers;
    page.single(&table::READERS_BUSY, readers.busy);
    page.single(&table::READERS_IDLE, readers.idle);
    page.single(&table::READERS_OPENED, readers.opened);
}
