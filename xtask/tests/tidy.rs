//! Rules about the project itself, run by `cargo test`.

#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use xtask::{parameters, sources};

/// The allowed dependencies of each crate within the workspace. Any other dependency is a design
/// change.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("scrip-types", &[]),
    ("scrip-expression", &[]),
    ("scrip-seal", &["scrip-types"]),
    ("scrip-egress", &[]),
    ("scrip-elements", &["scrip-seal", "scrip-types"]),
    ("scrip-unlock", &["scrip-egress", "scrip-seal"]),
    ("scrip-threeds", &["scrip-types"]),
    ("scrip-core", &["scrip-expression", "scrip-seal", "scrip-threeds", "scrip-types"]),
    ("scrip-store", &["scrip-core", "scrip-seal", "scrip-types"]),
    ("scrip-simulator", &["scrip-threeds"]),
    (
        "scrip-api",
        &[
            "scrip-core",
            "scrip-egress",
            "scrip-elements",
            "scrip-expression",
            "scrip-seal",
            "scrip-threeds",
            "scrip-types",
        ],
    ),
    (
        "scrip-server",
        &[
            "scrip-api",
            "scrip-core",
            "scrip-egress",
            "scrip-operator",
            "scrip-seal",
            "scrip-store",
            "scrip-threeds",
            "scrip-types",
            "scrip-unlock",
        ],
    ),
    ("scrip-operator", &["scrip-api", "scrip-core", "scrip-seal", "scrip-types"]),
    ("scrip-demo", &["scrip-api", "scrip-core", "scrip-seal", "scrip-types"]),
    (
        "scrip",
        &[
            "scrip-api",
            "scrip-core",
            "scrip-demo",
            "scrip-egress",
            "scrip-operator",
            "scrip-seal",
            "scrip-server",
            "scrip-simulator",
            "scrip-store",
            "scrip-threeds",
            "scrip-types",
            "scrip-unlock",
        ],
    ),
    (TEST_SUPPORT_CRATE, &["scrip-core", "scrip-seal", "scrip-store", "scrip-threeds"]),
];

/// External crates that only some crates may use: HTTP, sockets, the command line, SQL and
/// algorithms each have their owner.
const EXCLUSIVE_DEPENDENCIES: &[(&[&str], &[&str])] = &[
    (&["scrip-api", "scrip-server", "scrip-demo"], &["axum"]),
    (
        &["scrip-api", "scrip-egress", "scrip-server", "scrip-demo", "scrip-unlock"],
        &["hyper", "http-body-util"],
    ),
    (&["scrip-api"], &["form_urlencoded", "tower"]),
    (&["scrip-server"], &["redis", "toml"]),
    (&["scrip-egress", "scrip-server"], &["hyper-util", "tokio-rustls"]),
    (&["scrip-egress", "scrip-server", "scrip-unlock"], &["rustls"]),
    (&["scrip-api", "scrip-egress", "scrip-server"], &["ipnet"]),
    // The input of an action is also the arguments of its command.
    (&["scrip", "scrip-operator"], &["clap"]),
    (&["scrip"], &["clap_complete", "csv"]),
    (&["scrip-server", "scrip"], &["nix"]),
    (&["scrip-store"], &["rusqlite", "tokio-postgres", "deadpool-postgres"]),
    (&["scrip-seal"], &["aws-lc-rs"]),
    (&["scrip-unlock"], &["cryptoki"]),
];

/// The simulator plays another company. It shares no code with the vault.
const SIMULATOR_CRATE: &str = "scrip-simulator";

/// Shared test support. The program is built without it.
const TEST_SUPPORT_CRATE: &str = "scrip-testing";

/// The table that gives the purpose of each dependency.
const DEPENDENCY_RECORD: &str = "docs/decisions/0009-dependencies.md";
const LOCKED_PACKAGES_MAX: usize = 300;

const FILE_LINES_MAX: usize = 500;

#[test]
fn crates_depend_only_on_allowed_crates() {
    for (name, allowed) in ALLOWED_DEPENDENCIES {
        for dependency in crate_dependencies(name) {
            if dependency.starts_with("scrip-") {
                assert!(allowed.contains(&dependency.as_str()), "{name} must not use {dependency}");
            }
        }
    }
    let crate_names: Vec<_> =
        ALLOWED_DEPENDENCIES.iter().map(|(name, _)| (*name).to_owned()).collect();
    for entry in fs::read_dir(repository_root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(crate_names.contains(&name), "{name} is not in ALLOWED_DEPENDENCIES");
    }
}

