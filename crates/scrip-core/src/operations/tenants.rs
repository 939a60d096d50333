//! Operations on tenants.

pub mod create_tenant;
pub mod delete_tenant;
pub mod get_tenant;
pub mod get_tenant_usage;
pub mod purge_tenants;
pub mod recorded_deletion;
pub mod restore_policy;
pub mod restore_tenant;
pub mod update_tenant;
