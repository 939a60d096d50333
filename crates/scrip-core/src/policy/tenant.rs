//! A tenant with its settings, quotas and policy.

pub mod client_key;
pub mod quota;
pub mod record;
pub mod settings;

pub use self::{
    record::TenantRecord,
    settings::{DeduplicationBehavior, TenantSettings},
};
