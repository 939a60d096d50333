//! Joins the modules of a frame into one script.
//!
//! A frame with twenty modules would need twenty requests in several rounds before the payer can
//! type. The modules are files of their own for the reader, and one file for the browser. There is
//! no build step: the server joins the modules when it starts.
//!
//! The modules use a small part of the language, and everything else is an error that a test finds:
//! `import { a, b as c } from "./x.js";`, and `export` before `function`, `class` and `const`.

use std::{borrow::Cow, collections::BTreeMap};

use crate::files::WebFile;

/// Removes comments and indentation of a script or of styles. A comment is a line of its own, or several,
/// or the type of a value.
pub(super) fn strip_comments(source: &str) -> String {
    let mut stripped = String::with_capacity(source.len());
    let (mut is_comment, mut is_template) = (false, false);
    for line in source.lines() {
        let code = if is_template { line } else { line.trim() };
        if is_comment {
            is_comment = !code.ends_with("*/");
            continue;
        }
        if !is_template {
            if code.is_empty() || code.starts_with("//") {
                continue;
            }
            if code.starts_with("/*") && !code.contains("*/") {
                is_comment = true;
                continue;
            }
            if code.starts_with("/*") && code.find("*/") == code.len().checked_sub(2) {
                continue;
            }
        }
        stripped.push_str(&without_value_types(code));
        stripped.push('\n');
        // The lines of a template literal are content.
        is_template ^= code.matches('`').count() % 2 == 1;
    }
    stripped
}

/// Removes comments such as `/** @type {string} */` in front of a value, which only the type check reads.
fn without_value_types(code: &str) -> Cow<'_, str> {
    let mut rest = Cow::Borrowed(code);
    while let Some((before, comment)) = rest.split_once("/** @type {")
        && let Some((_, after)) = comment.split_once("*/")
    {
        rest = Cow::Owned(format!("{before}{}", after.trim_start()));
    }
    rest
}

/// Returns one script with the module `entry` and everything that it imports.
///
/// Errors: a file is missing, modules import each other in a cycle, or a module uses another form
/// of import or export.
pub(super) fn join_modules(files: &[WebFile], entry: &str) -> Result<String, String> {
    let mut joined = JoinedScript { files, numbers: BTreeMap::new(), text: String::new() };
    joined.add(entry, &mut Vec::new())?;
    Ok(joined.text)
}

struct JoinedScript<'a> {
    files: &'a [WebFile],
    /// The number of each module that is in the script.
    numbers: BTreeMap<String, usize>,
    text: String,
}

impl JoinedScript<'_> {
    /// Adds a module after its imports, and returns its number.
    fn add(&mut self, name: &str, importers: &mut Vec<String>) -> Result<usize, String> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        if importers.iter().any(|it| it == name) {
            return Err(format!("{name} imports itself through {}", importers.join(", ")));
        }
        let is_entry = importers.is_empty();
        importers.push(name.to_owned());
        let module = self.read(name)?;
        let mut imports = String::new();
        for Import { names, path } in module.imports {
            let number = self.add(&resolve(name, &path)?, importers)?;
            imports += &format!("const{{{names}}}=$m{number};\n");
        }
        importers.pop();
        let number = self.numbers.len();
        self.numbers.insert(name.to_owned(), number);
        let (body, exports) = (module.body, module.exports.join(","));
        self.text += &if is_entry {
            format!("{imports}{body}")
        } else {
            format!("const $m{number}=(()=>{{\n{imports}{body}return{{{exports}}};\n}})();\n")
        };
        Ok(number)
    }

    fn read(&self, name: &str) -> Result<Module, String> {
        let file = self.files.iter().find(|it| it.name == name);
        let file = file.ok_or_else(|| format!("{name} does not exist"))?;
        let source = std::str::from_utf8(file.content).map_err(|it| format!("{name}: {it}"))?;
        Module::parse(&strip_comments(source)).map_err(|it| format!("{name}: {it}"))
    }
}

struct Import {
    /// In the form of a destructuring pattern.
    names: String,
    path: String,
}

#[derive(Default)]
struct Module {
    imports: Vec<Import>,
    exports: Vec<String>,
    body: String,
}

