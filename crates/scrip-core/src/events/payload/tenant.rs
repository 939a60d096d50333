//! The data of events of tenants, and of test events of webhooks.

use crate::{
    events::{EventData, payload::PayloadAttributes},
    policy::{TenantRecord, webhook::WebhookRecord},
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

/// `webhook.test`: a client tests its receiver.
pub(crate) fn describe_test(record: &WebhookRecord) -> EventData {
    let webhook = PayloadAttributes::with_id(record.id).text("name", record.name.as_str());
    EventData::new("webhook", webhook)
}

#[cfg(test)]
mod tests {
    use scrip_seal::Sealed;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::{
        Timestamp,
        policy::{
            ChangeStamp, DisplayName,
            webhook::{EventList, WebhookStatus},
        },
        types::id::{TenantId, WebhookId},
    };

    #[test]
    fn test_event_has_id_and_name_of_its_webhook_only() {
        let record = WebhookRecord {
            id: WebhookId(Uuid::from_u128(5)),
            tenant: TenantId(Uuid::from_u128(1)),
            name: DisplayName::parse("Orders").unwrap(),
            status: WebhookStatus::Enabled,
            events: EventList::parse(&["token.created".to_owned()]).unwrap(),
            settings: Sealed::from_stored(b"url".to_vec()),
            secrets: Sealed::from_stored(b"secret".to_vec()),
            created: ChangeStamp { by: None, at: Timestamp { unix_ms: 0 } },
            modified: None,
        };
        let data = Value::Object(describe_test(&record).into_attributes());
        let id = record.id.to_string();
        assert_eq!(data, json!({"webhook": {"id": id, "name": "Orders"}}));
    }
}
