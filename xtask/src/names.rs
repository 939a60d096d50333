//! The names of types, modules and tests, and the words that they must not use.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::sources;

/// A name that begins with one of these words continues another sentence instead of naming the
/// behavior under test.
const TEST_NAME_BEGINNINGS: [&str; 17] = [
    "what", "who", "whose", "whom", "nor", "and", "or", "it", "nobody", "nothing", "one", "of",
    "by", "that", "as", "so", "whoever",
];

/// Words that do not describe the thing: pronouns, adverbs, participles, and nouns that fit
/// everything. A module or a type needs a noun phrase.
const REFUSED_WORDS: [&str; 88] = [
    "about",
    "altered",
    "answered",
    "apart",
    "arrived",
    "arriving",
    "asked",
    "asking",
    "away",
    "before",
    "begun",
    "beside",
    "besides",
    "broken",
    "busy",
    "changed",
    "checked",
    "claimed",
    "company",
    "connected",
    "converted",
    "copied",
    "counted",
    "counting",
    "deed",
    "desk",
    "done",
    "door",
    "doorkeeper",
    "drawn",
    "elsewhere",
    "ended",
    "ending",
    "entering",
    "examined",
    "filed",
    "filled",
    "filling",
    "former",
    "found",
    "gathering",
    "heard",
    "held",
    "house",
    "inner",
    "kept",
    "knob",
    "known",
    "lent",
    "loaded",
    "looked",
    "made",
    "manner",
    "misplaced",
    "modified",
    "moved",
    "named",
    "noted",
    "noting",
    "ongoing",
    "opened",
    "outside",
    "paid",
    "patience",
    "placed",
    "played",
    "prepared",
    "read",
    "refused",
    "room",
    "said",
    "scene",
    "seen",
    "sent",
    "shown",
    "spent",
    "stage",
    "standing",
    "still",
    "surveyed",
    "told",
    "uses",
    "walked",
    "wanted",
    "way",
    "went",
    "whose",
    "written",
];

/// One name and the file that defines it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Definition {
    pub name: String,
    pub file: PathBuf,
}

/// Lists the type names that one compilation unit of a crate defines more than once: the sources,
/// or one suite of integration tests.
pub fn repeated_types(root: &Path) -> Result<Vec<Vec<Definition>>> {
    let mut repeated = Vec::new();
    for folder in sources::crate_folders(root)? {
        for unit in compilation_units(&folder)? {
            let mut definitions = BTreeMap::<String, Vec<Definition>>::new();
            for it in types_below(&unit)? {
                definitions.entry(it.name.clone()).or_default().push(it);
            }
            repeated.extend(definitions.into_values().filter(|it| it.len() > 1));
        }
    }
    Ok(repeated)
}

/// Lists the tests below `root` with a name that begins with a refused word.
pub fn refused_test_names(root: &Path) -> Result<Vec<Definition>> {
    let mut refused = test_names(root)?;
    refused.retain(|it| {
        let first_word = it.name.split('_').next().unwrap_or_default();
        TEST_NAME_BEGINNINGS.contains(&first_word)
    });
    Ok(refused)
}

/// Lists the modules and types below `root` with a name that is one refused word.
pub fn refused_names(root: &Path) -> Result<Vec<Definition>> {
    let mut refused = types_below(root)?;
    for file in sources::files_with_extension(root, "rs")? {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        refused.push(Definition { name, file });
    }
    refused.retain(|it| REFUSED_WORDS.contains(&it.name.to_lowercase().as_str()));
    Ok(refused)
}

/// Lists the tests below `root`, also those inside of macros such as `proptest!`.
pub fn test_names(root: &Path) -> Result<Vec<Definition>> {
    let mut tests = Vec::new();
    for file in sources::files_with_extension(root, "rs")? {
        let text = fs::read_to_string(&file)?;
        let mut follows_test_attribute = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                follows_test_attribute = true;
            } else if follows_test_attribute && let Some(name) = name_after(line, "fn ") {
                tests.push(Definition { name, file: file.clone() });
                follows_test_attribute = false;
            }
        }
    }
    Ok(tests)
}

/// The sources of a crate, and each of its suites of integration tests: a folder or a file.
fn compilation_units(crate_folder: &Path) -> Result<Vec<PathBuf>> {
    let mut units = vec![crate_folder.join("src")];
    let tests = crate_folder.join("tests");
    if tests.is_dir() {
        for entry in fs::read_dir(tests)? {
            units.push(entry?.path());
        }
    }
    Ok(units)
}

/// Lists the types below `path`, a file or a folder. The text is searched instead of the syntax
/// tree, because macros define types too.
fn types_below(path: &Path) -> Result<Vec<Definition>> {
    let files = if path.is_dir() {
        sources::files_with_extension(path, "rs")?
    } else {
        vec![path.to_path_buf()]
    };
    let mut types = Vec::new();
    for file in files {
        for line in fs::read_to_string(&file)?.lines() {
            // An indented `type` belongs to a trait or its implementation.
            let keywords: &[&str] = if line.starts_with(' ') {
                &["struct ", "enum ", "trait ", "union "]
            } else {
                &["struct ", "enum ", "trait ", "union ", "type "]
            };
            let item = line.trim_start();
            let item = item
                .strip_prefix("pub(")
                .and_then(|it| it.split_once(") "))
                .map_or(item.strip_prefix("pub ").unwrap_or(item), |(_visibility, item)| item);
            for keyword in keywords {
                let starts_with_keyword = item.starts_with(keyword);
                if let Some(name) = name_after(item, keyword).filter(|_| starts_with_keyword)
                    && name.starts_with(|it: char| it.is_ascii_uppercase())
                {
                    types.push(Definition { name, file: file.clone() });
                }
            }
        }
    }
    Ok(types)
}

/// Returns the identifier after the first `keyword` of a line.
fn name_after(line: &str, keyword: &str) -> Option<String> {
    let (_, text_after_keyword) = line.split_once(keyword)?;
    let name_length = text_after_keyword
        .find(|it: char| !it.is_alphanumeric() && it != '_')
        .unwrap_or(text_after_keyword.len());
    let name = text_after_keyword.get(..name_length)?;
    (!name.is_empty()).then(|| name.to_owned())
}
