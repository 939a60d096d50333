//! The label of a share: of which vault and of which split it is.

use std::fmt;

use crate::{Checksum, random::random_bytes, shares::base32};

const PART_CHARS: usize = 4;
const PART_BYTES: usize = 3;

/// Names the vault and the set of a share, so that a share of another vault or of an earlier split
/// is rejected at once. It is not secret, and proves nothing: 20 bits each can be equal by chance.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShareLabel {
    pub(super) vault: [u8; PART_CHARS],
    pub(super) set: [u8; PART_CHARS],
}

impl ShareLabel {
    /// The label of a new set of shares: a short form of the id of the vault, and random
    /// characters for the set.
    pub fn create(vault_id: &str) -> Self {
        let mut digest = Checksum::new();
        digest.add(b"scrip share vault");
        digest.add(vault_id.as_bytes());
        Self { vault: part(&digest.finish()), set: part(&random_bytes::<PART_BYTES>()) }
    }

    /// Parses the form that `Display` writes. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (vault, set) = text.split_once('-')?;
        let label = Self::from_parts(vault.as_bytes(), set.as_bytes())?;
        (label.to_string() == text).then_some(label)
    }

    /// Accepts every spelling of both parts.
    pub(super) fn from_parts(vault: &[u8], set: &[u8]) -> Option<Self> {
        Some(Self { vault: canonical_part(vault)?, set: canonical_part(set)? })
    }
}

/// The first 20 bits as characters.
fn part(bytes: &[u8]) -> [u8; PART_CHARS] {
    base32::encode(bytes).first_chunk().copied().unwrap_or_default()
}

fn canonical_part(symbols: &[u8]) -> Option<[u8; PART_CHARS]> {
    let symbols: &[u8; PART_CHARS] = symbols.try_into().ok()?;
    // Four symbols are 20 bits. A fifth one completes three bytes.
    let [first, second, third, fourth] = *symbols;
    let bytes = base32::decode(&[first, second, third, fourth, b'0'])?;
    Some(part(&bytes))
}

impl fmt::Display for ShareLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (separator, part) in [("", &self.vault), ("-", &self.set)] {
            f.write_str(separator)?;
            for symbol in part {
                write!(f, "{}", char::from(*symbol))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ShareLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShareLabel({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_one_vault_differ_in_the_set_only() {
        let (first, second) = (ShareLabel::create("vault 1"), ShareLabel::create("vault 1"));
        let other_vault = ShareLabel::create("vault 2");
        assert_eq!(first.vault, second.vault);
        assert_ne!(first.vault, other_vault.vault);
        // 1,000 sets of 20 bits: all are equal with a probability far below 10⁻⁹.
        assert!((0..1000).any(|_| ShareLabel::create("vault 1").set != first.set));
    }

    #[test]
    fn displayed_label_is_parsed_and_other_texts_are_rejected() {
        let label = ShareLabel::create("vault 1");
        assert_eq!(ShareLabel::parse(&label.to_string()), Some(label));
        assert_eq!(ShareLabel::parse("0123-abcd").unwrap().to_string(), "0123-abcd");
        for text in
            ["", "-", "0123", "0123-abc", "0123-abcde", "0123-abcu", "0123-ABCD", "o123-abcd"]
        {
            assert_eq!(ShareLabel::parse(text), None, "{text}");
        }
    }
}
