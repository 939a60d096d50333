//! The list of policy entities.
//!
//! A new entity is one line of [`for_each_policy_entity`]. The rows of a policy and what engines do
//! with them follow from the line and from the description of the entity.

/// Calls a macro with every entity of a policy besides the tenant: the attribute of
/// [`PolicyRecords`](crate::policy::PolicyRecords) with its rows, the variant of
/// [`EntityRow`](crate::policy::EntityRow), the record and its id. A row comes after those that it
/// refers to.
macro_rules! for_each_policy_entity {
    ($define:ident) => {
        $define! {
            applications: Application, $crate::policy::ApplicationRecord, $crate::types::id::ApplicationId;
            api_keys: ApiKey, $crate::policy::ApiKeyRecord, $crate::types::id::ApiKeyId;
            proxies: Proxy, $crate::policy::proxy::ProxyRecord, $crate::types::id::ProxyId;
            webhooks: Webhook, $crate::policy::webhook::WebhookRecord, $crate::types::id::WebhookId;
            client_keys: ClientKey, $crate::policy::ClientKeyRecord, $crate::types::id::ClientKeyId;
        }
    };
}
pub(super) use for_each_policy_entity;
