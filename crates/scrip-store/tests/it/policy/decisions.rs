//! A policy change is decided outside of the write transaction, so that slow work for one tenant
//! delays no write of another tenant.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use scrip_core::{
    operations::proxies::update_proxy::{EditProxy, ProxyPatch, patch_proxy},
    policy::{PolicyPermit, proxy::ProxyDetails},
};
use scrip_testing::{
    policy::{TOKENS, access_without_rules},
    requests::{card, create},
    vault::{create_proxy_with_host, proxy_draft},
    vault_harness::{Engine, VaultHarness},
};

/// The edit of a proxy waits until a token of another tenant is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_of_another_tenant_is_stored_during_the_decision_of_a_policy_change() {
    let harness = Arc::new(VaultHarness::open(Engine::Sqlite).await);
    let tenant = harness.default_tenant().await;
    let operator = PolicyPermit::for_operator(Arc::clone(&tenant));
    let directory = harness.directory().await;
    let draft = proxy_draft("shop", None);
    let proxy = create_proxy_with_host(
        &harness.vault,
        directory.pepper(),
        operator.clone(),
        operator.clone(),
        draft,
    );
    let id = proxy.await.record.id;
    let other_tenant = harness.default_tenant().await;
    let caller = harness.caller(&other_tenant, access_without_rules(TOKENS)).await;
    let (start_sender, start_receiver) = tokio::sync::oneshot::channel();
    let (stored_sender, stored_receiver) = mpsc::channel::<()>();
    let parts = std::sync::Mutex::new(Some((start_sender, stored_receiver)));
    let edit: EditProxy = Box::new(move |details: &ProxyDetails| {
        let (start_sender, stored_receiver) = parts.lock().unwrap().take().unwrap();
        start_sender.send(()).unwrap();
        let stored = stored_receiver.recv_timeout(Duration::from_secs(5));
        assert!(stored.is_ok(), "the decision blocks the writer");
        Ok(details.draft())
    });
    let patch = ProxyPatch { names_hidden_attributes: false, edit };
    let harness_of_change = Arc::clone(&harness);
    let change = tokio::spawn(async move {
        patch_proxy(&harness_of_change.vault, operator, id, patch, None).await.map(drop)
    });
    start_receiver.await.unwrap();
    create(&harness.vault, &caller, card("4242424242424242")).await.unwrap();
    stored_sender.send(()).unwrap();
    change.await.unwrap().unwrap();
}
