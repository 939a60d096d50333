//! The lines of a crate: product code and tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use syn::{Item, spanned::Spanned};

use crate::{
    modules::{self, test_code},
    sources,
};

/// The numbers of lines of a crate, including comments and empty lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Lines below `src`, without test modules.
    pub product: usize,
    /// Test modules below `src`, and all files below `tests`.
    pub test: usize,
}

/// Counts the lines of the Rust files of a crate.
pub fn count_lines(crate_folder: &Path) -> Result<LineCounts> {
    let mut counts = LineCounts::default();
    let product_files = list_product_files(crate_folder)?;
    for file in sources::files_with_extension(&crate_folder.join("src"), "rs")? {
        let text = fs::read_to_string(&file)?;
        let lines = text.lines().count();
        let is_product = product_files.contains(&file);
        let test_lines = if is_product { count_test_module_lines(&text)? } else { lines };
        counts.product += lines - test_lines;
        counts.test += test_lines;
    }
    let test_folder = crate_folder.join("tests");
    if test_folder.is_dir() {
        for file in sources::files_with_extension(&test_folder, "rs")? {
            counts.test += fs::read_to_string(file)?.lines().count();
        }
    }
    Ok(counts)
}

/// The files with the product modules of the library and of the programs.
fn list_product_files(crate_folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut root_files: Vec<_> =
        ["src/lib.rs", "src/main.rs"].iter().map(|it| crate_folder.join(it)).collect();
    root_files.retain(|it| it.exists());
    let program_folder = crate_folder.join("src/bin");
    if program_folder.is_dir() {
        root_files.extend(sources::files_with_extension(&program_folder, "rs")?);
    }
    let mut files = BTreeSet::new();
    for root_file in root_files {
        files.extend(modules::read_crate(&root_file)?.into_values().map(|it| it.file));
    }
    Ok(files)
}

fn count_test_module_lines(text: &str) -> Result<usize> {
    let parsed = syn::parse_file(text)?;
    let modules = parsed.items.iter().filter(|it| matches!(it, Item::Mod(_)));
    let spans = modules.filter(|it| test_code::is_test_item(it)).map(Spanned::span);
    Ok(spans.map(|it| it.end().line - it.start().line + 1).sum())
}
