//! What a scrape shows: read from the server when asked, family by family.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use scrip_api::{
    app::App,
    limiter::{Limiter, tally::Decisions},
    metrics::{Label, Metrics, STATUSES, label::Counters},
    routes::ROUTES,
};
use scrip_core::{
    audit::Operation,
    measure::{Counter, LogMeasures, StoreMeasures},
    token::expression::compiled,
};
use scrip_seal::{EpochKeys, KeyExchange};

use crate::{
    directory_servers::{self, Peer},
    metrics::{
        own_process,
        page::{Page, Unit},
        table::{self, Family},
    },
    node::Node,
};

/// These are there from the start, so that the first one is seen as a rise.
const ALWAYS_SHOWN: [u16; 2] = [500, 503];

/// The whole page. It reads what others count, and makes nobody wait.
pub(crate) fn render(node: &Node) -> String {
    let mut page = Page::default();
    let app = &*node.app;
    let metrics = &app.metrics;
    page.family(&table::BUILD_INFO).sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.single(&table::SEALED, u64::from(app.is_sealed()));
    requests(&mut page, metrics);
    connections(&mut page, node);
    memory(&mut page, app);
    labelled(&mut page, &table::REFUSED, "reason", of(&metrics.refused));
    labelled(&mut page, &table::UNAUTHENTICATED, "reason", of(&metrics.unauthenticated));
    labelled(&mut page, &table::IDEMPOTENCY, "turn", of(&metrics.idempotency));
    labelled(&mut page, &table::DIRECTORY_RELOADS, "outcome", of(&metrics.reloads));
    page.single(&table::PANICS, metrics.panics.get());
    limiter(&mut page, &app.limiter);
    directory(&mut page, app);
    sweepers(&mut page, metrics);
    labelled(&mut page, &table::BUDGETS_SPENT, "budget", app.vault.guesses.spent.iter());
    caches(&mut page);
    threeds(&mut page, node);
    store(&mut page, &app.vault.store.measures());
    let started = u64::try_from(metrics.started_at.unix_ms).unwrap_or_default();
    page.single(&table::STARTED_AT, seconds(started));
    own_process::show(&mut page);
    page.into_text()
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

fn of<L: Label>(counters: &Counters<L>) -> impl Iterator<Item = (&'static str, u64)> {
    counters.iter().map(|(word, counter)| (word, counter.get()))
}

fn labelled(
    page: &mut Page,
    family: &Family,
    name: &'static str,
    rows: impl IntoIterator<Item = (&'static str, u64)>,
) {
    page.family(family);
    for (word, number) in rows {
        page.sample(&[(name, word)], number);
    }
}

/// Operations that have a route; the others are nobody's request.
fn routed() -> impl Iterator<Item = Operation> {
    let routed: BTreeSet<_> = ROUTES.iter().map(|it| it.operation.index()).collect();
    Operation::ALL.iter().copied().filter(move |it| routed.contains(&it.index()))
}

fn requests(page: &mut Page, metrics: &Metrics) {
    page.family(&table::REQUESTS);
    let rows =
        || routed().filter_map(|it| Some((it.as_str(), metrics.operations.get(it.index())?)));
    for (operation, answered) in rows() {
        let counts = answered.statuses.iter().map(Counter::get);
        for ((status, word), count) in STATUSES.iter().zip(counts) {
            if count > 0 || ALWAYS_SHOWN.contains(status) {
                page.sample(&[("operation", operation), ("status", word)], count);
            }
        }
    }
    page.family(&table::REQUEST_DURATION);
    for (operation, answered) in rows() {
        page.histogram(&[("operation", operation)], &answered.micros.read(), Unit::Micros);
    }
    page.single(&table::IN_FLIGHT, metrics.in_flight.get());
}

fn connections(page: &mut Page, node: &Node) {
    let counts = &node.connections;
    page.single(&table::CONNECTIONS, counts.open.load(Ordering::Relaxed));
    page.single(&table::CONNECTIONS_MAX, node.connection_slots());
    page.single(&table::ACCEPTED, counts.accepted.get());
    labelled(page, &table::CONNECTIONS_REFUSED, "reason", of(&counts.refused));
    labelled(page, &table::CONNECTIONS_EVICTED, "reason", of(&counts.evicted));
    labelled(page, &table::CONNECTIONS_CUT, "reason", of(&counts.cut));
}

fn memory(page: &mut Page, app: &App) {
    let metrics = &app.metrics;
    page.family(&table::BODY_MEMORY);
    page.sample(&[("pool", "keyed")], app.body_memory.free_bytes());
    page.sample(&[("pool", "keyless")], app.keyless_body_memory.free_bytes());
    labelled(page, &table::BODIES_REFUSED, "reason", of(&metrics.bodies_refused));
    page.single(&table::ANSWER_MEMORY, app.answer_memory.free_bytes());
    labelled(page, &table::ANSWERS_REFUSED, "reason", of(&metrics.answers_refused));
    page.single(&table::READINESS_CHECKS, metrics.readiness_checks.get());
}

/// Rows are those of a table of ours, so there are only so many of them.
fn limiter(page: &mut Page, limiter: &Limiter) {
    page.family(&table::LIMITER);
    for Decisions { row, allowed, refused } in limiter.decisions() {
        page.sample(&[("row", row.as_str()), ("decision", "allowed")], allowed);
        page.sample(&[("row", row.as_str()), ("decision", "refused")], refused);
    }
    let fullness = limiter.fullness();
    page.single(&table::LIMITER_COUNTERS, fullness.counters);
    page.single(&table::LIMITER_COUNTERS_MAX, fullness.counters_max);
    page.single(&table::SHARED_FAILED, limiter.shared_counters_failed().unwrap_or_default());
    page.family(&table::SHARED_UP);
    if let Some(answer) = limiter.shared_counters_answer() {
        page.sample(&[], u64::from(answer));
    }
}

fn directory(page: &mut Page, app: &App) {
    let directory = app.directory.load();
    let found = directory.as_ref().map(|it| (it.version(), it.tenants().len(), it.alterations()));
    let (version, tenants, alterations) = found.unwrap_or_default();
    page.single(&table::DIRECTORY_VERSION, version);
    page.single(&table::DIRECTORY_TENANTS, tenants);
    page.single(&table::ALTERATIONS, alterations.len());
    epoch_keys(page, &app.vault.epochs);
}

fn epoch_keys(page: &mut Page, epochs: &EpochKeys) {
    page.single(&table::EPOCH_KEYS, epochs.held());
    let exchange = epochs.exchange();
    page.single(&table::EPOCH_KEYS_FAILED, exchange.map(KeyExchange::failed).unwrap_or_default());
    page.family(&table::EPOCH_KEYS_UP);
    if let Some(exchange) = exchange {
        page.sample(&[], u64::from(exchange.answers()));
    }
}

fn sweepers(page: &mut Page, metrics: &Metrics) {
    labelled(page, &table::SWEPT, "kind", of(&metrics.swept));
    labelled(page, &table::SWEEP_FAILURES, "kind", of(&metrics.sweep_failures));
    page.family(&table::SWEEP_FINISHED);
    for (kind, at) in metrics.sweep_finished.iter() {
        page.sample(&[("kind", kind)], seconds(at.get()));
    }
}

fn caches(page: &mut Page) {
    let expressions = compiled::measures();
    labelled(page, &table::CACHE_HITS, "cache", [("expressions", expressions.hits)]);
    labelled(page, &table::CACHE_MISSES, "cache", [("expressions", expressions.misses)]);
    labelled(page, &table::CACHE_ENTRIES, "cache", [("expressions", expressions.entries)]);
}

/// By the tenants that a scheme is connected for, and by scheme; nothing where none is.
fn threeds(page: &mut Page, node: &Node) {
    let peers: Vec<_> = node.settings.schemes.iter().flat_map(|it| it.peers()).collect();
    let named = |it: &Arc<dyn Peer>| {
        [("world", directory_servers::world(it.kind())), ("scheme", it.scheme().slug())]
    };
    page.family(&table::THREEDS_ASKS);
    for peer in &peers {
        let [world, scheme] = named(peer);
        for (outcome, count) in of(&peer.counts().asks) {
            page.sample(&[world, scheme, ("outcome", outcome)], count);
        }
    }
    page.family(&table::THREEDS_DURATION);
    for peer in &peers {
        page.histogram(&named(peer), &peer.counts().micros.read(), Unit::Micros);
    }
    page.family(&table::CARD_RANGES);
    for peer in &peers {
        page.sample(&named(peer), peer.ranges().map_or(0, |it| it.len()));
    }
    page.family(&table::CARD_RANGES_FETCHED);
    for peer in &peers {
        page.sample(&named(peer), seconds(peer.counts().fetched.get()));
    }
    page.family(&table::CARD_RANGES_FAILURES);
    for peer in &peers {
        page.sample(&named(peer), peer.counts().failures.get());
    }
}

type OfLog = fn(&LogMeasures) -> u64;

fn store(page: &mut Page, measures: &StoreMeasures) {
    let numbers: [(&Family, OfLog); 7] = [
        (&table::STORE_QUEUE, |it| it.waiting),
        (&table::STORE_QUEUE_MAX, |it| it.waiting_max),
        (&table::STORE_REFUSED, |it| it.refused),
        (&table::STORE_COMMITS, |it| it.batch.count()),
        (&table::STORE_FAILED, |it| it.failed),
        (&table::WAL_BYTES, |it| it.wal_bytes),
        (&table::WAL_WAITING, |it| it.wal_pages_waiting),
    ];
    for (family, number) in numbers {
        labelled(page, family, "log", measures.logs.iter().map(|it| (it.log, number(it))));
    }
    page.family(&table::STORE_BATCH);
    for it in &measures.logs {
        page.histogram(&[("log", it.log)], &it.batch, Unit::Plain);
    }
    page.family(&table::STORE_DURATION);
    for it in &measures.logs {
        page.histogram(&[("log", it.log)], &it.commit_micros, Unit::Micros);
    }
    let readers = measures.readers;
    page.single(&table::READERS_BUSY, readers.busy);
    page.single(&table::READERS_IDLE, readers.idle);
    page.single(&table::READERS_OPENED, readers.opened);
}