#[test]
fn test_support_crate_is_only_a_dev_dependency() {
    for entry in fs::read_dir(repository_root().join("crates")).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        let mut section = String::new();
        for line in fs::read_to_string(&manifest).unwrap().lines() {
            if line.starts_with('[') {
                line.clone_into(&mut section);
            }
            let is_dependency = line.starts_with(TEST_SUPPORT_CRATE);
            let is_allowed = section == "[dev-dependencies]";
            assert!(!is_dependency || is_allowed, "{}: {section} {line}", manifest.display());
        }
    }
}

#[test]
fn external_crates_are_used_only_by_their_owners() {
    for (owners, owned_dependencies) in EXCLUSIVE_DEPENDENCIES {
        let product_crates = ALLOWED_DEPENDENCIES
            .iter()
            .filter(|(name, _)| ![SIMULATOR_CRATE, TEST_SUPPORT_CRATE].contains(name));
        for (name, _) in product_crates.filter(|(name, _)| !owners.contains(name)) {
            for dependency in crate_dependencies(name) {
                assert!(
                    !owned_dependencies.contains(&dependency.as_str()),
                    "{dependency} belongs to {owners:?}, not {name}"
                );
            }
        }
    }
}

#[test]
fn decision_record_gives_the_purpose_of_each_dependency_of_the_program() {
    let record = fs::read_to_string(repository_root().join(DEPENDENCY_RECORD)).unwrap();
    let rows = record.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let documented: Vec<&str> =
        rows.flat_map(|names| names.split(", ")).map(|it| it.split(' ').next().unwrap()).collect();
    let product_crates =
        ALLOWED_DEPENDENCIES.iter().filter(|(name, _)| *name != TEST_SUPPORT_CRATE);
    let mut used: Vec<_> = product_crates.flat_map(|(name, _)| crate_dependencies(name)).collect();
    used.retain(|it| !it.starts_with("scrip-"));
    for dependency in &used {
        assert!(documented.contains(&dependency.as_str()), "{dependency} has no row");
    }
    for name in documented.iter().filter(|it| !["crate", "---"].contains(it)) {
        assert!(used.iter().any(|it| it == name), "the row of {name} has no dependency");
    }
}

#[test]
fn lock_file_has_at_most_three_hundred_packages() {
    let lock_file = fs::read_to_string(repository_root().join("Cargo.lock")).unwrap();
    let count = lock_file.lines().filter(|it| *it == "[[package]]").count();
    assert!(count <= LOCKED_PACKAGES_MAX, "{count} packages");
}

#[test]
fn source_files_are_short_and_start_with_a_doc_comment() {
    for path in repository_files("rs") {
        let text = fs::read_to_string(&path).unwrap();
        let line_count = text.lines().count();
        assert!(line_count <= FILE_LINES_MAX, "{}: {line_count} lines", path.display());
        assert!(text.starts_with("//! "), "{}: say what this file is for", path.display());
    }
}

#[test]
fn functions_have_at_most_seven_parameters_and_none_is_a_tuple() {
    for folder in ["crates", "bench", "fuzz", "xtask/src"] {
        let violations = parameters::find_violations(&repository_root().join(folder)).unwrap();
        assert!(violations.is_empty(), "use a struct with named fields: {violations:#?}");
    }
}

#[test]
fn repository_contains_no_todo_markers() {
    // Split, so that this file does not match itself.
    let markers = [["FIX", "ME"].concat(), ["TO", "DO:"].concat(), ["XX", "X:"].concat()];
    for path in repository_files("rs")
        .chain(repository_files("md"))
        .chain(repository_files("toml"))
        .chain(repository_files("sql"))
    {
        let text = fs::read_to_string(&path).unwrap();
        for marker in &markers {
            assert!(!text.contains(marker.as_str()), "{}: {marker}", path.display());
        }
    }
}

/// Only control runs of tests may remove a disclosure rule.
#[test]
fn product_code_never_weakens_the_disclosure_rules() {
    let definition = Path::new("scrip-core/src/types/disclosure_rules.rs");
    for path in
        repository_files("rs").filter(|it| it.components().any(|it| it.as_os_str() == "src"))
    {
        let text = fs::read_to_string(&path).unwrap();
        let is_weakened = text.contains("weakened_for_control_run") && !path.ends_with(definition);
        assert!(!is_weakened, "{} weakens the disclosure rules", path.display());
    }
}

