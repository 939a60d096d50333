//! Webhooks.

pub mod create_webhook;
pub mod delete_webhook;
pub mod disable_webhook;
pub mod list_webhook_deliveries;
pub mod list_webhooks;
pub mod replay_webhook_deliveries;
pub mod rotate_webhook_secret;
pub mod test_webhook;
pub mod update_webhook;
