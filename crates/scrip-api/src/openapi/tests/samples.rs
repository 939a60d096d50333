//! Every operation has samples, and they name no real host.

use std::collections::{BTreeMap, BTreeSet};

use crate::openapi::{
    LANGUAGES,
    tests::{DocumentOperation, operations},
};

fn id(operation: &DocumentOperation) -> &'static str {
    operation.value["operationId"].as_str().unwrap()
}

/// The operation, the label of the language and the source of each sample.
fn samples() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let operation_samples = |operation: DocumentOperation| {
        let samples = operation.value["x-codeSamples"].as_array().into_iter().flatten();
        samples.map(move |sample| {
            let text = |name: &str| sample[name].as_str().unwrap();
            (id(&operation), text("label"), text("source"))
        })
    };
    operations().into_iter().flat_map(operation_samples)
}

#[test]
fn every_operation_has_one_sample_in_each_language() {
    for operation in operations() {
        let samples = operation.value["x-codeSamples"].as_array();
        let languages: Vec<_> = samples
            .into_iter()
            .flatten()
            .map(|it| (it["lang"].as_str().unwrap(), it["label"].as_str().unwrap()))
            .collect();
        let expected: Vec<_> = LANGUAGES.iter().map(|it| (it.lang, it.label)).collect();
        assert_eq!(languages, expected, "{}", id(&operation));
    }
}

#[test]
fn every_section_of_a_sample_file_belongs_to_an_operation() {
    let operation_ids: BTreeSet<_> = operations().iter().map(id).collect();
    for language in &LANGUAGES {
        let mut sections = BTreeMap::new();
        for (operation, source) in language.sections() {
            assert!(
                operation_ids.contains(operation),
                "{}: {operation} is unknown",
                language.label
            );
            let earlier_section = sections.insert(operation, source);
            assert_eq!(earlier_section, None, "{}: {operation} has two sections", language.label);
        }
    }
}

/// `shop.example` is the merchant in 3DS samples, `psp.example` the destination of proxies; names
/// under `example` are reserved.
#[test]
fn samples_name_no_host_but_the_placeholder() {
    for (operation, label, source) in samples() {
        assert!(source.contains("SCRIP_URL"), "{operation} in {label}");
        for url_end in source.split("://").skip(1) {
            let host = url_end.split(['"', '/', '\'', '`']).next().unwrap();
            assert!(["shop.example", "psp.example"].contains(&host), "{operation} in {label}");
        }
    }
}

/// The variable of the key that the samples of an operation send. `scrip dev` prints these names.
fn key_variable(needs: &serde_json::Value) -> &'static str {
    let types = needs["application_types"].as_array();
    let kind = types.and_then(|it| it.last()).unwrap_or(&needs["key"]);
    match kind.as_str() {
        Some("management") => "SCRIP_MANAGEMENT_KEY",
        Some("public") => "SCRIP_PUBLIC_KEY",
        _ => "SCRIP_KEY",
    }
}

const KEY_VARIABLES: [&str; 3] = ["SCRIP_KEY", "SCRIP_PUBLIC_KEY", "SCRIP_MANAGEMENT_KEY"];

#[test]
fn samples_send_a_key_where_the_operation_needs_one() {
    let needs_key: BTreeMap<_, _> = operations()
        .iter()
        .filter(|it| it.value["security"].as_array().is_some_and(|it| !it.is_empty()))
        .map(|it| (id(it), key_variable(&it.value["x-scrip-needs"])))
        .collect();
    for (operation, label, source) in samples() {
        let sent: Vec<_> = KEY_VARIABLES.into_iter().filter(|it| source.contains(it)).collect();
        let expected: Vec<_> = needs_key.get(operation).copied().into_iter().collect();
        assert_eq!(sent, expected, "{operation} in {label}");
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
