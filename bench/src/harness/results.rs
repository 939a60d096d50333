//! The result of a measurement: a rate, two percentiles and the processor time.

use std::{
    io::{self, Write},
    time::Duration,
};

pub(crate) const TABLE_HEAD: &str = "\
| what                  | conn |  per sec. |  p50 us |  p99 us | server cpu | load cpu |
|-----------------------|-----:|----------:|--------:|--------:|-----------:|---------:|";

#[derive(Debug, Clone)]
pub(crate) struct MeasurementResult {
    pub(crate) name: &'static str,
    pub(crate) connections: usize,
    pub(crate) requests: u32,
    pub(crate) per_second: f64,
    pub(crate) p50_us: u32,
    pub(crate) p99_us: u32,
    /// Processor time of the server in microseconds per request, if a server was measured.
    pub(crate) server_cpu_us: Option<f64>,
    /// Processor time of the load generator, which shares the cores.
    pub(crate) load_cpu_us: Option<f64>,
    /// Processor time of the process that the server calls.
    pub(crate) upstream_cpu_us: Option<f64>,
}

impl MeasurementResult {
    /// `units` is the number of requests or rows per latency value.
    pub(crate) fn new(
        name: &'static str,
        connections: usize,
        mut latencies_us: Vec<u32>,
        units: u32,
        elapsed: Duration,
    ) -> Self {
        latencies_us.sort_unstable();
        let samples = u32::try_from(latencies_us.len()).unwrap_or(u32::MAX);
        let requests = samples.saturating_mul(units);
        Self {
            name,
            connections,
            requests,
            per_second: f64::from(requests) / elapsed.as_secs_f64(),
            p50_us: percentile(&latencies_us, 50),
            p99_us: percentile(&latencies_us, 99),
            server_cpu_us: None,
            load_cpu_us: None,
            upstream_cpu_us: None,
        }
    }

    pub(crate) fn cpu_us(&self, cpu_time: Duration) -> f64 {
        cpu_time.as_secs_f64() * 1e6 / f64::from(self.requests.max(1))
    }
}

/// The smallest latency that `percent` of the sorted values do not exceed.
fn percentile(sorted: &[u32], percent: usize) -> u32 {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Prints the result immediately, because a whole run takes minutes.
pub(crate) fn print_result(result: &MeasurementResult) -> io::Result<()> {
    writeln!(io::stderr(), "{}", result_row(result))
}

pub(crate) fn format_cpu(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"))
}

pub(crate) fn result_row(it: &MeasurementResult) -> String {
    format!(
        "| {:<21} | {:>4} | {:>9.0} | {:>7} | {:>7} | {:>10} | {:>8} |",
        it.name,
        it.connections,
        it.per_second,
        it.p50_us,
        it.p99_us,
        format_cpu(it.server_cpu_us),
        format_cpu(it.load_cpu_us),
    )
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), 50);
        assert_eq!(percentile(&hundred, 99), 99);
        assert_eq!(percentile(&[7], 99), 7);
        assert_eq!(percentile(&[], 50), 0);
    }
}
