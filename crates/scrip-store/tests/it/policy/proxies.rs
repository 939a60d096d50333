//! Stored proxies: loaded as stored, changed inside the transaction, and unique by host.

use std::sync::Arc;

use scrip_core::{
    Error,
    operations::proxies::{
        create_proxy::{PROXIES_MAX, create_proxy},
        delete_proxy::delete_proxy,
        set_proxy_client_certificate::set_proxy_client_certificate,
        set_proxy_host::{add_proxy_host, remove_proxy_host},
        update_proxy::{EditProxy, ProxyPatch, patch_proxy, update_proxy},
    },
    policy::{
        CallerRequirement, ProxyLookup, Tenant,
        destination::HostName,
        proxy::{ClientCertificate, CompiledDraft, ProxyDetails},
    },
    types::{ApplicationKind, Permission},
};
use scrip_testing::{
    policy::{access_without_rules, operator},
    vault::{create_proxy_with_host, proxy_draft},
    vault_harness::{Engine, VaultHarness},
};
use zeroize::Zeroizing;

on_every_engine! {
    VaultHarness;
    proxy_is_loaded_as_it_was_stored
    host_belongs_to_one_proxy
    proxy_change_checks_current_permissions_of_the_application
    missing_proxy_is_not_found
}

/// Creates a proxy with a host. Both have this name.
async fn create(harness: &VaultHarness, tenant: &Arc<Tenant>, name: &str) -> ProxyDetails {
    let directory = harness.directory().await;
    let (creator, draft) = (operator(tenant), proxy_draft(name, None));
    create_proxy_with_host(&harness.vault, directory.pepper(), creator, operator(tenant), draft)
        .await
}

fn compiled_draft(name: &str) -> CompiledDraft {
    proxy_draft(name, None).compile(None).unwrap()
}

