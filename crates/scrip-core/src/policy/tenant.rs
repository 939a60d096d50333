//! A tenant with its settings, quotas and policy.

pub mod client_key;
pub mod quota;
pub mod record;

pub use self::record::{DeduplicationBehavior, TenantRecord, TenantSettings};
