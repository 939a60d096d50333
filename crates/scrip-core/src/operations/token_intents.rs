//! Operations on token intents.

pub mod create_token_intent;
pub mod delete_token_intent;
pub mod get_token_intent;
