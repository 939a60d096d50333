//! The report of webhooks: results and targets.

use crate::{
    harness::results::{MeasurementResult, result_row},
    measurements::webhooks::{
        results::{TurnComparison, WebhooksResults},
        setup::{Engine, RATE, SUBSCRIBED_EVENT},
        vault::CreateTurn,
    },
};

const COST_MAX: f64 = 1.3;
const HANGING_MAX: f64 = 2.0;

const TABLE_HEAD: &str = "\
| what                  | conn |  per sec. |  p50 us |  p99 us | server cpu | load cpu |
|-----------------------|-----:|----------:|--------:|--------:|-----------:|---------:|";

/// A value of a turn.
type TurnValue = fn(&CreateTurn) -> f64;

const P50: TurnValue = |it| f64::from(it.creates.p50_us);
const P99: TurnValue = |it| f64::from(it.creates.p99_us);
const CPU: TurnValue = |it| it.creates.server_cpu_us.unwrap_or(0.0);

pub(crate) fn report_webhooks(results: &WebhooksResults) -> String {
    let engine = match results.engine {
        Engine::Sqlite => "SQLite",
        Engine::Postgres => "PostgreSQL",
    };
    let mut text = format!(
        "\nWebhooks on {engine}, {RATE} creates per second (cpu in microseconds per create)\n\n\
         {TABLE_HEAD}\n"
    );
    for comparison in [&results.other_event, &results.delivered, &results.written] {
        for turn in list_turns(&comparison.without, &comparison.with) {
            text.push_str(&format!("{}\n", result_row(&turn.creates)));
        }
    }
    text.push_str(&format!("{}\n", result_row(&results.burst.creates)));
    text.push_str(&report_costs(results));
    text.push_str(&report_deliveries(results));
    text.push_str(&report_burst(results));
    text.push_str(&report_hanging_receiver(results));
    text
}

/// The turns in the order of measurement: one without the webhook, one with it, and so on.
fn list_turns<'a, T>(without: &'a [T], with: &'a [T]) -> Vec<&'a T> {
    let mut turns = Vec::with_capacity(without.len().saturating_add(with.len()));
    for (index, turn) in without.iter().enumerate() {
        turns.push(turn);
        turns.extend(with.get(index));
    }
    turns
}

fn report_costs(results: &WebhooksResults) -> String {
    let mut text = "\nMedians\n\n\
        | creates                              | without |    with |  ratio | at most |        |\n\
        |--------------------------------------|--------:|--------:|-------:|--------:|--------|\n"
        .to_owned();
    // The processor time of deliveries is not part of the target, but their effect on p99 is.
    let comparisons = [
        (&results.other_event, "webhook of another event", None, None),
        (&results.written, "event written, not delivered", Some(COST_MAX), Some(COST_MAX)),
        (&results.delivered, "event written and delivered", Some(COST_MAX), None),
    ];
    for (comparison, name, p99_max, cpu_max) in comparisons {
        text.push_str(&row(&format!("{name}, p50 us"), comparison, P50, None));
        text.push_str(&row("  p99 us", comparison, P99, p99_max));
        text.push_str(&comparison.report_spread(P99));
        text.push_str(&row("  server cpu us", comparison, CPU, cpu_max));
    }
    text
}

impl TurnComparison {
    fn median_without(&self, value: TurnValue) -> f64 {
        median(self.without.iter().map(value))
    }

    fn median_with(&self, value: TurnValue) -> f64 {
        median(self.with.iter().map(value))
    }

    /// The smallest and the largest value. A ratio within the spread of the turns without the webhook
    /// shows nothing.
    fn report_spread(&self, value: TurnValue) -> String {
        let spread = |turns: &[CreateTurn]| {
            let values = || turns.iter().map(value);
            let (min, max) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
            format!("{min:.0} to {max:.0}")
        };
        let (without, with) = (spread(&self.without), spread(&self.with));
        format!("|     without {without}, with {with} | | | | | |\n")
    }

    fn added(&self, value: TurnValue) -> f64 {
        self.median_with(value) - self.median_without(value)
    }
}

fn row(name: &str, comparison: &TurnComparison, value: TurnValue, max: Option<f64>) -> String {
    let (without, with) = (comparison.median_without(value), comparison.median_with(value));
    let ratio = with / without.max(1e-9);
    let max_text = max.map_or_else(String::new, |it| format!("{it:.1}"));
    let verdict = max.map_or("", |it| verdict(ratio <= it));
    format!(
        "| {name:<36} | {without:>7.0} | {with:>7.0} | {ratio:>6.2} | {max_text:>7} | {verdict:<6} |\n"
    )
}

fn report_deliveries(results: &WebhooksResults) -> String {
    let turns = &results.delivered.with;
    let backlog_max = turns.iter().map(|it| it.backlog_max).max().unwrap_or(0);
    let rate = median(turns.iter().map(|it| it.deliveries_per_second));
    // The part of the cost that the deliveries cause, without that of writing the events.
    let cpu_us = results.delivered.added(CPU) - results.written.added(CPU);
    format!(
        "\nwith one webhook of {SUBSCRIBED_EVENT} at {RATE} creates per second: {rate:.0} deliveries per \
         second, backlog at most {backlog_max} events, {cpu_us:.0} us of server CPU per delivery\n"
    )
}

fn report_burst(results: &WebhooksResults) -> String {
    let burst = &results.burst;
    let seconds = burst.drain.as_secs_f64();
    let rate = f64::from(burst.drained) / seconds.max(1e-9);
    let [memory_before, memory_after] = burst.memory_mb;
    format!(
        "burst of {} creates: backlog of {} events at its end, empty after {seconds:.1} s, {rate:.0} \
         deliveries per second, {:.0} us of server CPU per delivery, {} repetitions, {memory_before:.1} MB \
         of anonymous memory at its end, {memory_after:.1} MB afterwards\n",
        burst.created, burst.backlog, burst.cpu_us, burst.repetitions,
    )
}

fn report_hanging_receiver(results: &WebhooksResults) -> String {
    let hanging = &results.hanging;
    let mut text = format!(
        "\nFrom an event to its arrival (requests without an answer of the other receiver, by turn: \
         {:?})\n\n{TABLE_HEAD}\n",
        hanging.unanswered
    );
    for result in list_turns(&hanging.without, &hanging.with) {
        text.push_str(&format!("{}\n", result_row(result)));
    }
    let p99 = |it: &MeasurementResult| f64::from(it.p99_us);
    let (without, with) =
        (median(hanging.without.iter().map(p99)), median(hanging.with.iter().map(p99)));
    let ratio = with / without.max(1e-9);
    text.push_str(&format!(
        "\np99 while another receiver hangs, at most {HANGING_MAX} times of without: {ratio:.2}, {}\n",
        verdict(ratio <= HANGING_MAX)
    ));
    text
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<_> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    let lower = sorted.len().saturating_sub(1) / 2;
    let value = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    f64::midpoint(value(lower), value(upper))
}

#[cfg(test)]
mod tests {
    use super::{list_turns, median};

    #[test]
    fn median_of_an_even_number_of_values_is_the_mean_of_the_middle_two() {
        assert!((median([4.0, 1.0, 2.0, 9.0].into_iter()) - 3.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 9.0].into_iter()) - 4.0).abs() < 1e-9);
        assert!(median(std::iter::empty()).abs() < 1e-9);
    }

    #[test]
    fn turns_are_listed_in_the_order_of_measurement() {
        assert_eq!(list_turns(&[1, 3, 5], &[2, 4]), [&1, &2, &3, &4, &5]);
    }
}
