//! The data of events of applications, their API keys and access sessions. The text of a key is never
//! a part, nor is a nonce.

use serde_json::Value;

use crate::{
    events::{EventData, payload::PayloadAttributes},
    policy::{
        AccessCondition, AccessPolicy, AccessRule, AccessScope, AccessSessionRecord, ApiKeyRecord,
        ApplicationRecord, Tenant,
    },
    types::{
        Permissions,
        id::{ApiKeyId, ApplicationId},
    },
};

/// An API key is never changed, so it has one version.
const API_KEY_VERSION: u64 = 1;

/// `application.created` and `application.updated`.
pub fn describe_application(record: &ApplicationRecord) -> EventData {
    let application = PayloadAttributes::with_id(record.id)
        .text("type", record.kind.as_str())
        .text("name", record.name.as_str())
        .created(record.created)
        .modified(record.modified);
    EventData::new("application", add_access(application, &record.access))
}

/// `application.deleted`.
pub(crate) fn describe_deleted_application(id: ApplicationId) -> EventData {
    EventData::new("application", PayloadAttributes::with_id(id))
}

/// `application.key.created`.
pub(crate) fn describe_api_key(record: &ApiKeyRecord) -> EventData {
    let api_key = PayloadAttributes::with_id(record.id)
        .text("application_id", record.application)
        .number("version", API_KEY_VERSION)
        .created(record.created);
    EventData::new("application_key", api_key)
}

/// `application.key.deleted`.
pub(crate) fn describe_deleted_api_key(id: ApiKeyId, application: ApplicationId) -> EventData {
    let api_key = PayloadAttributes::with_id(id).text("application_id", application);
    EventData::new("application_key", api_key)
}

/// Adds `permissions` and `rules`.
pub(super) fn add_access(
    attributes: PayloadAttributes,
    access: &AccessPolicy,
) -> PayloadAttributes {
    let rules: Vec<Value> = access.rules.iter().map(render_rule).collect();
    attributes.value("permissions", list_permissions(access.permissions)).value("rules", rules)
}

fn list_permissions(permissions: Permissions) -> Vec<&'static str> {
    permissions.into()
}

fn render_rule(rule: &AccessRule) -> Value {
    let attributes = PayloadAttributes::default()
        .text("description", &rule.description)
        // The rules of a request reject a negative priority.
        .number("priority", u64::try_from(rule.priority).unwrap_or(0))
        .text("transform", rule.transform.as_str())
        .value("permissions", list_permissions(rule.permissions));
    let attributes = match &rule.scope {
        AccessScope::Container(container) => attributes.text("container", container.as_str()),
        AccessScope::Conditions(conditions) => {
            let conditions: Vec<Value> = conditions.iter().map(render_condition).collect();
            attributes.value("conditions", conditions)
        }
    };
    attributes.into_value()
}

fn render_condition(condition: &AccessCondition) -> Value {
    let (attribute, operator, value) = condition.parts();
    PayloadAttributes::default()
        .text("attribute", attribute)
        .text("operator", operator)
        .text("value", value)
        .into_value()
}

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
