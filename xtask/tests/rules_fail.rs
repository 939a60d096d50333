//! Negative controls: each rule about the source code rejects a tree that violates it.

use std::path::{Path, PathBuf};

use xtask::parameters;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn tuple_parameters_and_eight_parameters_are_found() {
    let functions = parameters::list_functions(&fixture("parameters/functions.rs")).unwrap();
    let with_tuples: Vec<_> =
        functions.iter().filter(|it| it.tuple_count > 0).map(|it| &it.function).collect();
    assert_eq!(with_tuples, ["tuple", "reference_to_a_tuple"]);
    let largest = functions.iter().max_by_key(|it| it.parameter_count).unwrap();
    assert_eq!((largest.function.as_str(), largest.parameter_count), ("eight", 8));
}
