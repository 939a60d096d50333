//! Rules about the guides: one set of variables, and an index that lists every page.

#![expect(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use xtask::sources::files_with_extension;

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The guides, with their paths below the repository.
fn guides() -> Vec<(String, String)> {
    let root = repository_root();
    let pages = files_with_extension(&root.join("docs"), "md").unwrap();
    let pages = pages.into_iter().chain([root.join("README.md")]);
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    };
    pages.map(read).collect()
}

/// Other names for the address and the keys of a vault. `scrip dev` prints `SCRIP_URL`, `SCRIP_KEY`,
/// `SCRIP_PUBLIC_KEY` and `SCRIP_MANAGEMENT_KEY`.
const OTHER_NAMES: [&str; 9] = [
    "VAULT",
    "KEY",
    "ADMIN",
    "MANAGEMENT",
    "PRIVATE",
    "PUBLIC",
    "MANAGEMENT_KEY",
    "PRIVATE_KEY",
    "PUBLIC_KEY",
];

#[test]
fn guides_use_the_variables_that_scrip_dev_prints() {
    let is_name = |it: char| it.is_ascii_uppercase() || it == '_';
    for (name, text) in guides() {
        for prefix in ["$", "${", "export ", "process.env.", "os.environ[\""] {
            for (position, _) in text.match_indices(prefix) {
                let rest = text.get(position.saturating_add(prefix.len())..).unwrap();
                let variable = rest.split(|it| !is_name(it)).next().unwrap();
                assert!(!OTHER_NAMES.contains(&variable), "{name}: {prefix}{variable}");
            }
        }
    }
}

#[test]
fn index_of_the_documentation_links_every_page() {
    let index = fs::read_to_string(repository_root().join("docs/README.md")).unwrap();
    for (name, _) in guides() {
        let Some(page) = name.strip_prefix("docs/") else { continue };
        // Decisions have an index of their own, which another test checks.
        if page == "README.md" || page.starts_with("decisions/") {
            continue;
        }
        assert!(index.contains(&format!("({page})")), "docs/README.md has no link to {page}");
    }
}
