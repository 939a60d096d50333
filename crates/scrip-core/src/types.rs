//! Basic values that every other module uses: ids, times, errors, permissions, and the names of
//! operations and events. Nothing here depends on the rest of the crate.

pub mod attribute_path;
pub mod container;
pub mod container_range;
mod disclosure_rules;
pub mod error;
pub mod event_type;
pub mod id;
mod kinds;
pub mod metrics;
mod operation;
pub mod permission;
pub mod plaintext;
mod service_failure;
pub mod time;

pub use self::{
    attribute_path::AttributePath,
    container::{Container, Containers},
    container_range::{ContainerRange, ContainerRanges},
    disclosure_rules::{DisclosureRule, DisclosureRules},
    error::{StoreError, StoreFuture},
    event_type::EventType,
    kinds::{ApplicationKind, TenantKind},
    operation::{EntityType, Operation},
    permission::{MissingFeature, Permission, Permissions, Transform},
    plaintext::Plaintext,
    service_failure::{FailureReason, ServiceFailure},
};
pub use crate::types::attribute_path::FieldError;

pub(crate) use self::error::IN_FLIGHT;
