//! The final report: result tables, then targets.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{
        results::{MeasurementResult, TABLE_HEAD, result_row},
        target::{Bound, PerformanceTarget},
    },
    measurements::{
        expressions::ExpressionCost,
        rounds::{BenchResults, HttpRound, MillionTokensResult},
        sweep::SweepResult,
    },
};

pub(crate) fn report_table(results: &BenchResults, cores: usize) -> String {
    let mut text =
        format!("\nFigures ({cores} cores; cpu in microseconds per request)\n\n{TABLE_HEAD}\n");
    for result in list_results(results) {
        text.push_str(&result_row(result));
        text.push('\n');
    }
    text.push_str(&report_ratios(results));
    text.push_str(
        "\nTargets\n\n| target                                  |   target |   measured |        |\n",
    );
    text.push_str("|-----------------------------------------|---------:|-----------:|--------|\n");
    for target in list_targets(results) {
        text.push_str(&format!("{target}\n"));
    }
    text
}

/// Each rate of the vault as a share of its references, and the drift of the references.
fn report_ratios(results: &BenchResults) -> String {
    let mut text = "\nRatios\n\n\
        | what                  | conn |  of bare |   of raw | bare after/before |\n\
        |-----------------------|-----:|---------:|---------:|------------------:|\n"
        .to_owned();
    for HttpRound { bare, raw, scrip } in results.creates.iter().chain(&results.reads) {
        let rate = |it: &MeasurementResult| it.per_second;
        let percent_of_bare = percent(scrip.per_second, mean_of_both(bare, rate));
        let percent_of_raw = raw.as_ref().map_or_else(
            || "-".to_owned(),
            |raw| format!("{:.1} %", percent(scrip.per_second, mean_of_both(raw, rate))),
        );
        let [before, after] = bare;
        text.push_str(&format!(
            "| {:<21} | {:>4} | {percent_of_bare:>6.1} % | {percent_of_raw:>8} | {:>17.2} |\n",
            scrip.name,
            scrip.connections,
            after.per_second / before.per_second,
        ));
    }
    text
}

/// Lists the results in the order of measurement.
fn list_results(results: &BenchResults) -> Vec<&MeasurementResult> {
    let mut list = Vec::new();
    let rounds =
        results.creates.iter().zip(&results.reads).flat_map(|(create, read)| [create, read]);
    for round in rounds {
        let [bare_before, bare_after] = &round.bare;
        list.push(bare_before);
        list.extend(round.raw.as_ref().map(|[before, _]| before));
        list.push(&round.scrip);
        list.extend(round.raw.as_ref().map(|[_, after]| after));
        list.push(bare_after);
    }
    list.push(&results.with_idempotency_key);
    list.extend(&results.indexed_creates);
    list.extend(&results.recorded_reads);
    if let Some(million) = &results.million_tokens {
        list.extend([&million.creates, &million.reads]);
        list.extend(&million.pages);
    }
    list
}

fn target(name: &str, bound: Bound, measured: f64, unit: &'static str) -> PerformanceTarget {
    PerformanceTarget { name: name.to_owned(), bound, measured, unit }
}