/// Plaintext that a caller may use and not read has two sinks: the outgoing message, and the data of a
/// new token. No other file opens it.
#[test]
fn usable_plaintext_is_opened_only_by_its_sinks() {
    let sinks: [(&str, &[&str]); 4] = [
        (
            "expose_for_message",
            &[
                "scrip-api/src/proxy/outgoing/message.rs",
                "scrip-api/src/proxy/outgoing/usable_plaintext.rs",
            ],
        ),
        (
            ".collect_data(",
            &[
                "scrip-api/src/proxy/outgoing/usable_plaintext.rs",
                "scrip-api/src/proxy/transform.rs",
            ],
        ),
        (
            "detokenized_for_control_run",
            &["scrip-api/src/proxy/outgoing/message.rs", "scrip-api/src/proxy/transform.rs"],
        ),
        ("UsablePlaintext(", &["scrip-api/src/proxy/outgoing/usable_plaintext.rs"]),
    ];
    for path in repository_files("rs").filter(|it| !it.ends_with("xtask/tests/tidy.rs")) {
        let text = fs::read_to_string(&path).unwrap();
        for (name, files) in sinks {
            let is_sink = files.iter().any(|it| path.ends_with(it));
            assert!(is_sink || !text.contains(name), "{} uses {name}", path.display());
        }
    }
}

/// A template is compiled once with its proxy, and not in a call: compiling takes processor time that
/// the administrator of a proxy chooses, and a call needs no API key.
#[test]
fn calls_compile_no_template() {
    const COMPILERS: [&str; 4] =
        ["MessageTemplate::parse", "compile_template(", "TransformTemplate::compile", ".compile()"];
    const OWNERS: [&str; 3] = ["template.rs", "template_rules.rs", "source.rs"];
    for folder in ["crates/scrip-api/src", "crates/scrip-core/src"] {
        let files = sources::files_with_extension(&repository_root().join(folder), "rs").unwrap();
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let is_owner = file.parent().unwrap().ends_with("policy/proxy/transform")
                && OWNERS.contains(&name.as_str());
            let is_call = file.to_string_lossy().contains("scrip-api/src/proxy/");
            let is_test =
                name == "tests.rs" || file.components().any(|it| it.as_os_str() == "tests");
            // Other modules of core compile masks and drafts by this name.
            let forbidden = COMPILERS.iter().filter(|it| is_call || **it != ".compile()");
            for compiler in forbidden.filter(|_| !is_owner && !is_test) {
                assert!(!code.contains(compiler), "{} uses {compiler}", file.display());
            }
        }
    }
}

/// Only tests of stores may compare digests that were not counted.
#[test]
fn product_code_never_compares_uncounted_values() {
    let definition = Path::new("scrip-core/src/equality/comparison.rs");
    let test_crate = Path::new("scrip-testing");
    for path in
        repository_files("rs").filter(|it| it.components().any(|it| it.as_os_str() == "src"))
    {
        let text = fs::read_to_string(&path).unwrap();
        let is_test = path.components().any(|it| it.as_os_str() == test_crate.as_os_str());
        let is_uncounted =
            text.contains("assumed_for_store_test") && !is_test && !path.ends_with(definition);
        assert!(!is_uncounted, "{} compares values that were not counted", path.display());
    }
}

/// Code inside of a write transaction would delay every writer. The exceptions are commands of the
/// operator.
#[test]
fn store_methods_take_no_code_of_a_change() {
    const EXCEPTIONS: &[&str] = &["DecidePolicyRestore", "RewrapKeys"];
    let folder = repository_root().join("crates/scrip-core/src");
    let mut files = sources::files_with_extension(&folder.join("store"), "rs").unwrap();
    let others = ["change.rs", "equality/guess_store.rs", "types/error.rs"];
    files.extend(others.map(|it| folder.join(it)));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = |line: &&str| {
            let takes_code = ["dyn Fn", "impl Fn", "Decide", "impl AsyncFn"];
            let is_exception = EXCEPTIONS.iter().any(|it| line.contains(it));
            takes_code.iter().any(|it| line.contains(it)) && !is_exception
        };
        let found: Vec<_> = text.lines().filter(code).collect();
        assert!(found.is_empty(), "{}: {found:?}", file.display());
    }
}

