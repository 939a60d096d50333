//! The tests of the repository in all its languages, found by the names that documents give them.

use std::{fs, path::Path};

use anyhow::Result;

use crate::{names, sources};

/// All tests of a tree. The name of a Rust test in a document is the end of its path: modules and
/// function. Other tests are named by the end of their file's path and by their function or title.
#[derive(Debug)]
pub struct TestIndex {
    /// Such as `crates::scrip::tests::it::tokens::create_token::card_is_created`.
    rust: Vec<String>,
    /// Path and content of each test file.
    python: Vec<(String, String)>,
    /// Files with titles: tests in JavaScript, and Rust programs that run scenarios.
    titled: Vec<(String, String)>,
}

impl TestIndex {
    /// Reads the tests below `root`.
    /// Errors: a file cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let rust = names::test_names(root)?;
        let rust = rust.iter().map(|it| {
            let path = relative_path(root, &it.file);
            let module = path.trim_end_matches(".rs").trim_end_matches("/main");
            format!("{}::{}", module.replace('/', "::"), it.name)
        });
        let rust = rust.collect();
        let python = read_files(root, "py", |name, _| name.starts_with("test_"))?;
        let mut titled = read_files(root, "js", |name, _| name.ends_with(".test.js"))?;
        titled.extend(read_files(root, "rs", |_, text| text.contains("Scenario"))?);
        Ok(Self { rust, python, titled })
    }

    /// The number of tests with this name. A document is right if there is exactly one.
    pub fn count(&self, name: &str) -> usize {
        if let Some((file, title)) = name.split_once(' ') {
            return count_in(&self.titled, file, |text| has_title(text, title));
        }
        if let Some((file, function)) = name.split_once(".py::") {
            let definition = format!("\ndef {function}(");
            return count_in(&self.python, &format!("{file}.py"), |it| it.contains(&definition));
        }
        // A function name alone does not say where the test is.
        let end = format!("::{name}");
        let is_path = name.contains("::");
        self.rust.iter().filter(|it| is_path && it.ends_with(&end)).count()
    }
}

fn relative_path(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// Reads the files with this extension that have tests, by their name and content.
fn read_files(
    root: &Path,
    extension: &str,
    has_tests: impl Fn(&str, &str) -> bool,
) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for file in sources::files_with_extension(root, extension)? {
        let (path, text) = (relative_path(root, &file), fs::read_to_string(&file)?);
        if has_tests(path.rsplit('/').next().unwrap_or(&path), &text) {
            files.push((path, text));
        }
    }
    Ok(files)
}

fn count_in(files: &[(String, String)], end: &str, has_test: impl Fn(&str) -> bool) -> usize {
    let end = format!("/{end}");
    files.iter().filter(|(path, text)| path.ends_with(&end) && has_test(text)).count()
}

/// Whether a call has the quoted title as its first argument: `test("title"`, or the title alone at
/// the start of a line. The title in a document has double quotes, in a file possibly backticks.
fn has_title(text: &str, quoted_title: &str) -> bool {
    let title = quoted_title.trim_matches('"');
    let is_quoted = quoted_title.len() == title.len().saturating_add(2);
    let forms = [format!("\"{title}\""), format!("`{title}`")];
    is_quoted
        && text.lines().map(str::trim_start).any(|line| {
            forms.iter().any(|it| line.starts_with(it) || line.contains(&format!("({it}")))
        })
}
