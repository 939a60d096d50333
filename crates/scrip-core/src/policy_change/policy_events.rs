//! The events of a policy change, from its writes and the rows before it.
//!
//! This is the only place that raises them, so an operation that writes a row need not know its
//! event. A webhook and a client encryption key have no events of their own.

use crate::{
    Error,
    events::{EventData, EventSource, NewDelivery, payload},
    policy::{
        ApiKeyRecord, ApplicationRecord, EntityId, EntityRow, PolicyRecords, PolicyWrite,
        SignedRow, TenantRecord,
        proxy::{ProxyRecord, ProxySettings},
    },
    types::{
        EventType,
        id::{ApiKeyId, ApplicationId},
    },
};

/// The deliveries of the events of `writes`. `before` has the rows before them.
///
/// The webhooks are those of `before`, which were loaded for the change, and not those of the tenant
/// in memory. The rows are at hand, so this costs nothing, and an event is not lost because another
/// node created its webhook a moment ago. A change that creates, enables, disables or deletes a
/// webhook writes no other row, so the webhooks before and after it get the same events.
/// Errors: the settings of a proxy cannot be opened.
pub(super) fn raise_policy_events(
    source: &EventSource<'_>,
    before: &PolicyRecords,
    writes: &[PolicyWrite],
) -> Result<Vec<NewDelivery>, Error> {
    if before.webhooks.is_empty() {
        return Ok(Vec::new());
    }
    let mut events = PolicyEvents { source, before, deliveries: Vec::new() };
    for write in writes {
        events.add_write(write)?;
    }
    Ok(events.deliveries)
}

struct PolicyEvents<'a> {
    source: &'a EventSource<'a>,
    before: &'a PolicyRecords,
    deliveries: Vec<NewDelivery>,
}

impl PolicyEvents<'_> {
    fn add_write(&mut self, write: &PolicyWrite) -> Result<(), Error> {
        match write {
            PolicyWrite::Put(EntityRow::Tenant(row)) => self.add_tenant(&row.record),
            PolicyWrite::Put(EntityRow::Application(row)) => self.add_application(&row.record),
            PolicyWrite::Put(EntityRow::ApiKey(row)) => self.add_api_key(&row.record),
            PolicyWrite::Put(EntityRow::Proxy(row)) => self.add_proxy(&row.record),
            PolicyWrite::Remove(EntityId::Application(id)) => self.add_removed_application(*id),
            PolicyWrite::Remove(EntityId::ApiKey(id)) => self.add_removed_api_key(*id),
            PolicyWrite::Remove(EntityId::Proxy(id)) => self
                .raise(EventType::ProxyDeleted, || Ok(payload::proxy::describe_deleted_proxy(*id))),
            PolicyWrite::Put(EntityRow::Webhook(_) | EntityRow::ClientKey(_))
            | PolicyWrite::Remove(EntityId::Webhook(_) | EntityId::ClientKey(_)) => Ok(()),
        }
    }

    /// The deletion of a tenant is the start of its grace period. After that period, its keys are
    /// destroyed, and no event of it could be read. Every other change, also of quotas and the end
    /// of a deletion by the operator, is an update.
    fn add_tenant(&mut self, record: &TenantRecord) -> Result<(), Error> {
        let before = &self.before.tenant.record;
        if before.deletes_at.is_none() && record.deletes_at.is_some() {
            return self.raise(EventType::TenantDeleted, || {
                Ok(payload::tenant::describe_deleted_tenant(record.id))
            });
        }
        self.raise(EventType::TenantUpdated, || Ok(payload::tenant::describe_tenant(record)))
    }

    fn add_application(&mut self, record: &ApplicationRecord) -> Result<(), Error> {
        let exists = self.before.applications.iter().any(|it| it.record.id == record.id);
        let (created, updated) = (EventType::ApplicationCreated, EventType::ApplicationUpdated);
        self.raise(if exists { updated } else { created }, || {
            Ok(payload::application::describe_application(record))
        })
    }

    /// An API key is never changed.
    fn add_api_key(&mut self, record: &ApiKeyRecord) -> Result<(), Error> {
        self.raise(EventType::ApplicationKeyCreated, || {
            Ok(payload::application::describe_api_key(record))
        })
    }

    fn add_proxy(&mut self, record: &ProxyRecord) -> Result<(), Error> {
        let exists = self.before.proxies.iter().any(|it| it.record.id == record.id);
        let keys = &self.source.tenant.keys;
        let (event_type, describe): (_, fn(&ProxyRecord, &ProxySettings) -> EventData) =
            match exists {
                true => (EventType::ProxyUpdated, payload::proxy::describe_updated_proxy),
                false => (EventType::ProxyCreated, payload::proxy::describe_created_proxy),
            };
        self.raise(event_type, || Ok(describe(record, &ProxySettings::open(keys, record)?)))
    }

    /// The keys of a deleted application are deleted with it.
    fn add_removed_application(&mut self, id: ApplicationId) -> Result<(), Error> {
        let is_removed = |it: &&SignedRow<ApiKeyRecord>| it.record.application == id;
        for api_key in self.before.api_keys.iter().filter(is_removed) {
            self.add_removed_api_key(api_key.record.id)?;
        }
        self.raise(EventType::ApplicationDeleted, || {
            Ok(payload::application::describe_deleted_application(id))
        })
    }

    fn add_removed_api_key(&mut self, id: ApiKeyId) -> Result<(), Error> {
        let api_key = self.before.api_keys.iter().find(|it| it.record.id == id);
        let Some(application) = api_key.map(|it| it.record.application) else { return Ok(()) };
        self.raise(EventType::ApplicationKeyDeleted, || {
            Ok(payload::application::describe_deleted_api_key(id, application))
        })
    }

    fn raise(
        &mut self,
        event_type: EventType,
        describe: impl FnOnce() -> Result<EventData, Error>,
    ) -> Result<(), Error> {
        let webhooks = &self.before.webhooks;
        self.deliveries.extend(self.source.raise_for(webhooks, event_type, describe)?);
        Ok(())
    }
}
