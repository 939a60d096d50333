//! Client encryption keys.

pub mod create_client_key;
pub mod delete_client_key;
pub mod expire_client_key;
pub mod list_client_keys;
