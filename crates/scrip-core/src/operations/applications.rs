//! Operations on applications and their API keys.

pub mod create_api_key;
pub mod create_application;
pub mod delete_api_key;
pub mod delete_application;
pub mod list_api_keys;
pub mod list_applications;
pub mod update_application;
