//! Basic values that every other module uses: ids, times, errors, permissions, and the names of
//! operations and events. Nothing here depends on the rest of the crate.

mod application_kind;
pub mod attribute_path;
pub mod container;
pub mod container_range;
mod disclosure_rules;
pub mod error;
pub mod event_type;
pub mod field_error;
pub mod id;
pub mod metrics;
pub mod missing_feature;
mod operation;
pub mod permission;
pub mod plaintext;
mod service_failure;
pub mod store_error;
pub mod tenant_kind;
pub mod time;
mod yield_now;

pub use self::{
    application_kind::ApplicationKind,
    attribute_path::AttributePath,
    container::{Container, Containers},
    container_range::{ContainerRange, ContainerRanges},
    disclosure_rules::{DisclosureRule, DisclosureRules},
    event_type::EventType,
    field_error::FieldError,
    missing_feature::MissingFeature,
    operation::{EntityType, Operation},
    permission::{Permission, Permissions, Transform},
    plaintext::Plaintext,
    service_failure::{FailureReason, ServiceFailure},
    store_error::{StoreError, StoreFuture},
    tenant_kind::TenantKind,
};

pub(crate) use self::{store_error::IN_FLIGHT, yield_now::yield_now};
