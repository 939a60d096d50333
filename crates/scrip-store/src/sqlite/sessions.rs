//! Access sessions and 3-D Secure sessions.

mod access_sessions;
pub(crate) mod threeds;
