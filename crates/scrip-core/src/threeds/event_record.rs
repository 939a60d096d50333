//! Stored 3DS events.

use std::time::Duration;

use scrip_seal::{Place, Purpose, Sealed};
use scrip_threeds::webhook::WebhookEvent;
use uuid::Uuid;

use crate::{error::Error, id::TenantId, policy::Tenant, time::Timestamp};

/// Older events are not delivered.
pub const THREEDS_EVENT_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The stored row of an event, in the order of delivery. The body is the event in its delivered
/// form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreeDsEventRecord {
    pub tenant: TenantId,
    pub id: Uuid,
    pub at: Timestamp,
    pub body: Sealed,
}

impl ThreeDsEventRecord {
    /// Decrypts the event to deliver.
    ///
    /// # Errors
    /// The row was altered or moved.
    pub fn open(&self, tenant: &Tenant) -> Result<WebhookEvent, Error> {
        let place = event_place(self.tenant, self.id, self.at);
        let secret = tenant.keys.open(Purpose::Data, &place, &self.body)?;
        let to_internal_error = |_| Error::Internal("a 3DS event cannot be parsed".into());
        serde_json::from_slice(secret.expose()).map_err(to_internal_error)
    }
}

pub(super) fn event_place(tenant: TenantId, id: Uuid, at: Timestamp) -> Place {
    Place::new("session.event").bytes(tenant.0.as_bytes()).bytes(id.as_bytes()).number(at.unix_ms)
}
