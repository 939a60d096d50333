//! The map of the source files in ARCHITECTURE.md: "`X` in `path`" is true.

use std::{fs, path::Path};

use xtask::sources;

/// The map says "`X` in `path`": the file defines X.
#[test]
fn files_named_for_an_item_in_the_architecture_define_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let sources = sources::files_below(&root).unwrap();
    let rows = list_item_rows(&text);
    assert!(rows.len() > 150, "only {} rows name an item and its file", rows.len());
    let mut false_rows = Vec::new();
    for (item, file) in rows {
        let endings = [format!("/{file}"), format!("/scrip-{file}")];
        let mut named = sources
            .iter()
            .filter(|it| endings.iter().any(|end| it.to_string_lossy().ends_with(end.as_str())));
        if !named.any(|it| defines(&fs::read_to_string(it).unwrap(), item)) {
            false_rows.push(format!("`{item}` in `{file}`"));
        }
    }
    assert!(false_rows.is_empty(), "files do not define: {false_rows:#?}");
}

#[test]
fn item_rows_are_read_and_false_ones_are_found() {
    let text = "| Where? | `Vault::may_compare` in `core/src/a.rs`, `X` and `Y` in `b.rs` (`c.rs`) |\n\
                `run` (`d.rs`) and `RATE`\nin `e.rs`; `GET /x` in `f.rs`, `g` calls `h.rs`";
    let expected = [
        ("Vault::may_compare", "core/src/a.rs"),
        ("Y", "b.rs"),
        ("X", "b.rs"),
        ("run", "d.rs"),
        ("RATE", "e.rs"),
    ];
    assert_eq!(list_item_rows(text), expected);
    let source = "impl Vault {\n    pub(crate) async fn may_compare() {}\n}\nconst RATE: u8 = 1;";
    assert!(defines(source, "Vault::may_compare") && defines(source, "RATE"));
    for item in ["Tenant::may_compare", "Vault::compare", "may_comp", "Vault"] {
        assert!(!defines(source, item), "{item}");
    }
}

/// The items that a text names with the file that defines them: "`X` in `path`", "`X` and `Y` in `path`"
/// or "`X` (`path`)".
fn list_item_rows(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<_> = text.split('`').collect();
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    let is_item = |item: &str| item.split("::").all(is_name);
    let mut rows = Vec::new();
    for (index, window) in parts.windows(3).enumerate().skip(1).step_by(2) {
        let [item, between, file] = window else { continue };
        let is_defined = matches!(between.trim(), "in" | "(");
        if !is_defined || !file.ends_with(".rs") || !is_item(item) {
            continue;
        }
        rows.push((*item, *file));
        let before =
            |offset: usize| index.checked_sub(offset).and_then(|it| parts.get(it)).copied();
        if before(1).is_some_and(|it| it.trim() == "and")
            && let Some(other) = before(2).filter(|it| is_item(it))
        {
            rows.push((other, *file));
        }
    }
    rows
}

/// Whether a source file defines an item. The file of `Type::name` defines the name, and has an `impl`
/// or a definition of the type.
fn defines(source: &str, item: &str) -> bool {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let has_word_after = |keyword: &str, name: &str| {
        source.match_indices(&format!("{keyword}{name}")).any(|(start, found)| {
            let tail = source.get(start + found.len()..).unwrap_or_default();
            let head = source.get(..start).unwrap_or_default();
            !tail.starts_with(is_word) && !head.ends_with(is_word)
        })
    };
    let is_defined = |name: &str| {
        ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static ", "mod ", "macro_rules! "]
            .into_iter()
            .any(|it| has_word_after(it, name))
    };
    match item.rsplit_once("::") {
        None => is_defined(item),
        Some((owner, name)) => {
            let owner = owner.rsplit("::").next().unwrap_or(owner);
            // An owner in small letters is the module of the file.
            let has_owner = owner.starts_with(|it: char| it.is_ascii_lowercase())
                || is_defined(owner)
                || source.lines().any(|it| it.starts_with("impl") && it.contains(owner));
            // A variant of an enum starts a line.
            let is_variant = || source.lines().any(|it| it.trim_start().starts_with(name));
            has_owner && (is_defined(name) || is_variant())
        }
    }
}
