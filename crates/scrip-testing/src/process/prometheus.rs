//! A strict parser for the Prometheus text format: everything that the specification does not allow
//! is a failure.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct ParsedMetricsPage {
    pub families: BTreeMap<String, ParsedMetricFamily>,
}

#[derive(Debug, Default)]
pub struct ParsedMetricFamily {
    pub kind: String,
    pub samples: Vec<ParsedMetricSample>,
}

#[derive(Debug, Clone)]
pub struct ParsedMetricSample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl ParsedMetricsPage {
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no newline");
        let mut page = Self::default();
        let mut series = BTreeSet::new();
        let (mut family_with_help, mut current_family) = (String::new(), String::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect(line);
                assert!(is_name(name) && !help.is_empty(), "{line}");
                name.clone_into(&mut family_with_help);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect(line);
                assert_eq!(name, family_with_help, "the help of a family must precede its type");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let family = ParsedMetricFamily { kind: kind.to_owned(), samples: Vec::new() };
                let previous = page.families.insert(name.to_owned(), family);
                assert!(previous.is_none(), "{name} is defined twice");
                name.clone_into(&mut current_family);
            } else {
                let sample = parse_sample(line);
                assert!(series.insert((sample.name.clone(), sample.labels.clone())), "{line}");
                let family = page.families.get_mut(&current_family).expect(line);
                assert!(belongs_to_family(&sample, &current_family, &family.kind), "{line}");
                family.samples.push(sample);
            }
        }
        for (name, family) in page.families.iter().filter(|(_, it)| it.kind == "histogram") {
            check_histogram(name, family);
        }
        page
    }

    /// The value of one series, with all its labels in any order.
    #[track_caller]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let missing = format!("missing series {name} {labels:?}");
        self.find(name, labels).expect(&missing)
    }

    pub fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: BTreeMap<_, _> = labels
            .iter()
            .map(|(name, label_value)| ((*name).to_owned(), (*label_value).to_owned()))
            .collect();
        let is_requested = |it: &&ParsedMetricSample| it.name == name && it.labels == labels;
        self.samples().find(is_requested).map(|it| it.value)
    }

    pub fn samples(&self) -> impl Iterator<Item = &ParsedMetricSample> {
        self.families.values().flat_map(|it| &it.samples)
    }
}

fn is_name(text: &str) -> bool {
    let can_be_first = |it: char| it.is_ascii_alphabetic() || it == '_';
    text.starts_with(can_be_first) && text.chars().all(|it| can_be_first(it) || it.is_ascii_digit())
}

#[track_caller]
fn parse_sample(line: &str) -> ParsedMetricSample {
    let (series, value) = line.rsplit_once(' ').expect(line);
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').expect(line)),
        None => (series, ""),
    };
    assert!(is_name(name), "{line}");
    let mut parsed_labels = BTreeMap::new();
    for pair in labels.split(',').filter(|it| !it.is_empty()) {
        let (name, label_value) = pair.split_once("=\"").expect(line);
        let label_value = label_value.strip_suffix('"').expect(line);
        assert!(is_name(name) && !label_value.contains(['"', '\\', '\n']), "{line}");
        assert!(parsed_labels.insert(name.to_owned(), label_value.to_owned()).is_none(), "{line}");
    }
    let value = value.parse().expect(line);
    ParsedMetricSample { name: name.to_owned(), labels: parsed_labels, value }
}

fn belongs_to_family(sample: &ParsedMetricSample, family: &str, kind: &str) -> bool {
    if kind != "histogram" {
        return sample.name == family && !sample.labels.contains_key("le");
    }
    let suffix = sample.name.strip_prefix(family).unwrap_or_default();
    let is_bucket = suffix == "_bucket";
    ["_bucket", "_sum", "_count"].contains(&suffix) && sample.labels.contains_key("le") == is_bucket
}

/// Checks that the bounds increase, that the counts never decrease, and that the last bound is
/// infinite and counts all values.
#[track_caller]
fn check_histogram(name: &str, family: &ParsedMetricFamily) {
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        match labels.remove("le") {
            Some(bound) => {
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                series.entry(labels).or_default().push((bound, sample.value));
            }
            None if sample.name.ends_with("_count") => drop(counts.insert(labels, sample.value)),
            None => (),
        }
    }
    assert_eq!(series.len(), counts.len(), "{name}: every series needs a count");
    for (labels, buckets) in series {
        let is_increasing = buckets.windows(2).all(|it| it[0].0 < it[1].0 && it[0].1 <= it[1].1);
        assert!(is_increasing, "{name} {labels:?}: buckets do not increase");
        let last = buckets.last().unwrap();
        assert!(
            last.0.is_infinite() && counts.get(&labels) == Some(&last.1),
            "{name} {labels:?}: the last bucket does not count all values"
        );
    }
}
