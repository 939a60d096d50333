//! The stored row of a proxy.

use scrip_seal::{Place, Purpose, Sealed, TenantKeys};

use crate::{
    Error,
    policy::{ChangeStamp, DisplayName, PolicyRow, SignedRow, destination::HostName},
    types::id::{ApplicationId, ProxyId, TenantId},
};

/// The stored row of a proxy: a signed row of the policy. The columns that lookups and decisions
/// need are in clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRecord {
    pub id: ProxyId,
    pub tenant: TenantId,
    /// The digest of the proxy's key. The key itself is in the sealed secrets.
    pub digest: [u8; 32],
    pub name: DisplayName,
    /// The application that lends its rights to the proxy. It may have been deleted since.
    pub application: Option<ApplicationId>,
    /// Whether a caller needs an API key besides the key of the proxy.
    pub require_auth: bool,
    pub disable_detokenization: bool,
    /// The host that selects the proxy without its key. Only the operator sets it.
    pub host: Option<HostName>,
    pub settings: Sealed,
    pub secrets: Sealed,
    pub created: ChangeStamp,
    pub modified: Option<ChangeStamp>,
}

impl ProxyRecord {
    /// Seals settings and secrets again with this version of the sealing key, and signs the row.
    /// `None` if this version sealed both.
    pub(crate) fn reseal(
        &self,
        keys: &TenantKeys,
        version: u32,
    ) -> Result<Option<SignedRow<Self>>, Error> {
        let reseal =
            |kind, sealed| keys.reseal(version, Purpose::Data, &self.sealed_place(kind), sealed);
        let settings = reseal("proxy.settings", &self.settings)?;
        let secrets = reseal("proxy.secrets", &self.secrets)?;
        if settings.is_none() && secrets.is_none() {
            return Ok(None);
        }
        let mut record = self.clone();
        record.settings = settings.unwrap_or(record.settings);
        record.secrets = secrets.unwrap_or(record.secrets);
        Ok(Some(SignedRow::new(keys, record)))
    }

    /// The associated data of a sealed column: every clear column.
    pub(super) fn sealed_place(&self, kind: &'static str) -> Place {
        let place = Place::new(kind)
            .bytes(self.id.0.as_bytes())
            .bytes(self.tenant.0.as_bytes())
            .bytes(&self.digest)
            .text(self.name.as_str())
            .optional_bytes(self.application.as_ref().map(|it| it.0.as_bytes().as_slice()))
            .number(i64::from(self.require_auth))
            .number(i64::from(self.disable_detokenization))
            .optional_bytes(self.host.as_ref().map(|it| it.as_str().as_bytes()));
        ChangeStamp::add_to_place(place, &[Some(self.created), self.modified])
    }

    /// The number of stored bytes that grow with the requests of a client.
    #[must_use]
    pub fn sealed_length(&self) -> usize {
        self.settings.as_bytes().len().saturating_add(self.secrets.as_bytes().len())
    }
}

impl PolicyRow for ProxyRecord {
    fn place(&self) -> Place {
        self.sealed_place("policy.proxy")
            .bytes(self.settings.as_bytes())
            .bytes(self.secrets.as_bytes())
    }
}
