//! Rules about the project itself, run by `cargo test` like any other.

#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use xtask::{figures, parameters, sources};

/// What each crate may depend on within the workspace. An arrow that is not here is a design
/// change.
const LAYERS: &[(&str, &[&str])] = &[
    ("scrip-expression", &[]),
    ("scrip-seal", &[]),
    ("scrip-threeds", &[]),
    ("scrip-core", &["scrip-expression", "scrip-seal", "scrip-threeds"]),
    ("scrip-store", &["scrip-core", "scrip-seal"]),
    ("scrip-simulator", &["scrip-threeds"]),
    ("scrip-api", &["scrip-core", "scrip-seal", "scrip-threeds"]),
    ("scrip-server", &["scrip-api", "scrip-core", "scrip-seal", "scrip-store", "scrip-threeds"]),
    ("scrip-demo", &["scrip-api", "scrip-core", "scrip-seal"]),
    (
        "scrip",
        &[
            "scrip-api",
            "scrip-core",
            "scrip-demo",
            "scrip-seal",
            "scrip-server",
            "scrip-simulator",
            "scrip-store",
            "scrip-threeds",
        ],
    ),
    (TESTS_ONLY, &["scrip-core", "scrip-seal", "scrip-store", "scrip-threeds"]),
];

/// What only these crates may build on: HTTP, sockets, the command line, SQL and algorithms each
/// have their room.
const ROOMS: &[(&[&str], &[&str])] = &[
    (&["scrip-api", "scrip-server", "scrip-demo"], &["axum", "hyper", "http-body-util"]),
    (&["scrip-api"], &["form_urlencoded", "tower"]),
    (&["scrip-server"], &["hyper-util", "redis", "rustls", "tokio-rustls", "toml"]),
    (&["scrip-api", "scrip-server"], &["ipnet"]),
    (&["scrip"], &["clap", "clap_complete", "csv", "indicatif"]),
    (&["scrip-server", "scrip"], &["nix"]),
    (&["scrip-store"], &["rusqlite", "tokio-postgres", "deadpool-postgres"]),
    (&["scrip-seal"], &["aws-lc-rs"]),
];

/// Plays another company, which has its own of everything and shares nothing of the vault's.
const ANOTHER_COMPANY: &str = "scrip-simulator";

/// Holds what tests share; the program is built without it.
const TESTS_ONLY: &str = "scrip-testing";

const FILE_LINES_MAX: usize = 500;
const FILE_LINES_MEDIAN_MAX: usize = 140;
const FOLDER_FILES_MAX: usize = 15;
/// Two files that are one thought may import each other; three have no first to read.
const CYCLE_FILES_MAX: usize = 2;

#[test]
fn crates_point_inward() {
    for (name, allowed) in LAYERS {
        for dependency in dependencies(name) {
            if dependency.starts_with("scrip-") {
                assert!(allowed.contains(&dependency.as_str()), "{name} must not use {dependency}");
            }
        }
    }
    let known: Vec<_> = LAYERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name), "{name} has no layer");
    }
}

#[test]
fn only_tests_depend_on_what_tests_share() {
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        let mut section = String::new();
        for line in fs::read_to_string(&manifest).unwrap().lines() {
            if line.starts_with('[') {
                line.clone_into(&mut section);
            }
            let depends = line.starts_with(TESTS_ONLY);
            let allowed = section == "[dev-dependencies]";
            assert!(!depends || allowed, "{}: {section} {line}", manifest.display());
        }
    }
}

#[test]
fn each_matter_has_one_room() {
    for (owners, owned) in ROOMS {
        let ours = LAYERS.iter().filter(|(name, _)| ![ANOTHER_COMPANY, TESTS_ONLY].contains(name));
        for (name, _) in ours.filter(|(name, _)| !owners.contains(name)) {
            for dependency in dependencies(name) {
                assert!(
                    !owned.contains(&dependency.as_str()),
                    "{dependency} belongs to {owners:?}, not {name}"
                );
            }
        }
    }
}

#[test]
fn files_are_short_and_introduced() {
    let mut lengths = Vec::new();
    for path in files("rs") {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        lengths.push(lines);
        assert!(lines <= FILE_LINES_MAX, "{}: {lines} lines", path.display());
        assert!(text.starts_with("//! "), "{}: say what this file is for", path.display());
    }
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap();
    assert!(median <= FILE_LINES_MEDIAN_MAX, "the median file has {median} lines");
}

#[test]
fn imports_between_files_form_no_cycle_of_more_than_two() {
    for folder in sources::crate_folders(&root()).unwrap() {
        for cycle in figures::import_cycles(&folder).unwrap() {
            assert!(cycle.len() <= CYCLE_FILES_MAX, "these files import each other: {cycle:#?}");
        }
    }
}

#[test]
fn folders_hold_at_most_fifteen_source_files() {
    for (folder, count) in figures::files_per_folder(&root()).unwrap() {
        assert!(count <= FOLDER_FILES_MAX, "{}: {count} source files", folder.display());
    }
}

