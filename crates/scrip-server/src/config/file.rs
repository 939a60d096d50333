//! Parses the settings file (TOML) with the position of every key, for error messages.

use std::{collections::BTreeMap, ops::Range};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::config::{
    table::SETTINGS,
    value::{
        ValueKind,
        threeds::{SCHEME_SETTINGS, scheme_sections},
    },
};

/// The value of one key as text, and its location.
#[derive(Debug)]
pub(super) struct FileEntry {
    pub(super) text: String,
    pub(super) location: String,
}

/// Returns the entries of the file by path, and all syntax problems.
pub(super) fn read(name: &str, text: &str) -> (BTreeMap<String, FileEntry>, Vec<String>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = FileReader { name, text, entries: BTreeMap::new(), problems: Vec::new() };
    for error in errors {
        let location = reader.locate(&error.span().unwrap_or_default());
        reader.problems.push(format!("{location}: {}", error.message()));
    }
    // After a syntax error, entries may not be what the author meant.
    if reader.problems.is_empty() {
        for (section, content) in document.get_ref() {
            reader.read_section(section, content);
        }
    }
    (reader.entries, reader.problems)
}

/// Sections that contain one subsection per scheme.
const SCHEME_SECTIONS: [&str; 2] = ["threeds.production", "threeds.test"];

struct FileReader<'a> {
    name: &'a str,
    text: &'a str,
    entries: BTreeMap<String, FileEntry>,
    problems: Vec<String>,
}

impl FileReader<'_> {
    fn read_section(&mut self, section: &Spanned<impl AsRef<str>>, content: &Spanned<DeValue<'_>>) {
        let name = section.get_ref().as_ref();
        if !SETTINGS.iter().any(|it| it.section == name) {
            let mut section_names: Vec<_> = SETTINGS.iter().map(|it| it.section).collect();
            section_names.dedup();
            let rule =
                format!("{name}: is not a section; sections are {}", section_names.join(", "));
            return self.add_problem(&section.span(), &rule);
        }
        let Some(table) = content.get_ref().as_table() else {
            return self.add_problem(&content.span(), &format!("{name}: must be a section"));
        };
        for (key, value) in table {
            let path = format!("{name}.{}", key.get_ref().as_ref());
            match value.get_ref().as_table() {
                Some(schemes) if SCHEME_SECTIONS.contains(&path.as_str()) => {
                    for (scheme, content) in schemes {
                        self.read_scheme(&path, scheme, content);
                    }
                }
                Some(_) | None => self.read_setting(name, key, value),
            }
        }
    }

    /// Reads the section of a connected scheme, such as `[threeds.production.visa]`.
    fn read_scheme(
        &mut self,
        parent: &str,
        scheme: &Spanned<impl AsRef<str>>,
        content: &Spanned<DeValue<'_>>,
    ) {
        let path = format!("{parent}.{}", scheme.get_ref().as_ref());
        let sections: Vec<_> = scheme_sections().map(|(_, _, it)| it).collect();
        if !sections.contains(&path) {
            let schemes = sections.iter().filter_map(|it| it.strip_prefix(&format!("{parent}.")));
            let schemes: Vec<_> = schemes.collect();
            let rule = format!("{path}: is not a scheme; schemes are {}", schemes.join(", "));
            return self.add_problem(&scheme.span(), &rule);
        }
        let Some(table) = content.get_ref().as_table() else {
            return self.add_problem(&content.span(), &format!("{path}: must be a section"));
        };
        if table.is_empty() {
            self.add_problem(&scheme.span(), &format!("{path}: is empty"));
        }
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if !SCHEME_SETTINGS.iter().any(|it| it.name == name) {
                let names: Vec<_> = SCHEME_SETTINGS.iter().map(|it| it.name).collect();
                let rule =
                    format!("{path}.{name}: is not a setting; settings are {}", names.join(", "));
                self.add_problem(&key.span(), &rule);
                continue;
            }
            self.add_entry(format!("{path}.{name}"), ValueKind::Text, value);
        }
    }

    fn read_setting(
        &mut self,
        section: &str,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let path = format!("{section}.{}", key.get_ref().as_ref());
        let Some(setting) = SETTINGS.iter().find(|it| it.path() == path) else {
            let section_settings = SETTINGS.iter().filter(|it| it.section == section);
            let setting_names: Vec<_> = section_settings.map(|it| it.name).collect();
            let rule =
                format!("{path}: is not a setting; [{section}] has {}", setting_names.join(", "));
            return self.add_problem(&key.span(), &rule);
        };
        self.add_entry(path, setting.kind, value);
    }

    fn add_entry(&mut self, path: String, kind: ValueKind, value: &Spanned<DeValue<'_>>) {
        match value_text(kind, value.get_ref()) {
            Ok(text) => {
                let location = self.locate(&value.span());
                self.entries.insert(path, FileEntry { text, location });
            }
            Err(rule) => self.add_problem(&value.span(), &format!("{path}: {rule}")),
        }
    }

    fn add_problem(&mut self, span: &Range<usize>, rule: &str) {
        let location = self.locate(span);
        self.problems.push(format!("{location}: {rule}"));
    }

    /// Returns a location such as `scrip.toml:3:10`. Line and column start at 1; columns count
    /// characters.
    fn locate(&self, span: &Range<usize>) -> String {
        let text_before = self.text.get(..span.start).unwrap_or(self.text);
        let line = text_before.matches('\n').count().saturating_add(1);
        let column = text_before.rsplit('\n').next().unwrap_or_default().chars().count();
        format!("{}:{line}:{}", self.name, column.saturating_add(1))
    }
}

/// Converts a TOML value to text, according to the kind of its setting.
fn value_text(kind: ValueKind, value: &DeValue<'_>) -> Result<String, &'static str> {
    match kind {
        ValueKind::Text => value.as_str().map(str::to_owned).ok_or("must be a string in quotes"),
        ValueKind::Flag => value.as_bool().map(|it| it.to_string()).ok_or("must be true or false"),
        ValueKind::Number => {
            let number = value.as_integer().filter(|it| it.radix() == 10);
            number.map(|it| it.as_str().to_owned()).ok_or("must be a whole number")
        }
    }
}