/// Only control runs of tests may connect without the guard.
#[test]
fn product_code_never_disables_the_egress_guard() {
    let definition = Path::new("scrip-egress/src/settings.rs");
    for path in
        repository_files("rs").filter(|it| it.components().any(|it| it.as_os_str() == "src"))
    {
        let text = fs::read_to_string(&path).unwrap();
        let is_disabled =
            text.contains("without_guard_for_control_run") && !path.ends_with(definition);
        assert!(!is_disabled, "{} disables the egress guard", path.display());
    }
}

#[test]
fn every_sql_statement_starts_with_its_method_name() {
    for path in repository_files("rs").filter(|it| it.to_string_lossy().contains("scrip-store/src"))
    {
        let text = fs::read_to_string(&path).unwrap();
        for (index, line) in text.lines().enumerate() {
            let keywords = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
            if !keywords.iter().any(|it| line.starts_with(it)) {
                continue;
            }
            // Back to the beginning of the text that contains the line.
            let before: Vec<_> = text.lines().take(index).collect();
            let is_edge = |it: &&&str| it.trim_start().starts_with(['-', '"']) || it.ends_with('"');
            let edge =
                before.iter().rev().find(is_edge).map(|it| it.trim_start_matches([' ', '"']));
            let has_name = edge.is_some_and(|it| it.starts_with("-- "));
            assert!(has_name, "{}:{}", path.display(), index + 1);
        }
    }
}

#[test]
fn markdown_links_point_to_existing_files() {
    for path in repository_files("md") {
        let text = fs::read_to_string(&path).unwrap();
        let targets = text.split("](").skip(1).filter_map(|it| it.split([')', '#']).next());
        for target in targets.filter(|it| !it.is_empty() && !it.contains("://")) {
            let target_file = path.parent().unwrap().join(target);
            assert!(target_file.exists(), "{}: {target} does not exist", path.display());
        }
    }
}

/// Decision records describe the code of their time, so only the guides are checked.
#[test]
fn source_files_named_in_the_guides_exist() {
    let sources: Vec<_> =
        repository_files("rs").map(|it| it.to_string_lossy().into_owned()).collect();
    let guides = ["ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "README.md"];
    let pages = ["docs/encryption.md", "docs/glossary.md", "docs/test-suites.md"];
    for guide in guides.into_iter().chain(pages) {
        let text = fs::read_to_string(repository_root().join(guide)).unwrap();
        for name in list_source_files(&text) {
            // `core/src/token.rs` is short for `crates/scrip-core/src/token.rs`.
            let endings = [format!("/{name}"), format!("/scrip-{name}")];
            let exists = sources.iter().any(|it| endings.iter().any(|end| it.ends_with(end)));
            assert!(exists, "{guide}: no source file is named {name}");
        }
    }
}

/// The Rust files that a text names in code style, in order.
fn list_source_files(text: &str) -> Vec<&str> {
    let code_spans = text.split('`').skip(1).step_by(2);
    code_spans.filter(|it| it.ends_with(".rs") && !it.contains(['*', '{', ' ', '<'])).collect()
}

#[test]
fn architecture_and_index_list_every_crate_and_decision() {
    let architecture = fs::read_to_string(repository_root().join("ARCHITECTURE.md")).unwrap();
    for (name, _) in ALLOWED_DEPENDENCIES {
        assert!(architecture.contains(name), "ARCHITECTURE.md does not mention {name}");
    }
    let index = fs::read_to_string(repository_root().join("docs/decisions/README.md")).unwrap();
    for path in repository_files("md").filter(|it| it.parent().unwrap().ends_with("docs/decisions"))
    {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "README.md" || index.contains(&name), "{name} is not in the index");
    }
}

/// The names under `[dependencies]`, without dev-dependencies.
fn crate_dependencies(name: &str) -> Vec<String> {
    let manifest = repository_root().join("crates").join(name).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let section = manifest.lines().skip_while(|it| *it != "[dependencies]").skip(1);
    let section = section.take_while(|it| !it.starts_with('['));
    let names = section.filter_map(|it| it.split(['.', ' ', '=']).next());
    names.filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// The files of the project, without build output and fetched packages.
fn repository_files(extension: &'static str) -> impl Iterator<Item = PathBuf> {
    let has_extension = move |it: &PathBuf| it.extension().is_some_and(|it| it == extension);
    sources::files_below(&repository_root()).unwrap().into_iter().filter(has_extension)
}

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
