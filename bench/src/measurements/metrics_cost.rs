//! The cost of metrics for a request: all updates of a read, without the read.

use std::hint::black_box;

use scrip_api::metrics::Metrics;
use scrip_core::{Timestamp, types::Operation};
use scrip_server::clock::ticks;

use crate::measurements::expressions::nanos_per_call;

/// Nanoseconds per response: the in-flight gauge up and down, two clock readings, one histogram
/// record.
pub(crate) fn measure_metrics() -> f64 {
    let metrics = Metrics::new(Timestamp { unix_ms: 0 });
    nanos_per_call(|| {
        metrics.in_flight.increment();
        let started = ticks();
        let duration = black_box(ticks()).saturating_sub(started);
        metrics.record_response(black_box(Operation::GetToken), black_box(200), duration);
        metrics.in_flight.decrement();
        true
    })
}
