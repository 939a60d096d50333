//! The policy of a tenant: its applications, API keys, access rules, proxies, webhooks and
//! client encryption keys.
//!
//! Policy rows are stored in clear, because lookups need them. Each row therefore has a MAC, and
//! all rows of a tenant together have a seal: a MAC with a counter. The vault checks both before it
//! uses a policy, so it detects rows that were altered, added, removed or rolled back outside of
//! the vault.

pub mod access;
pub mod access_session;
pub mod application;
pub mod caller;
pub mod destination;
pub mod directory;
mod display_name;
mod entities;
pub mod entity;
mod entity_list;
mod field_kinds;
pub mod loaded_proxy;
mod loaded_tenant;
mod policy_records;
pub mod principal;
pub mod proxy;
pub mod rate_limit;
pub mod signed_row;
pub mod stored_rows;
pub mod tenant;
pub mod webhook;

pub use self::{
    access::{AccessCondition, AccessPolicy, AccessRule, AccessScope, AccessTarget},
    access_session::{AccessSessionId, AccessSessionRecord},
    application::{ApiKeyRecord, ApiKeyText, Application, ApplicationRecord},
    caller::{
        Actor, Caller, CallerRequirement, DestinationChoice, LookupPermit, Permit, PolicyPermit,
        RequestOrigin, TenantDeletion, UseRight,
    },
    directory::{
        ApiKeyLookup, Directory, DirectoryRecords, EMPTY_VAULT, REPLACED_KEYS, SystemKeys,
    },
    display_name::DisplayName,
    entities::ENTITIES,
    field_kinds::FieldKinds,
    loaded_proxy::{Proxy, ProxyLookup, ProxyProgram},
    loaded_tenant::Tenant,
    policy_records::{PolicyAlteration, PolicyRecords, PolicySeal, PolicyWrite},
    principal::Principal,
    signed_row::{ChangeStamp, PolicyRow, SignedRow},
    stored_rows::{EntityId, EntityRow, POLICY_ENTITIES, PolicyEntity, StoredRow},
    tenant::{
        client_key::{CLIENT_KEY_LIFETIME_MAX, CLIENT_KEYS_MAX, ClientKeyRecord},
        quota::Quotas,
        record::{DeduplicationBehavior, TenantRecord, TenantSettings},
    },
};

pub(crate) use self::caller::has_reveal_right;