#[test]
fn functions_have_at_most_seven_parameters_and_none_is_a_tuple() {
    for folder in ["crates", "bench", "fuzz", "xtask/src"] {
        let found = parameters::violations(&root().join(folder)).unwrap();
        assert!(found.is_empty(), "use a struct with named fields: {found:#?}");
    }
}

#[test]
fn nothing_is_left_behind() {
    // In two pieces, so that this file does not find itself.
    let marks = [["FIX", "ME"].concat(), ["TO", "DO:"].concat(), ["XX", "X:"].concat()];
    for path in files("rs").chain(files("md")).chain(files("toml")).chain(files("sql")) {
        let text = fs::read_to_string(&path).unwrap();
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{}: {mark}", path.display());
        }
    }
}

/// Only control runs of tests may take a rule of disclosure out.
#[test]
fn product_code_never_weakens_the_disclosure_rules() {
    let definition = Path::new("scrip-core/src/token/disclosure/rules.rs");
    for path in files("rs").filter(|it| it.components().any(|it| it.as_os_str() == "src")) {
        let text = fs::read_to_string(&path).unwrap();
        let weakens = text.contains("weakened_for_control_run") && !path.ends_with(definition);
        assert!(!weakens, "{} weakens the disclosure rules", path.display());
    }
}

#[test]
fn every_statement_is_named_by_its_method() {
    for path in files("rs").filter(|it| it.to_string_lossy().contains("scrip-store/src")) {
        let text = fs::read_to_string(&path).unwrap();
        for (at, line) in text.lines().enumerate() {
            let statement = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
            let begins = statement.iter().any(|it| line.starts_with(it));
            let before = at.checked_sub(1).and_then(|it| text.lines().nth(it)).unwrap_or_default();
            assert!(!begins || before.starts_with("-- "), "{}:{}", path.display(), at + 1);
        }
    }
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    for path in files("md") {
        let text = fs::read_to_string(&path).unwrap();
        let targets = text.split("](").skip(1).filter_map(|it| it.split([')', '#']).next());
        for target in targets.filter(|it| !it.is_empty() && !it.contains("://")) {
            let aim = path.parent().unwrap().join(target);
            assert!(aim.exists(), "{}: {target} is not there", path.display());
        }
    }
}

/// Decision records speak of the code as it was, so only the guides are checked.
#[test]
fn source_files_named_in_the_guides_exist() {
    let sources: Vec<_> = files("rs").map(|it| it.to_string_lossy().into_owned()).collect();
    for guide in ["ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "README.md"] {
        let text = fs::read_to_string(root().join(guide)).unwrap();
        for name in names_of_source_files(&text) {
            // `core/src/token.rs` is short for `crates/scrip-core/src/token.rs`.
            let endings = [format!("/{name}"), format!("/scrip-{name}")];
            let exists = sources.iter().any(|it| endings.iter().any(|end| it.ends_with(end)));
            assert!(exists, "{guide}: no source file is named {name}");
        }
    }
}

#[test]
fn walk_of_a_create_visits_fewer_than_thirty_files_and_none_twice() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, walk) = text.split_once("### The files of this walk").unwrap();
    let (walk, _) = walk.split_once("\n## ").unwrap();
    let mut visited = names_of_source_files(walk);
    let visits = visited.len();
    assert!((15..30).contains(&visits), "the walk visits {visits} files");
    visited.sort_unstable();
    visited.dedup();
    assert_eq!(visited.len(), visits, "the walk returns to a file");
}

/// The Rust files that a text names in code style, in their order.
fn names_of_source_files(text: &str) -> Vec<&str> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|it| it.ends_with(".rs") && !it.contains(['*', '{', ' ', '<'])).collect()
}

#[test]
fn every_crate_and_decision_is_on_the_map() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (name, _) in LAYERS {
        assert!(map.contains(name), "ARCHITECTURE.md does not know {name}");
    }
    let index = fs::read_to_string(root().join("docs/decisions/README.md")).unwrap();
    for path in files("md").filter(|it| it.parent().unwrap().ends_with("docs/decisions")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "README.md" || index.contains(&name), "{name} is not in the index");
    }
}

/// The names under `[dependencies]`; what only tests use is not the crate's.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = root().join("crates").join(name).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let section = manifest.lines().skip_while(|it| *it != "[dependencies]").skip(1);
    let section = section.take_while(|it| !it.starts_with('['));
    let names = section.filter_map(|it| it.split(['.', ' ', '=']).next());
    names.filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// Ours, wherever they are: what is built or fetched lies in folders that are passed over.
fn files(extension: &'static str) -> impl Iterator<Item = PathBuf> {
    let has = move |it: &PathBuf| it.extension().is_some_and(|it| it == extension);
    sources::files_below(&root()).unwrap().into_iter().filter(has)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
