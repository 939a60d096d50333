//! What counting costs a request: all that a read adds to, without the read.

use std::hint::black_box;

use scrip_api::metrics::Metrics;
use scrip_core::{audit::Operation, time::Timestamp};
use scrip_server::process::clock::ticks;

use crate::measurements::expressions::each;

/// Nanoseconds for one answer: in flight and out again, two looks at the clock, one note.
pub(crate) fn measure() -> f64 {
    let metrics = Metrics::new(Timestamp { unix_ms: 0 });
    each(|| {
        metrics.in_flight.rise();
        let begun = ticks();
        let took = black_box(ticks()).saturating_sub(begun);
        metrics.answered(black_box(Operation::GetToken), black_box(200), took);
        metrics.in_flight.fall();
        true
    })
}
