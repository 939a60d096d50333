//! Every operation has its samples, and they name nobody's host.

use std::collections::{BTreeMap, BTreeSet};

use crate::openapi::{
    samples::LANGUAGES,
    tests::{DocumentOperation, operations},
};

fn id(operation: &DocumentOperation) -> &'static str {
    operation.value["operationId"].as_str().unwrap()
}

/// The operation, the label of the language and the source of each sample.
fn samples() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let of_operation = |operation: DocumentOperation| {
        let samples = operation.value["x-codeSamples"].as_array().into_iter().flatten();
        samples.map(move |sample| {
            let text = |name: &str| sample[name].as_str().unwrap();
            (id(&operation), text("label"), text("source"))
        })
    };
    operations().into_iter().flat_map(of_operation)
}

#[test]
fn every_operation_has_one_sample_in_each_language() {
    for operation in operations() {
        let samples = operation.value["x-codeSamples"].as_array();
        let found: Vec<_> = samples
            .into_iter()
            .flatten()
            .map(|it| (it["lang"].as_str().unwrap(), it["label"].as_str().unwrap()))
            .collect();
        let expected: Vec<_> = LANGUAGES.iter().map(|it| (it.lang, it.label)).collect();
        assert_eq!(found, expected, "{}", id(&operation));
    }
}

#[test]
fn every_section_of_a_sample_file_belongs_to_an_operation() {
    let known: BTreeSet<_> = operations().iter().map(id).collect();
    for language in &LANGUAGES {
        let mut sections = BTreeMap::new();
        for (operation, source) in language.sections() {
            assert!(known.contains(operation), "{}: {operation} is unknown", language.label);
            let before = sections.insert(operation, source);
            assert_eq!(before, None, "{}: {operation} has two sections", language.label);
        }
    }
}

/// `shop.example` is the merchant of 3-D Secure; names below `example` are nobody's.
#[test]
fn samples_name_no_host_but_the_placeholder() {
    for (operation, label, source) in samples() {
        assert!(source.contains("SCRIP_URL"), "{operation} in {label}");
        for behind in source.split("://").skip(1) {
            let host = behind.split(['"', '/', '\'', '`']).next().unwrap();
            assert_eq!(host, "shop.example", "{operation} in {label}");
        }
    }
}

#[test]
fn samples_send_a_key_where_the_operation_needs_one() {
    let needs_key: BTreeSet<_> = operations()
        .iter()
        .filter(|it| it.value["security"].as_array().is_some_and(|it| !it.is_empty()))
        .map(id)
        .collect();
    for (operation, label, source) in samples() {
        let sends_key = source.contains("SCRIP_KEY");
        assert_eq!(sends_key, needs_key.contains(operation), "{operation} in {label}");
    }
}

#[test]
fn samples_are_short_and_without_the_marks_of_their_file() {
    for (operation, label, source) in samples() {
        let lines = source.lines().count();
        assert!((1..=50).contains(&lines), "{operation} in {label}: {lines} lines");
        assert!(source.ends_with('\n') && !source.ends_with("\n\n"), "{operation} in {label}");
        assert!(!source.contains("operation: "), "{operation} in {label}");
    }
}
