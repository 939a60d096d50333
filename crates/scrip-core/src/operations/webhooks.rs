//! Webhooks.

pub mod create_webhook;
pub mod delete_webhook;
pub mod disable_webhook;
pub mod list_webhooks;
pub mod rotate_webhook_secret;
pub mod update_webhook;
