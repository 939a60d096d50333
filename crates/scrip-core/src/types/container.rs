//! Containers: paths that group tokens, such as `/pci/high/`.

use serde::{Deserialize, Serialize};

use crate::FieldError;

/// A path in lower case, with a slash at the start and at the end. Because of the slash at the end,
/// a container that is a prefix of another container is its ancestor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Container(String);

const CONTAINER_BYTES_MAX: usize = 256;
const CONTAINERS_MAX: usize = 16;
/// The maximum number of entries in the input, including duplicates. `CONTAINERS_MAX` applies after
/// duplicates are dropped.
const ENTRIES_PARSED_MAX: usize = 64;

impl Container {
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Errors: the text is not a path of named segments between slashes.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "/" {
            return Ok(Self::root());
        }
        if text.len() > CONTAINER_BYTES_MAX {
            return Err("must have at most 256 characters");
        }
        let inner = text.strip_prefix('/').and_then(|it| it.strip_suffix('/'));
        let inner = inner.ok_or("must begin and end with /")?;
        // Only ASCII is allowed. Do not use `to_lowercase` before this check: it turns some
        // non-ASCII letters, such as the Kelvin sign, into ASCII.
        let is_segment = |it: &str| {
            !it.is_empty()
                && it.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if !inner.split('/').all(is_segment) {
            return Err("must have segments of letters, digits, - and _");
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// Whether a grant on this container covers the other container.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Container {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

/// The containers of a token. The list is never empty: access rules match containers, so no rule
/// could allow access to a token without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containers(Vec<Container>);

impl Containers {
    /// Drops duplicates and preserves the order, because lists show a token under its first
    /// container.
    /// Errors: there is no container, there are too many, or one is invalid.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, Vec<FieldError>> {
        let mut containers = Vec::new();
        let mut errors = Vec::new();
        for (index, text) in texts.into_iter().enumerate() {
            if index >= ENTRIES_PARSED_MAX {
                return Err(vec![FieldError::new("containers", "must have 1 to 16 entries")]);
            }
            match Container::parse(text) {
                Ok(container) if containers.contains(&container) => (),
                Ok(container) => containers.push(container),
                Err(problem) => {
                    errors.push(FieldError::new(format!("containers[{index}]"), problem))
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if containers.is_empty() || containers.len() > CONTAINERS_MAX {
            return Err(vec![FieldError::new("containers", "must have 1 to 16 entries")]);
        }
        Ok(Self(containers))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Container> {
        self.0.iter()
    }

    /// The containers in sorted order, as text. Two sets are equal if their texts are equal.
    pub(crate) fn sorted_text(&self) -> String {
        let mut sorted: Vec<_> = self.iter().map(Container::as_str).collect();
        sorted.sort_unstable();
        sorted.join(",")
    }

    /// The stored text. [`Containers::parse`] on the parts between commas is the inverse.
    pub fn to_text(&self) -> String {
        self.iter().map(Container::as_str).collect::<Vec<_>>().join(",")
    }
}

impl From<Container> for Containers {
    fn from(container: Container) -> Self {
        Self(vec![container])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(outer: &str, inner: &str, expected: bool) {
        let outer = Container::parse(outer).unwrap();
        let inner = Container::parse(inner).unwrap();
        assert_eq!(outer.covers(&inner), expected, "{outer:?} covers {inner:?}");
    }

    #[test]
    fn container_covers_itself_and_descendants_only() {
        check("/", "/pci/high/", true);
        check("/pci/", "/pci/high/", true);
        check("/pci/high/", "/pci/high/", true);
        check("/pci/high/", "/pci/highlands/", false);
        check("/pci/", "/pci-other/", false);
        check("/pci/high/", "/pci/", false);
        check("/PCI/", "/pci/High/", true);
    }

    #[test]
    fn malformed_container_is_rejected() {
        let texts =
            ["", "pci", "/pci", "pci/", "//", "/a//b/", "/a b/", "/ä/", "/\u{212a}/", "/a,b/"];
        for text in texts {
            assert!(Container::parse(text).is_err(), "{text:?} is accepted");
        }
    }

    #[test]
    fn containers_are_deduplicated_and_keep_their_order() {
        let containers = Containers::parse(["/b/", "/a/", "/B/"]).unwrap();
        assert_eq!(containers.to_text(), "/b/,/a/");
        assert_eq!(containers.sorted_text(), "/a/,/b/");
        assert!(Containers::parse([]).is_err());
        assert_eq!(Containers::parse(["/a/", "b"]).unwrap_err()[0].field, "containers[1]");
    }

    /// Reference implementation: compares segment by segment.
    fn covers_by_segment(outer: &[String], inner: &[String]) -> bool {
        outer.len() <= inner.len() && outer.iter().zip(inner).all(|(a, b)| a == b)
    }

    fn path() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[ab]{1,2}", 0..4)
    }

    fn container(segments: &[String]) -> Container {
        let text: String = segments.iter().map(|it| format!("{it}/")).collect();
        Container::parse(&format!("/{text}")).unwrap()
    }

    proptest! {
        #[test]
        fn container_coverage_agrees_with_reference(outer in path(), inner in path()) {
            let expected = covers_by_segment(&outer, &inner);
            prop_assert_eq!(container(&outer).covers(&container(&inner)), expected);
        }

        #[test]
        fn parsing_any_container_text_never_panics(text: String) {
            drop(Container::parse(&text));
        }
    }
}
