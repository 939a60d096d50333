//! The Prometheus text format, version 0.0.4: families of samples, one line per sample.

use std::{fmt::Display, time::Duration};

use scrip_core::types::metrics::HistogramSnapshot;

use crate::metrics::table::MetricFamily;

/// Label name and value; both are constants that need no escaping.
pub(super) type LabelPair<'a> = (&'static str, &'a str);

/// Unit of the values of a histogram.
#[derive(Debug, Clone, Copy)]
pub(super) enum HistogramUnit {
    Plain,
    /// Printed as seconds.
    Micros,
}

impl HistogramUnit {
    fn format(self, number: u64) -> String {
        match self {
            Self::Plain => number.to_string(),
            Self::Micros => Duration::from_micros(number).as_secs_f64().to_string(),
        }
    }
}

/// The page text; families are appended one after the other.
#[derive(Debug, Default)]
pub(super) struct MetricsPage {
    text: String,
    name: &'static str,
}

impl MetricsPage {
    /// Writes the header of a family; its samples follow.
    pub(super) fn start_family(&mut self, family: &MetricFamily) -> &mut Self {
        self.name = family.name;
        let MetricFamily { name, kind, help } = family;
        self.push_line(format_args!("# HELP {name} {help}"));
        self.push_line(format_args!("# TYPE {name} {}", kind.as_str()));
        self
    }

    /// Writes a family with one sample.
    pub(super) fn write_single(&mut self, family: &MetricFamily, number: impl Display) {
        self.start_family(family).write_sample(&[], number);
    }

    pub(super) fn write_sample(&mut self, labels: &[LabelPair<'_>], number: impl Display) {
        self.write_sample_line("", labels, None, &number);
    }

    /// Writes cumulative buckets, as the format requires.
    pub(super) fn write_histogram(
        &mut self,
        labels: &[LabelPair<'_>],
        snapshot: &HistogramSnapshot,
        unit: HistogramUnit,
    ) {
        let mut cumulative_count = 0_u64;
        for (bound, count) in snapshot.bounds.iter().zip(&snapshot.counts) {
            cumulative_count = cumulative_count.saturating_add(*count);
            self.write_sample_line(
                "_bucket",
                labels,
                Some(&unit.format(*bound)),
                &cumulative_count,
            );
        }
        let count = snapshot.count();
        self.write_sample_line("_bucket", labels, Some("+Inf"), &count);
        self.write_sample_line("_sum", labels, None, &unit.format(snapshot.sum));
        self.write_sample_line("_count", labels, None, &count);
    }

    fn write_sample_line(
        &mut self,
        suffix: &str,
        labels: &[LabelPair<'_>],
        bound: Option<&str>,
        number: &dyn Display,
    ) {
        let pairs = labels.iter().copied().chain(bound.map(|it| ("le", it)));
        let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let name = self.name;
        if pairs.is_empty() {
            self.push_line(format_args!("{name}{suffix} {number}"));
        } else {
            self.push_line(format_args!("{name}{suffix}{{{}}} {number}", pairs.join(",")));
        }
    }

    fn push_line(&mut self, line: std::fmt::Arguments<'_>) {
        self.text += &line.to_string();
        self.text.push('\n');
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::table::MetricKind;

    #[test]
    fn histogram_buckets_are_cumulative() {
        let family =
            MetricFamily { name: "scrip_x_seconds", kind: MetricKind::Histogram, help: "Some." };
        let mut page = MetricsPage::default();
        let snapshot = HistogramSnapshot {
            bounds: &[100, 1_000],
            counts: vec![2, 3],
            overflow: 4,
            sum: 2_500_000,
        };
        page.start_family(&family).write_histogram(
            &[("log", "vault")],
            &snapshot,
            HistogramUnit::Micros,
        );
        let expected = "# HELP scrip_x_seconds Some.\n\
            # TYPE scrip_x_seconds histogram\n\
            scrip_x_seconds_bucket{log=\"vault\",le=\"0.0001\"} 2\n\
            scrip_x_seconds_bucket{log=\"vault\",le=\"0.001\"} 5\n\
            scrip_x_seconds_bucket{log=\"vault\",le=\"+Inf\"} 9\n\
            scrip_x_seconds_sum{log=\"vault\"} 2.5\n\
            scrip_x_seconds_count{log=\"vault\"} 9\n";
        assert_eq!(page.into_text(), expected);
    }
}
