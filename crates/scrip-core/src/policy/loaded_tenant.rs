//! A tenant with its keys and its checked policy, as requests use it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use scrip_seal::{AuditKey, TenantKeys};

use crate::{
    Timestamp,
    policy::{
        Application, ApplicationRecord, ChangeStamp, ClientKeyRecord, DisplayName, PolicyRecords,
        PolicySeal, Quotas, TenantRecord, TenantSettings,
        proxy::ProxyRecord,
        webhook::{EventTypes, WebhookRecord, WebhookStatus},
    },
    types::{
        EventType, TenantKind,
        id::{ApplicationId, ClientKeyId, ProxyId, TenantId, WebhookId},
    },
};

/// A loaded tenant with its policy, shared by all of its callers. It is immutable: after a change,
/// a new one replaces it.
#[derive(Debug)]
pub struct Tenant {
    pub id: TenantId,
    pub name: DisplayName,
    pub kind: TenantKind,
    pub settings: TenantSettings,
    pub quotas: Quotas,
    pub created: ChangeStamp,
    pub modified: Option<ChangeStamp>,
    /// When the keys of a deleted tenant are destroyed.
    pub deletes_at: Option<Timestamp>,
    pub keys: Arc<TenantKeys>,
    /// The audit key of the vault, for the audit records of the callers.
    pub audit_key: Arc<AuditKey>,
    pub applications: BTreeMap<ApplicationId, Application>,
    pub proxies: BTreeMap<ProxyId, Arc<ProxyRecord>>,
    pub webhooks: BTreeMap<WebhookId, Arc<WebhookRecord>>,
    pub client_keys: BTreeMap<ClientKeyId, Arc<ClientKeyRecord>>,
    /// The events that some enabled webhook wants.
    pub subscribed_events: EventTypes,
    /// The seal of the policy that was loaded.
    pub seal: PolicySeal,
}

impl Tenant {
    /// Builds a tenant from rows with checked MACs.
    pub fn new(keys: Arc<TenantKeys>, audit_key: Arc<AuditKey>, records: PolicyRecords) -> Self {
        let mut api_keys = HashMap::<_, Vec<_>>::new();
        for api_key in records.api_keys {
            api_keys.entry(api_key.record.application).or_default().push(api_key.record);
        }
        let mut to_application = |record: ApplicationRecord| {
            let mut api_keys = api_keys.remove(&record.id).unwrap_or_default();
            api_keys.sort_by_key(|it| (it.created.at, it.id));
            (record.id, Application { record, api_keys })
        };
        let applications = records.applications.into_iter().map(|it| to_application(it.record));
        let applications = applications.collect();
        let proxies = records.proxies.into_iter().map(|it| (it.record.id, Arc::new(it.record)));
        let proxies = proxies.collect();
        let webhooks = records.webhooks.into_iter().map(|it| (it.record.id, Arc::new(it.record)));
        let webhooks: BTreeMap<_, _> = webhooks.collect();
        let client_keys = records.client_keys.into_iter();
        let client_keys = client_keys.map(|it| (it.record.id, Arc::new(it.record))).collect();
        let subscribed_events = union_of_enabled(webhooks.values());
        let TenantRecord {
            id, name, kind, settings, quotas, created, modified, deletes_at, ..
        } = records.tenant.record;
        let seal = records.seal;
        Self {
            id,
            name,
            kind,
            settings,
            quotas,
            created,
            modified,
            deletes_at,
            keys,
            audit_key,
            applications,
            proxies,
            webhooks,
            client_keys,
            subscribed_events,
            seal,
        }
    }

    /// Whether some enabled webhook wants the event. Costs one `and`, so that writes ask for every
    /// event that they could raise.
    pub fn wants_event(&self, event: EventType) -> bool {
        self.subscribed_events.has(event)
    }
}

fn union_of_enabled<'a>(webhooks: impl Iterator<Item = &'a Arc<WebhookRecord>>) -> EventTypes {
    let enabled = webhooks.filter(|it| it.status == WebhookStatus::Enabled);
    enabled.fold(EventTypes::default(), |events, it| events.union(it.events.to_set()))
}