impl Module {
    fn parse(source: &str) -> Result<Self, String> {
        let mut module = Self::default();
        let mut lines = source.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("import ") {
                let mut statement = line.to_owned();
                while !statement.ends_with(';') {
                    statement += lines.next().ok_or("an import does not end")?;
                }
                module.imports.push(Import::parse(&statement)?);
                continue;
            }
            let declaration = match line.strip_prefix("export ") {
                Some(declaration) => {
                    module.exports.push(exported_name(declaration)?);
                    declaration
                }
                None => line,
            };
            module.body += declaration;
            module.body.push('\n');
        }
        Ok(module)
    }
}

impl Import {
    fn parse(statement: &str) -> Result<Self, String> {
        let unknown = || format!("unknown form of import: {statement}");
        let rest = statement.strip_prefix("import {").and_then(|it| it.strip_suffix("\";"));
        let (names, path) = rest.and_then(|it| it.split_once("} from \"")).ok_or_else(unknown)?;
        let names = names.split(',').map(str::trim).filter(|it| !it.is_empty());
        let names: Vec<_> = names.map(|it| it.replace(" as ", ":")).collect();
        Ok(Self { names: names.join(","), path: path.to_owned() })
    }
}

fn exported_name(declaration: &str) -> Result<String, String> {
    let kinds = ["function ", "async function ", "class ", "const "];
    let rest = kinds.iter().find_map(|it| declaration.strip_prefix(it));
    let rest = rest.ok_or_else(|| format!("unknown form of export: {declaration}"))?;
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '$';
    let end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
    let name = rest.get(..end).unwrap_or_default();
    if name.is_empty() {
        return Err(format!("unknown form of export: {declaration}"));
    }
    Ok(name.to_owned())
}

/// Resolves a relative path of an import in the module `importer`.
fn resolve(importer: &str, path: &str) -> Result<String, String> {
    let mut folders: Vec<_> = importer.split('/').collect();
    folders.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                folders.pop().ok_or_else(|| format!("{importer} imports {path}"))?;
            }
            other => folders.push(other),
        }
    }
    if !path.starts_with('.') {
        return Err(format!("{importer} imports {path}, which is not relative"));
    }
    Ok(folders.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &'static str, text: &'static str) -> WebFile {
        WebFile { name, content: text.as_bytes() }
    }

    #[test]
    fn comments_are_removed_and_templates_are_kept() {
        let source = "// purpose\n\n  /** @param {string} a */\n  /*\n   * more\n   */\n  const a = `\n  \
                      // content\n\n`; // end\n  call(/** @type {any} */ (a));\n";
        let expected = "const a = `\n  // content\n\n`; // end\ncall((a));\n";
        assert_eq!(strip_comments(source), expected);
    }

    #[test]
    fn modules_are_joined_after_their_imports_and_once() {
        let files = [
            file(
                "field/a.js",
                "import { b, c as d } from \"./b.js\";\nimport {\n  e,\n} from \"../e.js\";\nb(d, e);\n",
            ),
            file(
                "field/b.js",
                "import { e } from \"../e.js\";\nexport function b() {}\nexport const c = e;\n",
            ),
            file("e.js", "export class e {}\n"),
        ];
        let expected = "const $m0=(()=>{\nclass e {}\nreturn{e};\n})();\n\
                        const $m1=(()=>{\nconst{e}=$m0;\nfunction b() {}\nconst c = e;\nreturn{b,c};\n})();\n\
                        const{b,c:d}=$m1;\nconst{e}=$m0;\nb(d, e);\n";
        assert_eq!(join_modules(&files, "field/a.js").unwrap(), expected);
    }

    #[test]
    fn other_forms_of_modules_are_errors() {
        for (text, expected) in [
            ("import \"./b.js\";", "unknown form of import"),
            ("import b from \"./b.js\";", "unknown form of import"),
            ("import * as b from \"./b.js\";", "unknown form of import"),
            ("import { b } from \"b.js\";", "not relative"),
            ("import { b } from \"../b.js\";", "imports ../b.js"),
            ("import { b } from \"./missing.js\";", "missing.js does not exist"),
            ("import { b } from \"./a.js\";", "imports itself"),
            ("import {", "does not end"),
            ("export default 1;", "unknown form of export"),
            ("export { a };", "unknown form of export"),
            ("export let a = 1;", "unknown form of export"),
            ("export * from \"./b.js\";", "unknown form of export"),
            ("export const { a } = b;", "unknown form of export"),
        ] {
            let error = join_modules(&[file("a.js", text)], "a.js").unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
