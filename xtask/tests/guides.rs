//! Rules about the guides: one set of variables, an index that lists every page, and links to
//! sections that exist.

#![expect(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::{
    collections::BTreeSet,
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

/// The names under which links reach the sections of a page, as GitHub makes them.
fn section_anchors(text: &str) -> BTreeSet<String> {
    let is_fence = |it: &str| it.trim_start().starts_with("```");
    let mut in_fence = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        in_fence ^= is_fence(line);
        let heading = line.trim_start_matches('#');
        if in_fence || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        let anchor: String = kept.flat_map(char::to_lowercase).collect();
        anchors.insert(anchor.replace(' ', "-"));
    }
    anchors
}

/// The links of all guides to sections that do not exist.
fn find_dead_anchors(guides: &[(String, String)]) -> Vec<String> {
    let mut dead = Vec::new();
    for (name, text) in guides {
        let targets = text.split("](").skip(1).filter_map(|it| it.split(')').next());
        for target in targets.filter(|it| !it.contains("://")) {
            let Some((file, anchor)) = target.split_once('#') else { continue };
            let path = if file.is_empty() { name.clone() } else { resolve(name, file) };
            let page = guides.iter().find(|(name, _)| *name == path);
            if page.is_some_and(|(_, text)| !section_anchors(text).contains(anchor)) {
                dead.push(format!("{name}: {target}"));
            }
        }
    }
    dead
}

/// The path of a link target, below the repository.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => (),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn links_to_sections_point_to_existing_sections() {
    assert_eq!(find_dead_anchors(&guides()), Vec::<String>::new());
}

#[test]
fn link_to_a_missing_section_is_found() {
    let page = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let pages = [
        page("docs/a/one.md", "[x](../two.md#1-set-it-up) [y](#one) [z](../two.md#2-gone)"),
        page("docs/two.md", "# Two\n\n```\n# 2 gone\n```\n\n## 1. Set `it` up!\n"),
    ];
    assert_eq!(
        find_dead_anchors(&pages),
        ["docs/a/one.md: #one", "docs/a/one.md: ../two.md#2-gone"]
    );
}
