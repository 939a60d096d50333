//! What all webhook measurements have in common.

/// Creates per second.
pub(super) const RATE: u32 = 500;
pub(super) const SUBSCRIBED_EVENT: &str = "token.created";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}
