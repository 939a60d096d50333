//! The data of events of access sessions. Key and nonce are never a part.

use crate::{
    events::{
        EventData,
        payload::{PayloadAttributes, application::add_access},
    },
    policy::{AccessSessionRecord, Tenant},
};

/// `session.created`, and `session.authorized` when the session has a grant.
pub(crate) fn describe_access_session(record: &AccessSessionRecord, tenant: &Tenant) -> EventData {
    let application = tenant.applications.get(&record.application);
    let issued_to = PayloadAttributes::with_id(record.application)
        .optional_text("name", application.map(|it| it.record.name.as_str()));
    let session = PayloadAttributes::with_id(record.id)
        .text("created_at", record.created_at)
        .text("created_by", record.application)
        .text("expires_at", record.expires_at)
        .object("issued_to_application", issued_to);
    let session = match &record.grant {
        Some(grant) => add_access(session, &grant.access),
        None => session,
    };
    EventData::new("session", session)
}
