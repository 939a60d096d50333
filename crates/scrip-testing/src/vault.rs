//! A vault and its applications, built from parts that a test chooses.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    operations::{
        applications::create_application::{CreateKey, NewApplication, create_application},
        proxies::{create_proxy::create_proxy, set_proxy_host::add_proxy_host},
    },
    policy::{
        AccessPolicy, DisplayName, PolicyPermit,
        application::origins::ApplicationOrigins,
        destination::{DestinationUrl, HostName, LoopbackDestinations},
        proxy::{ProxyConfiguration, ProxyDetails, ProxyDraft, TlsMinimum, TransformList},
        webhook::{EventList, NotifyEmail, WebhookDraft},
    },
    store::Store,
    threeds::NoDirectoryServers,
    types::{ApplicationKind, DisclosureRules, id::ApplicationId, time::Clock},
};
use scrip_seal::{EpochKeys, Pepper, RootKey, fill_random};

const ROOT_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The root key of every vault in tests.
pub fn root_key() -> RootKey {
    RootKey::from_text(ROOT_KEY).unwrap()
}

/// A vault as a server opens it, without directory servers.
pub fn new_vault(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Vault {
    Vault {
        store,
        clock,
        epoch_keys: Arc::new(EpochKeys::in_memory(Duration::from_secs(900))),
        bin_data: Arc::default(),
        audit_trail: Arc::default(),
        guess_ledger: Arc::default(),
        outcome_queue: Arc::default(),
        directory_servers: Arc::new(NoDirectoryServers::default()),
        fill_random,
        disclosure: DisclosureRules::default(),
    }
}

/// An application and its key.
#[derive(Debug)]
pub struct CreatedKey {
    pub application: ApplicationId,
    pub key: String,
}

/// Creates an application with the name of its kind.
pub async fn create_key(
    vault: &Vault,
    pepper: &Pepper,
    permit: PolicyPermit,
    kind: ApplicationKind,
    access: AccessPolicy,
) -> CreatedKey {
    let name = DisplayName::parse(kind.as_str()).unwrap();
    let new_application = NewApplication {
        name,
        kind,
        access,
        origins: ApplicationOrigins::default(),
        create_key: CreateKey::Yes,
    };
    let outcome = create_application(vault, permit, pepper, new_application, None).await.unwrap();
    let key = outcome.api_key.unwrap().expose().to_owned();
    CreatedKey { application: outcome.application.record.id, key }
}

/// A proxy with this name, a configuration and the rights of this application.
pub fn proxy_draft(name: &str, application: Option<ApplicationId>) -> ProxyDraft {
    let url = format!("https://{name}.example/v1");
    let configuration = [("secret".to_owned(), format!("secret of {name}"))].into();
    ProxyDraft {
        name: DisplayName::parse(name).unwrap(),
        destination: DestinationUrl::parse(&url, LoopbackDestinations::Rejected).unwrap(),
        request_transforms: TransformList::default(),
        response_transforms: TransformList::default(),
        application,
        configuration: Some(ProxyConfiguration::parse(configuration).unwrap()),
        require_auth: true,
        disable_detokenization: false,
        timeout: None,
        authorities: None,
        tls_min: TlsMinimum::default(),
    }
}

/// A webhook with this name and all optional attributes.
pub fn webhook_draft(name: &str) -> WebhookDraft {
    let url = format!("https://{name}.shop.example/webhooks");
    WebhookDraft {
        name: DisplayName::parse(name).unwrap(),
        url: DestinationUrl::parse(&url, LoopbackDestinations::Rejected).unwrap(),
        events: EventList::from_text("token.created,token.deleted").unwrap(),
        notify_email: Some(NotifyEmail::parse("ops@shop.example").unwrap()),
        status: None,
    }
}

/// Creates a proxy, and gives it a host with its name. The permits are those of the creator and of
/// the operator.
pub async fn create_proxy_with_host(
    vault: &Vault,
    pepper: &Pepper,
    creator: PolicyPermit,
    operator: PolicyPermit,
    draft: ProxyDraft,
) -> ProxyDetails {
    let host = HostName::parse(&format!("{}.shop.example", draft.name.as_str())).unwrap();
    let draft = draft.compile(None).unwrap();
    let created = create_proxy(vault, creator, pepper, draft, None).await.unwrap();
    add_proxy_host(vault, operator, created.record.id, host).await.unwrap()
}
