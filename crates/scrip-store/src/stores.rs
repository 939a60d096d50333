//! Store traits whose methods are the same in both engines.

mod access_sessions;
pub(crate) mod sessions;
