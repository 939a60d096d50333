//! One file per operation, named after it.

pub mod claim_answer;
pub mod create_application;
pub mod create_tenant;
pub mod create_token;
pub mod delete_token;
pub mod get_token;
pub mod update_token;
