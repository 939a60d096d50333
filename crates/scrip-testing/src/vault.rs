//! A vault and its applications, built from parts that a test chooses.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Vault,
    id::ApplicationId,
    operations::applications::create_application::{CreateKey, NewApplication, create_application},
    policy::{AccessPolicy, ApplicationKind, DisplayName, PolicyPermit},
    store::Store,
    threeds::NoDirectoryServers,
    time::Clock,
    token::disclosure::DisclosureRules,
};
use scrip_seal::{EpochKeys, Pepper, RootKey, fill_random};

const ROOT_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The root key of every vault in tests.
#[must_use]
pub fn root_key() -> RootKey {
    RootKey::from_text(ROOT_KEY).unwrap()
}

/// A vault as a server opens it, without directory servers.
#[must_use]
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
    let new_application = NewApplication { name, kind, access, create_key: CreateKey::Yes };
    let outcome = create_application(vault, permit, pepper, new_application, None).await.unwrap();
    let key = outcome.api_key.unwrap().expose().to_owned();
    CreatedKey { application: outcome.application.record.id, key }
}
