//! Operations on 3-D Secure sessions.

pub mod authenticate_session;
pub mod create_session;
pub mod expire_session;
pub mod get_challenge_result;
pub mod get_session;
pub mod notify_challenge;
pub mod notify_method;
pub mod receive_result;
pub mod update_session;
