//! Where a sealed value is stored; authenticated with the value.

use crate::FORMAT_VERSION;

/// The associated data of a ciphertext. A ciphertext that is copied to another tenant, row,
/// container or expiry does not open there.
///
/// Each part is prefixed with its length. With separators, ("a:b", "c") and ("a", "b:c") would be
/// the same place.
#[derive(Debug, Clone)]
pub struct Place(Vec<u8>);

impl Place {
    /// `kind` names the kind of row and column, such as `token.body`.
    pub fn new(kind: &'static str) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.push(FORMAT_VERSION);
        Self(bytes).text(kind)
    }

    #[must_use]
    pub fn text(self, part: &str) -> Self {
        self.bytes(part.as_bytes())
    }

    #[must_use]
    pub fn number(self, part: i64) -> Self {
        self.bytes(&part.to_be_bytes())
    }

    /// An absent part differs from every present part: its length prefix is a value that no present
    /// part has.
    #[must_use]
    pub fn optional_bytes(mut self, part: Option<&[u8]>) -> Self {
        match part {
            Some(part) => self.bytes(part),
            None => {
                self.0.extend_from_slice(&u64::MAX.to_be_bytes());
                self
            }
        }
    }

    #[must_use]
    pub fn optional_number(self, part: Option<i64>) -> Self {
        self.optional_bytes(part.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice))
    }

    #[must_use]
    pub fn bytes(mut self, part: &[u8]) -> Self {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(part);
        self
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_parts_are_length_prefixed() {
        let first = Place::new("data").text("a:b").text("c");
        let second = Place::new("data").text("a").text("b:c");
        assert_ne!(first.as_bytes(), second.as_bytes());
    }

    #[test]
    fn absent_place_part_differs_from_empty_and_zero() {
        let absent = Place::new("data").optional_bytes(None);
        let empty = Place::new("data").optional_bytes(Some(b""));
        let zero = Place::new("data").optional_number(Some(0));
        assert_ne!(absent.as_bytes(), empty.as_bytes());
        assert_ne!(absent.as_bytes(), zero.as_bytes());
    }
}
