//! Operations on 3-D Secure sessions.

pub mod authenticate_threeds_session;
pub mod create_threeds_session;
pub mod expire_threeds_session;
pub mod get_challenge_result;
pub mod get_threeds_session;
pub mod notify_challenge;
pub mod notify_method;
pub mod receive_result;
pub mod update_threeds_session;
