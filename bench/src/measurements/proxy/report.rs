//! The report of the proxy: results and targets.

use std::io::{self, Write};

use crate::{
    harness::results::{MeasurementResult, format_cpu},
    measurements::proxy::results::{ProxyResults, ProxyRound},
};

const SHARE_MIN: f64 = 40.0;
const ADDED_US_MAX: f64 = 1000.0;
/// The first wave creates pools, buffers and threads; later ones reuse them.
const GROWTH_MAX: f64 = 1.1;

const TABLE_HEAD: &str = "\
| what                  | conn |  per sec. |  p50 us |  p99 us | server cpu | upstream cpu | load cpu |
|-----------------------|-----:|----------:|--------:|--------:|-----------:|-------------:|---------:|";

fn row(it: &MeasurementResult) -> String {
    format!(
        "| {:<21} | {:>4} | {:>9.0} | {:>7} | {:>7} | {:>10} | {:>12} | {:>8} |",
        it.name,
        it.connections,
        it.per_second,
        it.p50_us,
        it.p99_us,
        format_cpu(it.server_cpu_us),
        format_cpu(it.upstream_cpu_us),
        format_cpu(it.load_cpu_us),
    )
}

/// Prints the result immediately, because a whole run takes a minute.
pub(super) fn print_progress(result: &MeasurementResult) -> io::Result<()> {
    writeln!(io::stderr(), "{}", row(result))
}

pub(crate) fn report_proxy(results: &ProxyResults) -> String {
    let mut text = format!("\nProxied calls (cpu in microseconds per call)\n\n{TABLE_HEAD}\n");
    for round in &results.rounds {
        let [before, after] = &round.nginx;
        for result in [before, &round.with_token, &round.without_expression, after] {
            text.push_str(&row(result));
            text.push('\n');
        }
    }
    text.push_str(&format!("{}\n\n", row(&results.commit)));
    text.push_str(&report_slow_destinations(results));
    if let Some(round) = results.rounds.last() {
        text.push_str(&report_share(round));
    }
    if let Some(round) = results.rounds.first() {
        text.push_str(&report_latency(round, &results.commit));
    }
    text
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

fn nginx_mean(round: &ProxyRound, value: impl Fn(&MeasurementResult) -> f64) -> f64 {
    let [before, after] = &round.nginx;
    f64::midpoint(value(before), value(after))
}

fn report_share(round: &ProxyRound) -> String {
    let rate = nginx_mean(round, |it| it.per_second);
    let [before, after] = &round.nginx;
    let drift = after.per_second / before.per_second.max(1e-9);
    let mut text = format!("nginx after/before: {drift:.2}\n");
    for result in [&round.with_token, &round.without_expression] {
        let (connections, share) = (result.connections, 100.0 * result.per_second / rate);
        text.push_str(&format!(
            "{}, {connections} connections, at least {SHARE_MIN} % of nginx: {share:.1} %, {}\n",
            result.name,
            verdict(share >= SHARE_MIN)
        ));
    }
    text
}

fn report_latency(round: &ProxyRound, commit: &MeasurementResult) -> String {
    let nginx = nginx_mean(round, |it| f64::from(it.p50_us));
    let limit = nginx + ADDED_US_MAX + f64::from(commit.p50_us);
    let mut text = String::new();
    for result in [&round.with_token, &round.without_expression] {
        let p50 = f64::from(result.p50_us);
        text.push_str(&format!(
            "{}, p50 at 1 connection, at most nginx + 1 ms + one commit ({limit:.0} us): {p50:.0} \
             us, {}\n",
            result.name,
            verdict(p50 <= limit)
        ));
    }
    text
}

fn report_slow_destinations(results: &ProxyResults) -> String {
    let slow = &results.slow;
    let list =
        |values: &[f64]| values.iter().map(|it| format!("{it:.1}")).collect::<Vec<_>>().join(", ");
    let ratio = |values: &[f64]| {
        let (first, last) = (values.first(), values.last());
        last.copied().unwrap_or(0.0) / first.copied().unwrap_or(0.0).max(1e-9)
    };
    let peaks: Vec<_> = slow.waves.iter().filter_map(|it| it.last().copied()).collect();
    let held = slow.waves.last().map(Vec::as_slice).unwrap_or_default();
    let (growth, drift) = (ratio(&peaks), ratio(held));
    format!(
        "anonymous memory in MB: {:.1} before, with {} slow destinations {} (end of each wave), \
         {:.1} afterwards\n\
         while the last wave waits: {}\n\
         last wave of the first, at most {GROWTH_MAX}: {growth:.2}, {}\n\
         end of a wave of its begin, at most {GROWTH_MAX}: {drift:.2}, {}\n",
        slow.before,
        slow.destinations,
        list(&peaks),
        slow.after,
        list(held),
        verdict(growth <= GROWTH_MAX),
        verdict(drift <= GROWTH_MAX),
    )
}
