//! The file: TOML, read with the place of every key, so that a complaint can point at it.

use std::{collections::BTreeMap, ops::Range};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::config::{
    table::SETTINGS,
    value::{
        Form,
        threeds::{OF_SCHEME, sections},
    },
};

/// The value of one key, as text, and where it stands.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) text: String,
    pub(super) place: String,
}

/// What the file sets, by path, and everything that is wrong with it as a file.
pub(super) fn read(name: &str, text: &str) -> (BTreeMap<String, Entry>, Vec<String>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reading = Reading { name, text, entries: BTreeMap::new(), found: Vec::new() };
    for error in errors {
        let place = reading.place(&error.span().unwrap_or_default());
        reading.found.push(format!("{place}: {}", error.message()));
    }
    // What was read around a broken place may not be what was meant.
    if reading.found.is_empty() {
        for (section, content) in document.get_ref() {
            reading.section(section, content);
        }
    }
    (reading.entries, reading.found)
}

/// Below these, sections are named by schemes.
const WITH_SCHEMES: [&str; 2] = ["threeds.production", "threeds.test"];

struct Reading<'a> {
    name: &'a str,
    text: &'a str,
    entries: BTreeMap<String, Entry>,
    found: Vec<String>,
}

impl Reading<'_> {
    fn section(&mut self, section: &Spanned<impl AsRef<str>>, content: &Spanned<DeValue<'_>>) {
        let name = section.get_ref().as_ref();
        if !SETTINGS.iter().any(|it| it.section == name) {
            let mut known: Vec<_> = SETTINGS.iter().map(|it| it.section).collect();
            known.dedup();
            let rule = format!("{name}: is not a section; there are {}", known.join(", "));
            return self.complain(&section.span(), &rule);
        }
        let Some(table) = content.get_ref().as_table() else {
            return self.complain(&content.span(), &format!("{name}: must be a section"));
        };
        for (key, value) in table {
            let path = format!("{name}.{}", key.get_ref().as_ref());
            match value.get_ref().as_table() {
                Some(schemes) if WITH_SCHEMES.contains(&path.as_str()) => {
                    for (scheme, content) in schemes {
                        self.scheme(&path, scheme, content);
                    }
                }
                Some(_) | None => self.setting(name, key, value),
            }
        }
    }

    /// `[threeds.production.visa]`: one for each scheme that is connected.
    fn scheme(
        &mut self,
        above: &str,
        scheme: &Spanned<impl AsRef<str>>,
        content: &Spanned<DeValue<'_>>,
    ) {
        let path = format!("{above}.{}", scheme.get_ref().as_ref());
        let known: Vec<_> = sections().map(|(_, _, it)| it).collect();
        if !known.contains(&path) {
            let known = known.iter().filter_map(|it| it.strip_prefix(&format!("{above}.")));
            let known: Vec<_> = known.collect();
            let rule = format!("{path}: is not a scheme; there are {}", known.join(", "));
            return self.complain(&scheme.span(), &rule);
        }
        let Some(table) = content.get_ref().as_table() else {
            return self.complain(&content.span(), &format!("{path}: must be a section"));
        };
        if table.is_empty() {
            self.complain(&scheme.span(), &format!("{path}: has no settings"));
        }
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if !OF_SCHEME.iter().any(|it| it.name == name) {
                let known: Vec<_> = OF_SCHEME.iter().map(|it| it.name).collect();
                let rule =
                    format!("{path}.{name}: is not a setting; there are {}", known.join(", "));
                self.complain(&key.span(), &rule);
                continue;
            }
            self.take(format!("{path}.{name}"), Form::Text, value);
        }
    }

    fn setting(
        &mut self,
        section: &str,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let path = format!("{section}.{}", key.get_ref().as_ref());
        let Some(setting) = SETTINGS.iter().find(|it| it.path() == path) else {
            let siblings = SETTINGS.iter().filter(|it| it.section == section);
            let known: Vec<_> = siblings.map(|it| it.name).collect();
            let rule = format!("{path}: is not a setting; [{section}] has {}", known.join(", "));
            return self.complain(&key.span(), &rule);
        };
        self.take(path, setting.form, value);
    }

    fn take(&mut self, path: String, form: Form, value: &Spanned<DeValue<'_>>) {
        match text(form, value.get_ref()) {
            Ok(text) => {
                let place = self.place(&value.span());
                self.entries.insert(path, Entry { text, place });
            }
            Err(rule) => self.complain(&value.span(), &format!("{path}: {rule}")),
        }
    }

    fn complain(&mut self, span: &Range<usize>, rule: &str) {
        let place = self.place(span);
        self.found.push(format!("{place}: {rule}"));
    }

    /// `scrip.toml:3:10`, counted from one, in characters.
    fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count().saturating_add(1);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        format!("{}:{line}:{}", self.name, column.saturating_add(1))
    }
}

/// A value in the form that its setting has.
fn text(form: Form, value: &DeValue<'_>) -> Result<String, &'static str> {
    match form {
        Form::Text => value.as_str().map(str::to_owned).ok_or("must be text in quotes"),
        Form::Flag => value.as_bool().map(|it| it.to_string()).ok_or("must be true or false"),
        Form::Number => {
            let number = value.as_integer().filter(|it| it.radix() == 10);
            number.map(|it| it.as_str().to_owned()).ok_or("must be a whole number")
        }
    }
}
