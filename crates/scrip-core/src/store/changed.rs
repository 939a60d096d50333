//! What became of a change.

/// What became of a change to something that may have changed or gone meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Done,
    Stale,
}
