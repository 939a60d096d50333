//! The text format of Prometheus, version 0.0.4: families of samples, one line each.

use std::{fmt::Display, time::Duration};

use scrip_core::metrics::HistogramSnapshot;

use crate::metrics::table::MetricFamily;

/// A name of ours and a word of ours: neither needs an escape.
pub(super) type LabelPair = (&'static str, &'static str);

/// What the numbers of a histogram are.
#[derive(Debug, Clone, Copy)]
pub(super) enum HistogramUnit {
    Plain,
    /// Shown as seconds.
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

/// Text that grows by one family after the other.
#[derive(Debug, Default)]
pub(super) struct MetricsPage {
    text: String,
    name: &'static str,
}

impl MetricsPage {
    /// What follows belongs to it.
    pub(super) fn family(&mut self, family: &MetricFamily) -> &mut Self {
        self.name = family.name;
        let MetricFamily { name, kind, help: about } = family;
        self.line(format_args!("# HELP {name} {about}"));
        self.line(format_args!("# TYPE {name} {}", kind.as_str()));
        self
    }

    /// A family of one number.
    pub(super) fn single(&mut self, family: &MetricFamily, number: impl Display) {
        self.family(family).sample(&[], number);
    }

    pub(super) fn sample(&mut self, labels: &[LabelPair], number: impl Display) {
        self.write_sample("", labels, None, &number);
    }

    /// Buckets that count what is in those before them too, as the format wants it.
    pub(super) fn histogram(
        &mut self,
        labels: &[LabelPair],
        snapshot: &HistogramSnapshot,
        unit: HistogramUnit,
    ) {
        let mut below = 0_u64;
        for (bound, count) in snapshot.bounds.iter().zip(&snapshot.counts) {
            below = below.saturating_add(*count);
            self.write_sample("_bucket", labels, Some(&unit.format(*bound)), &below);
        }
        let count = snapshot.count();
        self.write_sample("_bucket", labels, Some("+Inf"), &count);
        self.write_sample("_sum", labels, None, &unit.format(snapshot.sum));
        self.write_sample("_count", labels, None, &count);
    }

    fn write_sample(
        &mut self,
        suffix: &str,
        labels: &[LabelPair],
        bound: Option<&str>,
        number: &dyn Display,
    ) {
        let pairs = labels.iter().copied().chain(bound.map(|it| ("le", it)));
        let pairs: Vec<_> = pairs.map(|(name, word)| format!("{name}=\"{word}\"")).collect();
        let name = self.name;
        if pairs.is_empty() {
            self.line(format_args!("{name}{suffix} {number}"));
        } else {
            self.line(format_args!("{name}{suffix}{{{}}} {number}", pairs.join(",")));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
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
        let found = HistogramSnapshot {
            bounds: &[100, 1_000],
            counts: vec![2, 3],
            overflow: 4,
            sum: 2_500_000,
        };
        page.family(&family).histogram(&[("log", "vault")], &found, HistogramUnit::Micros);
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
