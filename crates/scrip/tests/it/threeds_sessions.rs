//! 3-D Secure sessions.

mod authenticate_threeds_session;
mod create_threeds_session;
mod directory_servers;
mod get_challenge_result;
mod get_threeds_session;
mod notify_challenge;
mod notify_method;
mod receive_result;
pub(crate) mod requests;
pub(crate) mod scripted_servers;
mod session_containers;
mod session_number_writes;
mod session_numbers;
mod session_rules;
mod update_threeds_session;
