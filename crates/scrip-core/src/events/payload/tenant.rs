//! The data of events of tenants.

use crate::{
    events::{EventData, payload::PayloadAttributes},
    policy::TenantRecord,
    types::id::TenantId,
};

/// `tenant.updated`.
pub(crate) fn describe_tenant(record: &TenantRecord) -> EventData {
    let tenant = PayloadAttributes::with_id(record.id)
        .text("name", record.name.as_str())
        .created(record.created)
        .modified(record.modified);
    EventData::new("tenant", tenant)
}

/// `tenant.deleted`: the grace period of the tenant begins.
pub(crate) fn describe_deleted_tenant(id: TenantId) -> EventData {
    EventData::new("tenant", PayloadAttributes::with_id(id))
}
