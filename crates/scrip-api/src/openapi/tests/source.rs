//! The source file is valid, has the standard layout, and has the version of the program.

use std::{collections::HashSet, fmt, path::Path};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::openapi::{SOURCE, document};

/// The attributes of an object in the order of the source. A duplicate name is an error:
/// `serde_json` would silently use the last one.
struct OrderedAttributes(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for OrderedAttributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = OrderedAttributes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<OrderedAttributes, A::Error> {
                let (mut attributes, mut names) = (Vec::new(), HashSet::new());
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("duplicate name {name}")));
                    }
                    attributes.push((name, value));
                }
                Ok(OrderedAttributes(attributes))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

const LINE_CHARS_MAX: usize = 100;

/// A value with a layout: on one line if it fits, otherwise one part per line, or several per line
/// if all parts are plain values.
enum Layout {
    Plain(String),
    Parts { open: char, close: char, parts: Vec<(String, Layout)> },
}

impl Layout {
    fn read(text: &str) -> Self {
        let read_item = |it: &RawValue| (String::new(), Self::read(it.get()));
        match text.chars().next() {
            Some('{') => {
                let values: OrderedAttributes = serde_json::from_str(text).unwrap();
                let read_attribute = |(name, value): &(String, Box<RawValue>)| {
                    let name = serde_json::to_string(name).unwrap();
                    (format!("{name}: "), Self::read(value.get()))
                };
                Self::Parts {
                    open: '{',
                    close: '}',
                    parts: values.0.iter().map(read_attribute).collect(),
                }
            }
            Some('[') => {
                let values: Vec<Box<RawValue>> = serde_json::from_str(text).unwrap();
                let parts = values.iter().map(|it| read_item(it)).collect();
                Self::Parts { open: '[', close: ']', parts }
            }
            _ => Self::Plain(text.to_owned()),
        }
    }

    fn on_one_line(&self) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::Parts { open, close, parts } => {
                let parts = parts.iter().map(|(name, it)| format!("{name}{}", it.on_one_line()));
                format!("{open}{}{close}", parts.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// `before` is the number of characters before the value on its line, plus one for a comma.
    fn write(&self, indent: usize, before: usize) -> String {
        let line = self.on_one_line();
        let Self::Parts { open, close, parts } = self else { return line };
        if parts.is_empty() || before + line.chars().count() <= LINE_CHARS_MAX {
            return line;
        }
        let inner = "  ".repeat(indent + 1);
        let is_plain =
            |(name, it): &(String, Self)| name.is_empty() && matches!(it, Self::Plain(_));
        let lines = if parts.iter().all(is_plain) {
            fill_lines(&inner, parts)
        } else {
            let part = |(name, it): &(String, Self)| {
                let before = inner.len() + name.chars().count() + 1;
                format!("{inner}{name}{}", it.write(indent + 1, before))
            };
            parts.iter().map(part).collect::<Vec<_>>().join(",\n")
        };
        format!("{open}\n{lines}\n{}{close}", "  ".repeat(indent))
    }
}

/// Fills lines with plain values.
fn fill_lines(inner: &str, parts: &[(String, Layout)]) -> String {
    let (mut lines, mut line) = (Vec::new(), inner.to_owned());
    for (index, (_, part)) in parts.iter().enumerate() {
        let comma = if index + 1 < parts.len() { "," } else { "" };
        let text = format!("{}{comma}", part.on_one_line());
        if line != inner && line.chars().count() + 1 + text.chars().count() > LINE_CHARS_MAX {
            lines.push(std::mem::replace(&mut line, inner.to_owned()));
        }
        let space = if line == inner { "" } else { " " };
        line = format!("{line}{space}{text}");
    }
    lines.push(line);
    lines.join("\n")
}

/// `SCRIP_TEST_GOLDEN=write` rewrites the file. Duplicate names in an object also fail here.
#[test]
fn source_file_has_the_standard_layout() {
    let expected_text = format!("{}\n", Layout::read(SOURCE.trim()).write(0, 0));
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/openapi/openapi.json");
        std::fs::write(file, expected_text).unwrap();
        return;
    }
    for (line, expected_line) in SOURCE.lines().zip(expected_text.lines()) {
        assert_eq!(line, expected_line, "SCRIP_TEST_GOLDEN=write rewrites the file");
    }
    assert!(SOURCE == expected_text, "SCRIP_TEST_GOLDEN=write rewrites the file");
}

#[test]
#[should_panic(expected = "duplicate name type")]
fn duplicate_attribute_is_rejected() {
    Layout::read(r#"{"a": {"type": "string", "type": "object"}}"#);
}

#[test]
fn document_version_is_the_program_version() {
    assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
}
