//! Connections of all listeners: their limits, counts and activity.

pub(crate) mod activity;
pub mod counts;
pub(crate) mod limited_stream;
pub mod limits;
pub(crate) mod table;

use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;

/// Creates a builder of HTTP/1.1 connections. The head of a request must arrive within
/// `header_deadline` and fit into the buffer.
pub(crate) fn http1_builder(header_deadline: Duration, buffer_bytes_max: usize) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(header_deadline)
        .max_buf_size(buffer_bytes_max);
    builder
}
