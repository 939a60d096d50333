//! The events of expiries. The store finds the expired rows, and builds their events inside the
//! transaction that deletes them.

use std::sync::Arc;

use crate::{
    audit::AuditRecord,
    events::{EventSource, NewDelivery, payload},
    policy::Directory,
    types::{
        EventType,
        id::{TenantId, TokenId},
    },
};

/// The name of the CVC in `token.property.expired`.
const CVC_PROPERTY: &str = "cvc";

/// Builds the events of expired tokens and CVCs of all tenants.
#[derive(Debug, Clone)]
pub struct ExpiryEvents {
    pub directory: Arc<Directory>,
    /// Actor and time of the events.
    pub audit: AuditRecord,
    pub fill_random: fn(&mut [u8]),
}

impl ExpiryEvents {
    /// The tenants that want an event of this type.
    pub fn subscribed_tenants(&self, event_type: EventType) -> Vec<TenantId> {
        let tenants = self.directory.tenants().into_iter();
        tenants.filter(|it| it.wants_event(event_type)).map(|it| it.id).collect()
    }

    /// The deliveries of the expiry of a token.
    pub fn raise_expired_token(&self, tenant: TenantId, id: &TokenId) -> Vec<NewDelivery> {
        self.raise(tenant, EventType::TokenExpired, || payload::token::describe_deleted_token(id))
    }

    /// The deliveries of the expiry of a token's CVC.
    pub fn raise_expired_cvc(&self, tenant: TenantId, id: &TokenId) -> Vec<NewDelivery> {
        self.raise(tenant, EventType::TokenPropertyExpired, || {
            payload::token::describe_expired_property(id, CVC_PROPERTY)
        })
    }

    fn raise(
        &self,
        tenant: TenantId,
        event_type: EventType,
        describe: impl FnOnce() -> payload::EventData,
    ) -> Vec<NewDelivery> {
        match self.directory.tenant(tenant) {
            None => Vec::new(),
            Some(tenant) => {
                EventSource::new(tenant, &self.audit, self.fill_random).raise(event_type, describe)
            }
        }
    }
}
