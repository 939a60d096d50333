//! Counters, gauges and histograms, independent of the metrics format.
//!
//! All accesses use relaxed ordering: each number is correct alone, and no decision depends on two
//! of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The target of spans for tracing. Without a trace collector, these spans are not created.
pub const SPAN_TARGET: &str = "scrip::span";

/// A number that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// Microseconds of work that may take long and therefore ran outside of the async workers. Static,
/// because the engines and the server count it together.
pub static LONG_WORK_MICROS: Counter = Counter::new();

impl Counter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that increases and decreases.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets the level if it is higher than the current one.
    pub(crate) fn raise_to(&self, level: u64) {
        self.0.fetch_max(level, Ordering::Relaxed);
    }

    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn set(&self, level: u64) {
        self.0.store(level, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of values by bucket. Recording a value takes two atomic additions and no lock.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    /// The upper bounds of the buckets, ascending. A value equal to a bound belongs to its bucket.
    bounds: &'static [u64; N],
    buckets: [Counter; N],
    overflow: Counter,
    sum: Counter,
}

impl<const N: usize> Histogram<N> {
    pub fn new(bounds: &'static [u64; N]) -> Self {
        let buckets = std::array::from_fn(|_| Counter::default());
        Self { bounds, buckets, overflow: Counter::default(), sum: Counter::default() }
    }

    pub fn record(&self, number: u64) {
        let index = self.bounds.partition_point(|bound| *bound < number);
        self.buckets.get(index).unwrap_or(&self.overflow).increment();
        self.sum.add(number);
    }

    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts = self.buckets.iter().map(Counter::get).collect();
        let (overflow, sum) = (self.overflow.get(), self.sum.get());
        HistogramSnapshot { bounds: self.bounds, counts, overflow, sum }
    }
}

/// The counts of a histogram at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    pub bounds: &'static [u64],
    /// For each bound: the number of values up to the bound and above the bound before.
    pub counts: Vec<u64>,
    pub overflow: u64,
    pub sum: u64,
}

impl HistogramSnapshot {
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>().saturating_add(self.overflow)
    }
}

/// From 100 µs to 10 s, about three bounds for each power of ten: the duration of a request or a
/// commit.
pub const MICROS_BOUNDS: &[u64; 16] = &[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// The metrics of an engine since it was opened.
#[derive(Debug, Clone, Default)]
pub struct StoreMetrics {
    /// One for each writer; empty for a store without writers.
    pub writers: Vec<WriterMetrics>,
    pub readers: ReaderPoolMetrics,
}

impl StoreMetrics {
    /// Writes in the queues of this process.
    pub fn queued(&self) -> u64 {
        self.writers.iter().map(|it| it.queued).sum()
    }
}

/// One writer and its log.
#[derive(Debug, Clone, Default)]
pub struct WriterMetrics {
    pub log: &'static str,
    /// Writes in the queue, and the capacity of the queue.
    pub queued: u64,
    pub queue_capacity: u64,
    /// Writes that were rejected because the queue was full.
    pub rejected: u64,
    /// The number of writes in each commit.
    pub batch_sizes: HistogramSnapshot,
    /// From the first statement of a transaction to its commit, in microseconds.
    pub commit_micros: HistogramSnapshot,
    /// Transactions with an unknown outcome.
    pub unknown_outcomes: u64,
    /// The size of the write-ahead log file. The file does not shrink.
    pub wal_bytes: u64,
    /// WAL pages that are not checkpointed yet, at the last check.
    pub wal_pages_pending: u64,
}

/// Read connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReaderPoolMetrics {
    pub busy: u64,
    pub idle: u64,
    pub opened: u64,
}

/// Hits and misses of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheMetrics {
    pub hits: u64,
    pub misses: u64,
    pub entries: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_counts_value_in_first_bucket_with_bound_at_or_above_it() {
        let histogram = Histogram::new(&[1, 10, 100]);
        for number in [0, 1, 2, 10, 11, 100, 101, 1_000] {
            histogram.record(number);
        }
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.counts.as_slice(), snapshot.overflow), ([2, 2, 2].as_slice(), 2));
        assert_eq!((snapshot.count(), snapshot.sum), (8, 1_225));
    }

    #[test]
    fn latency_bucket_bounds_are_sorted() {
        assert!(MICROS_BOUNDS.is_sorted());
    }

    #[test]
    fn histogram_loses_no_updates_between_threads() {
        let histogram = Histogram::new(&[3]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|it| histogram.record(it % 8)));
            }
        });
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.counts.as_slice(), snapshot.overflow), ([2_000].as_slice(), 2_000));
        assert_eq!(snapshot.sum, 4 * 125 * 28);
    }
}