fn host(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

async fn proxy_is_loaded_as_it_was_stored(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let created = create(&harness, &tenant, "shop").await;
    let (vault, id) = (&harness.vault, created.record.id);
    let check_loaded = async |expected: &ProxyDetails| {
        let directory = harness.directory().await;
        assert_eq!(directory.alterations(), []);
        let loaded = &directory.tenant(tenant.id).unwrap().proxies[&id];
        assert_eq!(**loaded, expected.record);
        let opened = ProxyDetails::open(&tenant.keys, expected.record.clone()).unwrap();
        assert_eq!(opened.settings, expected.settings);
        assert_eq!(opened.secrets.configuration, expected.secrets.configuration);
        assert_eq!(opened.secrets.key.expose(), created.secrets.key.expose());
        assert_eq!(opened.secrets.private_key_pem, expected.secrets.private_key_pem);
        let found = directory.find_proxy_by_key(created.secrets.key.expose());
        assert!(matches!(found, Some(ProxyLookup::Found(it)) if *it.record() == expected.record));
    };
    check_loaded(&created).await;
    let mut draft = proxy_draft("changed", None);
    (draft.require_auth, draft.disable_detokenization, draft.configuration) = (false, true, None);
    let draft = draft.compile(None).unwrap();
    let updated = update_proxy(vault, operator(&tenant), id, draft, None).await.unwrap();
    check_loaded(&updated).await;
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let (pem, key_pem) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
    let certificate = ClientCertificate::parse(&pem, Zeroizing::new(key_pem)).unwrap();
    let set = set_proxy_client_certificate(vault, operator(&tenant), id, certificate, None);
    check_loaded(&set.await.unwrap()).await;
    delete_proxy(vault, operator(&tenant), id).await.unwrap();
    let directory = harness.directory().await;
    assert!(directory.tenant(tenant.id).unwrap().proxies.is_empty());
    assert!(directory.find_proxy_by_key(created.secrets.key.expose()).is_none());
    assert_eq!(directory.alterations(), []);
}

async fn host_belongs_to_one_proxy(harness: VaultHarness) {
    let (first, second) = (harness.default_tenant().await, harness.default_tenant().await);
    let owner = create(&harness, &first, "owner").await;
    let (sibling, foreign) =
        (create(&harness, &first, "sibling").await, create(&harness, &second, "foreign").await);
    let vault = &harness.vault;
    for (tenant, proxy) in [(&first, &sibling), (&second, &foreign)] {
        let id = proxy.record.id;
        let taken = add_proxy_host(vault, operator(tenant), id, host("owner.shop.example")).await;
        assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
    }
    // The proxy itself may have its host again.
    let id = owner.record.id;
    add_proxy_host(vault, operator(&first), id, host("owner.shop.example")).await.unwrap();
    let other = remove_proxy_host(vault, operator(&first), id, host("other.shop.example")).await;
    assert!(matches!(other, Err(Error::NotFound)), "{other:?}");
    remove_proxy_host(vault, operator(&first), id, host("owner.shop.example")).await.unwrap();
    let id = foreign.record.id;
    add_proxy_host(vault, operator(&second), id, host("owner.shop.example")).await.unwrap();
    let directory = harness.directory().await;
    let found = directory.find_proxy_by_host("owner.shop.example");
    assert!(matches!(found, Some(ProxyLookup::Found(it)) if it.record().id == id), "{found:?}");
    assert!(directory.find_proxy_by_host("foreign.shop.example").is_none());
}

/// The permissions are those of the transaction, not those of the authentication.
async fn proxy_change_checks_current_permissions_of_the_application(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let proxy = create(&harness, &tenant, "shop").await;
    let kind = ApplicationKind::Management;
    let access = access_without_rules(&[Permission::ProxyUpdate]);
    let key = harness.create_api_key(&tenant, kind, access).await;
    let caller = harness.authenticate(&key).await;
    let update = CallerRequirement::Permission(Permission::ProxyUpdate);
    let permit = || caller.permit_policy(update).unwrap();
    let (vault, id) = (&harness.vault, proxy.record.id);
    let patch = |edit: EditProxy| ProxyPatch { names_hidden_attributes: false, edit };
    let rename = |it: &ProxyDetails| {
        Ok(scrip_core::policy::proxy::ProxyDraft {
            name: proxy_draft("renamed", None).name,
            ..it.draft()
        })
    };
    patch_proxy(vault, permit(), id, patch(Box::new(rename)), None).await.unwrap();
    let redirect = |_: &ProxyDetails| Ok(proxy_draft("attacker", None));
    let denied = patch_proxy(vault, permit(), id, patch(Box::new(redirect)), None).await;
    assert!(matches!(denied, Err(Error::Forbidden(_))), "{denied:?}");
    let directory = harness.directory().await;
    let record = &directory.tenant(tenant.id).unwrap().proxies[&id];
    let details = ProxyDetails::open(&tenant.keys, record.as_ref().clone()).unwrap();
    assert_eq!(details.settings.destination, proxy.settings.destination);
    assert_eq!(details.record.name.as_str(), "renamed");
}

async fn missing_proxy_is_not_found(harness: VaultHarness) {
    let (owner, stranger) = (harness.default_tenant().await, harness.default_tenant().await);
    let id = create(&harness, &owner, "shop").await.record.id;
    let vault = &harness.vault;
    let outcomes = [
        delete_proxy(vault, operator(&stranger), id).await,
        update_proxy(vault, operator(&stranger), id, compiled_draft("x"), None).await.map(drop),
        add_proxy_host(vault, operator(&stranger), id, host("x.example")).await.map(drop),
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
    }
}

#[tokio::test]
async fn number_of_proxies_per_tenant_is_limited() {
    let harness = VaultHarness::open(Engine::Memory).await;
    let tenant = harness.default_tenant().await;
    let directory = harness.directory().await;
    let create = async || {
        let draft = compiled_draft("shop");
        create_proxy(&harness.vault, operator(&tenant), directory.pepper(), draft, None).await
    };
    for _ in 0..PROXIES_MAX {
        create().await.unwrap();
    }
    let rejected = create().await;
    assert!(matches!(rejected, Err(Error::Unprocessable { .. })), "{rejected:?}");
}
