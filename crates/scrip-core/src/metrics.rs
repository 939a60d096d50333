//! Counting: plain numbers that whoever works adds to, and whoever asks reads. They know nothing of
//! how they are shown.
//!
//! Relaxed everywhere: each number is right by itself, and no decision hangs on two of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a span is marked with that is meant for a trace. Where nobody collects traces, such spans do
/// not come to be.
pub const SPAN_TARGET: &str = "scrip::span";

/// Only goes up.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn set(&self, level: u64) {
        self.0.store(level, Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often a number fell between which bounds: two additions to note one, and no lock.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    /// Rising. A number that is equal to a bound belongs to it.
    bounds: &'static [u64; N],
    buckets: [Counter; N],
    overflow: Counter,
    sum: Counter,
}

impl<const N: usize> Histogram<N> {
    #[must_use]
    pub fn new(bounds: &'static [u64; N]) -> Self {
        let buckets = std::array::from_fn(|_| Counter::default());
        Self { bounds, buckets, overflow: Counter::default(), sum: Counter::default() }
    }

    pub fn record(&self, number: u64) {
        let at = self.bounds.partition_point(|bound| *bound < number);
        self.buckets.get(at).unwrap_or(&self.overflow).increment();
        self.sum.add(number);
    }

    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts = self.buckets.iter().map(Counter::get).collect();
        let (beyond, sum) = (self.overflow.get(), self.sum.get());
        HistogramSnapshot { bounds: self.bounds, counts, overflow: beyond, sum }
    }
}

/// What a histogram had when it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    pub bounds: &'static [u64],
    /// Of each bound: what is above the one before.
    pub counts: Vec<u64>,
    pub overflow: u64,
    pub sum: u64,
}

impl HistogramSnapshot {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>().saturating_add(self.overflow)
    }
}

/// From 100 us to 10 s, some three to a power of ten: what a request or a commit may take.
pub const MICROS_BOUNDS: &[u64; 16] = &[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// What an engine has counted since it was opened.
#[derive(Debug, Clone, Default)]
pub struct StoreMetrics {
    /// One for each writer; a store without one has none.
    pub writers: Vec<WriterMetrics>,
    pub readers: ReaderPoolMetrics,
}

impl StoreMetrics {
    /// Writes that this process has taken and not begun.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.writers.iter().map(|it| it.queued).sum()
    }
}

/// One writer, and the log that it appends to.
#[derive(Debug, Clone, Default)]
pub struct WriterMetrics {
    pub log: &'static str,
    /// Writes that were taken and not begun, and how many may be.
    pub queued: u64,
    pub queue_capacity: u64,
    /// Writes that found no place to wait.
    pub rejected: u64,
    /// Writes of each commit.
    pub batch_sizes: HistogramSnapshot,
    /// From the first statement of a transaction to its last, in microseconds.
    pub commit_micros: HistogramSnapshot,
    /// Transactions of which nobody knows what became.
    pub unknown_outcomes: u64,
    /// The write-ahead log as a file, which keeps the size it once had.
    pub wal_bytes: u64,
    /// Its pages that are not in the database file yet, when last looked.
    pub wal_pages_pending: u64,
}

/// Connections that read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReaderPoolMetrics {
    pub busy: u64,
    pub idle: u64,
    pub opened: u64,
}

/// How often something was found where it was kept.
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
        let read = histogram.snapshot();
        assert_eq!((read.counts.as_slice(), read.overflow), ([2, 2, 2].as_slice(), 2));
        assert_eq!((read.count(), read.sum), (8, 1_225));
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
        let read = histogram.snapshot();
        assert_eq!((read.counts.as_slice(), read.overflow), ([2_000].as_slice(), 2_000));
        assert_eq!(read.sum, 4 * 125 * 28);
    }
}
