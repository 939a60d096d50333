//! The bytes that a mask replaces.

/// For each byte, whether it belongs to a masked character.
pub(super) type MaskedBytes = Vec<bool>;

/// Marks a range.
pub(in crate::proxy) fn mark(masked: &mut [bool], start: usize, end: usize) {
    if let Some(range) = masked.get_mut(start..end) {
        range.fill(true);
    }
}
