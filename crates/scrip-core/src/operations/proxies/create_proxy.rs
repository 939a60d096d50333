//! Create Proxy, with a new key.

use scrip_seal::{Pepper, Sealed};

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    operations::proxies::update_proxy::{check_application, check_application_update},
    policy::{
        PolicyPermit, PolicyWrite,
        proxy::{
            CompiledDraft, ProxyDetails, ProxyKeyText, ProxyRecord, ProxySecrets, ProxySettings,
        },
    },
    policy_change::{PolicyDecision, change_policy},
    types::{
        Operation,
        id::{ProxyId, random_uuid},
    },
};

pub const PROXIES_MAX: usize = 1000;

/// Errors: the request is invalid, the tenant has too many proxies, or the draft names an
/// application and the caller may not update applications.
pub async fn create_proxy(
    vault: &Vault,
    permit: PolicyPermit,
    pepper: &Pepper,
    draft: CompiledDraft,
    recorder: Option<ResponseRecorder<ProxyDetails>>,
) -> Result<ProxyDetails, Error> {
    let now = vault.clock.now();
    let mut details = new_details(vault, &permit, pepper, draft);
    let signed_row = details.seal(&permit.tenant().keys)?;
    let change_permit = permit.clone();
    change_policy(vault, permit, Operation::CreateProxy, now, recorder, move |records| {
        if records.proxies.len() >= PROXIES_MAX {
            let reason = "a tenant can have at most 1000 proxies; delete one";
            return Err(Error::Unprocessable { reason });
        }
        // The proxy lends the rights of its application, so its creator must be able to grant them.
        if details.record.application.is_some() {
            check_application_update(&change_permit, records)?;
        }
        check_application(records, details.record.application)?;
        let others = records.proxies.iter().map(|it| &it.record);
        details.settings.check_compiled_bytes(&change_permit.tenant().keys, others)?;
        let entity = details.record.id.to_string();
        let writes = vec![PolicyWrite::put(signed_row.clone())];
        Ok(PolicyDecision { writes, entity, outcome: details.clone() })
    })
    .await
}

fn new_details(
    vault: &Vault,
    permit: &PolicyPermit,
    pepper: &Pepper,
    draft: CompiledDraft,
) -> ProxyDetails {
    let pattern_bytes = draft.pattern_bytes();
    let draft = draft.into_draft();
    let key = ProxyKeyText::new(vault.fill_random);
    let unsealed = || Sealed::from_stored(Vec::new());
    let record = ProxyRecord {
        id: ProxyId(random_uuid(vault.fill_random)),
        tenant: permit.tenant().id,
        digest: pepper.proxy_key_digest(key.expose()),
        name: draft.name,
        application: draft.application,
        require_auth: draft.require_auth,
        disable_detokenization: draft.disable_detokenization,
        host: None,
        settings: unsealed(),
        secrets: unsealed(),
        created: permit.change_stamp(vault.clock.now()),
        modified: None,
    };
    let settings = ProxySettings {
        destination: draft.destination,
        request_transforms: draft.request_transforms,
        response_transforms: draft.response_transforms,
        timeout: draft.timeout,
        authorities: draft.authorities,
        tls_min: draft.tls_min,
        certificate_pem: None,
        pattern_bytes,
    };
    let secrets = ProxySecrets { key, configuration: draft.configuration, private_key_pem: None };
    ProxyDetails { record, settings, secrets }
}
