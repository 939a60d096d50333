//! The rules about names and words, and a broken tree for each of them.

#![expect(clippy::unwrap_used, reason = "helper functions of tests may panic")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
};

use xtask::{names, prose};

/// Dialect words for each thousand lines of Rust files and documents.
const DENSITY_MAX: f64 = 0.5;

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A source tree with one crate, removed when dropped.
struct SourceTree(PathBuf);

impl SourceTree {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = env::temp_dir().join(format!("xtask-{name}-{}", process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(root)
    }
}

impl Drop for SourceTree {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn list_names(definitions: &[names::Definition]) -> Vec<&str> {
    definitions.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn type_names_are_unique_within_each_crate() {
    let repeated = names::repeated_types(&repository_root()).unwrap();
    assert!(repeated.is_empty(), "give each type a specific name: {repeated:#?}");
}

#[test]
fn test_names_do_not_begin_with_a_refused_word() {
    assert!(names::test_names(&repository_root()).unwrap().len() > 1000, "the tests are found");
    let refused = names::refused_test_names(&repository_root()).unwrap();
    assert!(refused.is_empty(), "say what is tested and what must happen: {refused:#?}");
}

#[test]
fn module_and_type_names_are_not_a_single_refused_word() {
    let refused = names::refused_names(&repository_root()).unwrap();
    assert!(refused.is_empty(), "name the thing with a noun phrase: {refused:#?}");
}

#[test]
fn comments_and_documents_use_few_dialect_words() {
    let density = prose::dialect_density(&repository_root()).unwrap();
    assert!(density.lines > 100_000, "the files are found: {density:?}");
    assert!(density.per_thousand_lines() <= DENSITY_MAX, "{density:?}; name the actor instead");
}

#[test]
fn repeated_type_is_found_in_sources_and_in_a_test_suite_but_not_across_them() {
    let tree = SourceTree::new(
        "repeated",
        &[
            ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
            ("crates/a/src/lib.rs", "mod b;\npub(crate) struct Draft;\nstruct Once;\n"),
            ("crates/a/src/b.rs", "enum Draft {}\n"),
            ("crates/a/tests/it/main.rs", "struct Once;\n    struct Fake;\n"),
            ("crates/a/tests/it/fake.rs", "trait Fake {\n    type Once;\n}\n"),
        ],
    );
    let repeated = names::repeated_types(&tree.0).unwrap();
    let repeated: Vec<_> = repeated.iter().map(|it| list_names(it)).collect();
    assert_eq!(repeated, [["Draft", "Draft"], ["Fake", "Fake"]]);
}

#[test]
fn refused_test_module_and_type_names_are_found() {
    let tree = SourceTree::new(
        "refused",
        &[
            ("src/lib.rs", "#[test]\nfn it_works() {}\n#[test]\nfn oneness_is_good() {}\n"),
            ("src/held.rs", "pub struct Sent;\npub struct SentRequest;\n"),
        ],
    );
    let tests = names::refused_test_names(&tree.0).unwrap();
    assert_eq!(list_names(&tests), ["it_works"]);
    let mut refused = names::refused_names(&tree.0).unwrap();
    refused.sort();
    assert_eq!(list_names(&refused), ["Sent", "held"]);
}

#[test]
fn dialect_words_are_counted_as_whole_words_in_any_case() {
    let text = "Whoever stands beside it. told_once is a name; untold is not counted.";
    assert_eq!(prose::count_dialect_words(text), 2);
}
