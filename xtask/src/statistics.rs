//! The statistics of a tree for the decision records: `cargo run -p xtask -- figures [ROOT]`.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use crate::{lines, names, parameters, prose, sources};

/// Describes the tree below `root`: sizes and parameters of each crate.
pub fn report(root: &Path) -> Result<String> {
    let mut text = String::new();
    let mut total_lines = 0;
    let mut tuple_count = 0;
    for folder in sources::crate_folders(root)? {
        let name = folder.strip_prefix(root).unwrap_or(&folder).display();
        let files = sources::files_with_extension(&folder.join("src"), "rs")?;
        let lines = lines::count_lines(&folder)?.product;
        for file in &files {
            tuple_count +=
                parameters::list_functions(file)?.iter().map(|it| it.tuple_count).sum::<usize>();
        }
        total_lines += lines;
        writeln!(text, "{name}: {} files, {lines} lines", files.len())?;
    }
    writeln!(text, "Rust lines without tests: {total_lines}")?;
    writeln!(text, "anonymous tuple parameters in src folders: {tuple_count}")?;
    let repeated_count = names::repeated_types(root)?.len();
    writeln!(text, "type names used more than once in a crate: {repeated_count}")?;
    let (refused, tests) = (names::refused_test_names(root)?, names::test_names(root)?);
    writeln!(text, "test names with a refused beginning: {} of {}", refused.len(), tests.len())?;
    let refused = names::refused_names(root)?.len();
    writeln!(text, "module and type names of one refused word: {refused}")?;
    let density = prose::dialect_density(root)?;
    let share = density.per_thousand_lines();
    writeln!(text, "dialect words: {}, {share:.1} for each 1,000 lines", density.words)?;
    Ok(text)
}
