//! Words that make sentences hard to read: pronouns instead of the thing, and adverbs instead of a
//! relation.

use std::{fs, path::Path};

use anyhow::Result;

use crate::sources;

const DIALECT_WORDS: [&str; 7] =
    ["whoever", "nobody", "somebody", "told", "beside", "apart", "whom"];

/// The number of dialect words in the Rust files and documents of a tree, and the number of lines.
#[derive(Debug, Default)]
pub struct Density {
    pub words: usize,
    pub lines: usize,
}

impl Density {
    /// Dialect words for each thousand lines.
    pub fn per_thousand_lines(&self) -> f64 {
        let words = u32::try_from(self.words).map_or(f64::INFINITY, f64::from);
        let lines = u32::try_from(self.lines).map_or(f64::INFINITY, f64::from);
        1000.0 * words / lines.max(1.0)
    }
}

/// Counts the dialect words of all Rust files and documents below `root`.
pub fn dialect_density(root: &Path) -> Result<Density> {
    let mut density = Density::default();
    for extension in ["rs", "md"] {
        for file in sources::files_with_extension(root, extension)? {
            let text = fs::read_to_string(file)?;
            density.lines += text.lines().count();
            density.words += count_dialect_words(&text);
        }
    }
    Ok(density)
}

/// Counts the dialect words of a text. A part of a longer identifier does not count.
pub fn count_dialect_words(text: &str) -> usize {
    let words = text.split(|it: char| !it.is_alphanumeric() && it != '_');
    words.filter(|it| DIALECT_WORDS.contains(&it.to_lowercase().as_str())).count()
}
