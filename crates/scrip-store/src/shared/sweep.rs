//! What leaves because its time is over.

/// What ends by itself and leaves a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Token,
    TokenIntent,
    Session,
}