/// Targets for creates and reads over HTTP, compared with a bare server and with the raw engine.
fn http_targets(results: &BenchResults) -> Vec<PerformanceTarget> {
    let mut targets = Vec::new();
    if let (Some(create), Some(read)) = (results.creates.last(), results.reads.last()) {
        let percent_of_bare =
            percent(create.scrip.per_second, mean_of_both(&create.bare, |it| it.per_second));
        targets.push(target(
            "creates@64 of bare POST@64",
            Bound::AtLeast(8.0),
            percent_of_bare,
            "%",
        ));
        if let Some(raw) = &create.raw {
            let of_raw = percent(create.scrip.per_second, mean_of_both(raw, |it| it.per_second));
            targets.push(target(
                "creates@64 of raw grouped rows",
                Bound::AtLeast(50.0),
                of_raw,
                "%",
            ));
        }
        targets.push(tail_latency_target("create p99@64 of 64/throughput", &create.scrip));
        let percent_of_bare =
            percent(read.scrip.per_second, mean_of_both(&read.bare, |it| it.per_second));
        targets.push(target("reads@64 of bare GET@64", Bound::AtLeast(35.0), percent_of_bare, "%"));
    }
    if let Some(HttpRound { raw: Some(raw), scrip, .. }) = results.creates.first() {
        let of_raw = f64::from(scrip.p50_us) / mean_of_both(raw, |it| f64::from(it.p50_us));
        targets.push(target(
            "create p50@1 of raw single commit p50",
            Bound::AtMost(2.0),
            of_raw,
            "x",
        ));
    }
    targets
}

fn list_targets(results: &BenchResults) -> Vec<PerformanceTarget> {
    let mut targets = http_targets(results);
    let [before, recorded, after] = &results.recorded_reads;
    let unrecorded = f64::midpoint(before.per_second, after.per_second);
    let percent_of_unrecorded = percent(recorded.per_second, unrecorded);
    targets.push(target(
        "reads@64 recorded of unrecorded",
        Bound::AtLeast(50.0),
        percent_of_unrecorded,
        "%",
    ));
    let [plain, indexed, plain_after] = &results.indexed_creates;
    let cost = f64::midpoint(plain.per_second, plain_after.per_second) / indexed.per_second;
    targets.push(target("create with four indexes of without", Bound::AtMost(2.0), cost, "x"));
    if let Some(MillionTokensResult { pages: [before, subject, after], .. }) =
        &results.million_tokens
    {
        let small_p50 = f64::midpoint(f64::from(before.p50_us), f64::from(after.p50_us));
        let ratio_to_small = f64::from(subject.p50_us) / small_p50;
        targets.push(target(
            "page at 1,000,000 of one at 10,000",
            Bound::AtMost(2.0),
            ratio_to_small,
            "x",
        ));
    }
    if let Some(best) = results.cold_starts.first() {
        let name = "first answer, best of 5";
        targets.push(target(name, Bound::AtMost(50.0), millis(*best), "ms"));
    }
    if let Some(median) = results.cold_starts.get(results.cold_starts.len() / 2) {
        let name = "first answer, median of 5";
        targets.push(target(name, Bound::AtMost(50.0), millis(*median), "ms"));
    }
    let name = format!("anonymous memory, {} tokens", results.tokens);
    targets.push(target(&name, Bound::AtMost(60.0), results.anonymous_mb, "MB"));
    if let Some(million) = &results.million_tokens {
        let name = "anonymous memory, 1,000,000 tokens";
        targets.push(target(name, Bound::AtMost(60.0), million.anonymous_mb, "MB"));
    }
    targets
}

/// The cost of expressions, compared with the processor time that the server spends on a read.
pub(crate) fn report_expressions(cost: &ExpressionCost, results: &BenchResults) -> String {
    let read_us = results.reads.last().and_then(|it| it.scrip.server_cpu_us);
    let mut text = "\nExpressions\n\n| what                                    |   measured |\n\
        |-----------------------------------------|-----------:|\n"
        .to_owned();
    let rows = [
        ("compile {{ data.number | reveal_last: 4 }}", cost.compile),
        ("  from the cache", cost.compile_cached),
        ("  evaluate", cost.evaluate),
        ("compile a mask of six leaves", cost.mask_compile),
        ("  evaluate", cost.mask_evaluate),
    ];
    for (name, nanos) in rows {
        text.push_str(&format!("| {name:<39} | {nanos:>7.0} ns |\n"));
    }
    if let Some(read_us) = read_us {
        let share = percent(cost.mask_evaluate / 1e3, read_us);
        text.push_str(&format!(
            "| that mask, of a read's {read_us:.1} us of server | {share:>8.1} % |\n"
        ));
    }
    let target = |name: &str, bound: f64, nanos: f64| PerformanceTarget {
        name: name.to_owned(),
        bound: Bound::AtMost(bound),
        measured: nanos / 1e3,
        unit: "us",
    };
    text.push_str(&format!("\n{}\n", target("evaluate reveal_last", 1.0, cost.evaluate)));
    text.push_str(&format!(
        "{}\n",
        target("evaluate a mask of six leaves", 5.0, cost.mask_evaluate)
    ));
    text
}

