//! Reads the text format of Prometheus strictly: whatever its documents do not allow is a failure.

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
        assert!(text.ends_with('\n'), "the last line ends like every other");
        let mut page = Self::default();
        let mut series = BTreeSet::new();
        let (mut helped, mut current) = (String::new(), String::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, about) = rest.split_once(' ').expect(line);
                assert!(is_name(name) && !about.is_empty(), "{line}");
                name.clone_into(&mut helped);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect(line);
                assert_eq!(name, helped, "a family has its help before its type");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let family = ParsedMetricFamily { kind: kind.to_owned(), samples: Vec::new() };
                let before = page.families.insert(name.to_owned(), family);
                assert!(before.is_none(), "{name} is there twice");
                name.clone_into(&mut current);
            } else {
                let sample = parse_sample(line);
                assert!(series.insert((sample.name.clone(), sample.labels.clone())), "{line}");
                let family = page.families.get_mut(&current).expect(line);
                assert!(belongs_to_family(&sample, &current, &family.kind), "{line}");
                family.samples.push(sample);
            }
        }
        for (name, family) in page.families.iter().filter(|(_, it)| it.kind == "histogram") {
            check_histogram(name, family);
        }
        page
    }

    /// The number of one series, with all of its labels in any order.
    #[track_caller]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let missing = format!("there is no {name} {labels:?}");
        self.find(name, labels).expect(&missing)
    }

    pub fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: BTreeMap<_, _> = labels
            .iter()
            .map(|(name, outcome_name)| ((*name).to_owned(), (*outcome_name).to_owned()))
            .collect();
        let is = |it: &&ParsedMetricSample| it.name == name && it.labels == labels;
        self.samples().find(is).map(|it| it.value)
    }

    pub fn samples(&self) -> impl Iterator<Item = &ParsedMetricSample> {
        self.families.values().flat_map(|it| &it.samples)
    }
}

fn is_name(text: &str) -> bool {
    let first = |it: char| it.is_ascii_alphabetic() || it == '_';
    text.starts_with(first) && text.chars().all(|it| first(it) || it.is_ascii_digit())
}

#[track_caller]
fn parse_sample(line: &str) -> ParsedMetricSample {
    let (series, value) = line.rsplit_once(' ').expect(line);
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').expect(line)),
        None => (series, ""),
    };
    assert!(is_name(name), "{line}");
    let mut found = BTreeMap::new();
    for pair in labels.split(',').filter(|it| !it.is_empty()) {
        let (name, outcome_name) = pair.split_once("=\"").expect(line);
        let outcome_name = outcome_name.strip_suffix('"').expect(line);
        assert!(is_name(name) && !outcome_name.contains(['"', '\\', '\n']), "{line}");
        assert!(found.insert(name.to_owned(), outcome_name.to_owned()).is_none(), "{line}");
    }
    let value = value.parse().expect(line);
    ParsedMetricSample { name: name.to_owned(), labels: found, value }
}

fn belongs_to_family(sample: &ParsedMetricSample, family: &str, kind: &str) -> bool {
    if kind != "histogram" {
        return sample.name == family && !sample.labels.contains_key("le");
    }
    let suffix = sample.name.strip_prefix(family).unwrap_or_default();
    let is_bucket = suffix == "_bucket";
    ["_bucket", "_sum", "_count"].contains(&suffix) && sample.labels.contains_key("le") == is_bucket
}

/// Bounds rise, counts never fall, the last bound is infinite and counts everything.
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
    assert_eq!(series.len(), counts.len(), "{name}");
    for (labels, buckets) in series {
        let rises = buckets.windows(2).all(|it| it[0].0 < it[1].0 && it[0].1 <= it[1].1);
        assert!(rises, "{name} {labels:?}");
        let last = buckets.last().unwrap();
        assert!(last.0.is_infinite() && counts.get(&labels) == Some(&last.1), "{name} {labels:?}");
    }
}
