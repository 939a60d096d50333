//! Events as the store keeps them.

use std::time::Duration;

use scrip_seal::{Place, Purpose, Sealed};
use scrip_threeds::webhook::WebhookEvent;
use uuid::Uuid;

use crate::{error::Error, id::TenantId, policy::Tenant, time::Timestamp};

/// Nobody is told of what is older.
pub const THREEDS_EVENT_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An event's row, in the order of which it is delivered. Its body is the event as it goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreeDsEventRecord {
    pub tenant: TenantId,
    pub id: Uuid,
    pub at: Timestamp,
    pub body: Sealed,
}

impl ThreeDsEventRecord {
    /// What is to be delivered.
    ///
    /// # Errors
    /// It was altered, or belongs elsewhere.
    pub fn open(&self, tenant: &Tenant) -> Result<WebhookEvent, Error> {
        let place = event_place(self.tenant, self.id, self.at);
        let secret = tenant.keys.open(Purpose::Data, &place, &self.body)?;
        let not_ours = |_| Error::Internal("an event is not one of ours".into());
        serde_json::from_slice(secret.expose()).map_err(not_ours)
    }
}

pub(super) fn event_place(tenant: TenantId, id: Uuid, at: Timestamp) -> Place {
    Place::new("session.event").bytes(tenant.0.as_bytes()).bytes(id.as_bytes()).number(at.unix_ms)
}