/// The cost of metrics as a share of the server cost of a read.
pub(crate) fn report_metrics(nanos: f64, results: &BenchResults) -> String {
    let Some(read_us) = results.reads.last().and_then(|it| it.scrip.server_cpu_us) else {
        return format!("\nmetrics: {nanos:.0} ns a request");
    };
    let measured = percent(nanos / 1e3, read_us);
    let name = format!("metrics, {nanos:.0} ns of a read's {read_us:.1} us");
    format!("\n{}", PerformanceTarget { name, bound: Bound::AtMost(1.0), measured, unit: "%" })
}

pub(crate) fn report_sweep(sweep: &SweepResult) -> String {
    let mut text = format!("\nSweeping\n\n{TABLE_HEAD}\n");
    let [before, after] = &sweep.without_sweep;
    for result in [&sweep.peak, before, &sweep.during_sweep, after] {
        text.push_str(&format!("{}\n", result_row(result)));
    }
    let (removed, seconds) = (sweep.removed, sweep.duration.as_secs_f64());
    text.push_str(&format!("\n{removed} tokens were swept in those {seconds:.1} s\n\n"));
    let without_sweep = mean_of_both(&sweep.without_sweep, |it| f64::from(it.p99_us));
    let measured = f64::from(sweep.during_sweep.p99_us) / without_sweep;
    let name = "create p99 while sweeping, of without".to_owned();
    text.push_str(&format!(
        "{}\n",
        PerformanceTarget { name, bound: Bound::AtMost(2.0), measured, unit: "x" }
    ));
    text
}

/// If all connections wait, connections ÷ throughput is the mean wait.
fn tail_latency_target(name: &str, result: &MeasurementResult) -> PerformanceTarget {
    let connections = u32::try_from(result.connections).unwrap_or(u32::MAX);
    let mean_us = f64::from(connections) / result.per_second * 1e6;
    let measured = f64::from(result.p99_us) / mean_us;
    PerformanceTarget { name: name.to_owned(), bound: Bound::AtMost(3.0), measured, unit: "x" }
}

fn mean_of_both(both: &[MeasurementResult; 2], value: impl Fn(&MeasurementResult) -> f64) -> f64 {
    let [before, after] = both;
    f64::midpoint(value(before), value(after))
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn report_json(results: &BenchResults, cores: usize) -> Value {
    let result_values = list_results(results).into_iter().map(|it| {
        json!({
            "name": it.name,
            "connections": it.connections,
            "requests": it.requests,
            "per_second": it.per_second,
            "p50_us": it.p50_us,
            "p99_us": it.p99_us,
            "server_cpu_us": it.server_cpu_us,
            "load_cpu_us": it.load_cpu_us,
        })
    });
    let target_values = list_targets(results).into_iter().map(|it| {
        let (bound, value) = match it.bound {
            Bound::AtLeast(value) => ("at_least", value),
            Bound::AtMost(value) => ("at_most", value),
        };
        let met = it.is_met();
        json!({ "name": it.name, bound: value, "measured": it.measured, "unit": it.unit, "met": met })
    });
    json!({
        "cores": cores,
        "results": result_values.collect::<Vec<_>>(),
        "cold_starts_ms": results.cold_starts.iter().copied().map(millis).collect::<Vec<_>>(),
        "targets": target_values.collect::<Vec<_>>(),
    })
}
