//! Operations on access sessions.

pub mod authorize_access_session;
pub mod create_access_session;
pub mod list_access_sessions;
pub mod resume_access_session;
pub mod revoke_access_session;
