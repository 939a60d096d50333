//! A set of texts with a fast lookup.

use zeroize::Zeroizing;

/// A set of texts that are wiped when dropped. A body can repeat each of them many times.
#[derive(Default)]
pub(super) struct SortedTexts(Vec<Zeroizing<String>>);

impl SortedTexts {
    pub(super) fn contains(&self, text: &str) -> bool {
        self.find(text).is_ok()
    }

    fn find(&self, text: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|it| it.as_str().cmp(text))
    }

    /// Returns whether the set did not contain the text.
    pub(super) fn insert(&mut self, text: &str) -> bool {
        let position = self.find(text);
        if let Err(position) = position {
            self.0.insert(position, Zeroizing::new(text.to_owned()));
        }
        position.is_err()
    }
}
