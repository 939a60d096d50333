//! The source file: valid, written in one layout, and of this version.

use std::{collections::HashSet, fmt, path::Path};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::openapi::{SOURCE, document};

/// The attributes of an object in the order of the source. A name that stands twice is an error:
/// `serde_json` would keep the last one.
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
                let (mut all, mut names) = (Vec::new(), HashSet::new());
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("{name} stands twice")));
                    }
                    all.push((name, value));
                }
                Ok(OrderedAttributes(all))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

const LINE_CHARS_MAX: usize = 100;

/// A value whose parts are laid out: on one line where that is short enough, else one part on each
/// line, and several where the parts are plain values.
enum Layout {
    Plain(String),
    Parts { open: char, close: char, parts: Vec<(String, Layout)> },
}

impl Layout {
    fn read(text: &str) -> Self {
        let nameless = |it: &RawValue| (String::new(), Self::read(it.get()));
        match text.chars().next() {
            Some('{') => {
                let all: OrderedAttributes = serde_json::from_str(text).unwrap();
                let part = |(name, value): &(String, Box<RawValue>)| {
                    let name = serde_json::to_string(name).unwrap();
                    (format!("{name}: "), Self::read(value.get()))
                };
                Self::Parts { open: '{', close: '}', parts: all.0.iter().map(part).collect() }
            }
            Some('[') => {
                let all: Vec<Box<RawValue>> = serde_json::from_str(text).unwrap();
                let parts = all.iter().map(|it| nameless(it)).collect();
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

    /// `before` is how many characters stand before it on its line, and a comma behind it.
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

/// Plain values, as many on a line as it holds.
fn fill_lines(inner: &str, parts: &[(String, Layout)]) -> String {
    let (mut lines, mut line) = (Vec::new(), inner.to_owned());
    for (at, (_, part)) in parts.iter().enumerate() {
        let comma = if at + 1 < parts.len() { "," } else { "" };
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

/// `SCRIP_TEST_GOLDEN=write` lays the file out. Names that stand twice in one object fail here, too.
#[test]
fn source_file_has_the_standard_layout() {
    let expected = format!("{}\n", Layout::read(SOURCE.trim()).write(0, 0));
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/openapi/openapi.json");
        std::fs::write(file, expected).unwrap();
        return;
    }
    for (kept, expected) in SOURCE.lines().zip(expected.lines()) {
        assert_eq!(kept, expected, "SCRIP_TEST_GOLDEN=write lays the file out");
    }
    assert!(SOURCE == expected, "SCRIP_TEST_GOLDEN=write lays the file out");
}

#[test]
#[should_panic(expected = "type stands twice")]
fn duplicate_attribute_is_rejected() {
    Layout::read(r#"{"a": {"type": "string", "type": "object"}}"#);
}

#[test]
fn document_version_is_the_program_version() {
    assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
}
