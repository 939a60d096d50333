//! A server with a store that violates one guarantee, to prove that the violation is detected.

use std::{fs, io::Write, path::Path, sync::Arc, time::Duration};

use scrip_api::{
    app::{
        App,
        proxy_egress::{CallLimits, DestinationRoots, LazyEgressClient, ProxyEgress},
    },
    limiter::Limiter,
};
use scrip_core::{
    policy::{Directory, destination::LoopbackDestinations},
    store::Store,
};
use scrip_egress::{EgressSettings, TrustedRoots};
use scrip_server::{
    clock::{SystemClock, ticks},
    config::{Environment, Settings, key_rotation::KeyRotationPace},
    listen::serve_plain,
    node::{Node, NodeSettings},
};
use scrip_store::{PostgresStore, SqliteStore, postgres::PostgresSettings};
use scrip_testing::{
    faults::{intercepted_store::InterceptedStore, store_fault::StoreFault},
    vault::new_vault,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Serves a vault with the keys of a data directory, until it is killed: the one in the directory,
/// which `scrip dev` created, or one of a PostgreSQL server.
pub(crate) fn run(fault: StoreFault, data: &Path, postgres_url: Option<&str>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("create a runtime").block_on(async {
        let store =
            InterceptedStore { engine: open_store(data, postgres_url).await, interceptor: fault };
        let vault = new_vault(Arc::new(store), Arc::new(SystemClock));
        let records = vault.store.load_directory().await.expect("load the directory");
        let data_dir = [("storage.data_dir", data.display().to_string())];
        let settings = Settings::load_with(None, &data_dir, &Environment::default());
        let source = settings.expect("the settings are valid").unlock(&records).await;
        let source = source.expect("open the vault key");
        let directory = Directory::open(records, &*source, None).expect("open the directory");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("the listener has an address"));
        // Only `scrip dev` writes this file.
        let keys = fs::read_to_string(data.join("dev-keys.json")).unwrap_or("{}".to_owned());
        let keys: Value = serde_json::from_str(&keys).expect("the keys are JSON");
        let ready_message = json!({ "url": url, "keys": keys["keys"] });
        writeln!(std::io::stdout(), "{ready_message}").expect("write the ready message");
        let mut app = App::new(vault, directory, source, ticks);
        app.limiter = Limiter::disabled();
        // Like the development server, so that a destination or a receiver can be on this machine.
        app.settings.loopback_destinations = LoopbackDestinations::Allowed;
        let mut egress = EgressSettings::new(TrustedRoots::none());
        egress.loopback_http = true;
        app.egress.webhooks = LazyEgressClient::new(egress.clone(), DestinationRoots::Given);
        let limits = CallLimits::default();
        app.egress.proxied_calls = ProxyEgress::new(egress, DestinationRoots::Given, limits);
        let second = Duration::from_secs(1);
        let key_rotation = KeyRotationPace {
            promote_after: second,
            destroy_after: second,
            ..KeyRotationPace::default()
        };
        let settings = NodeSettings { key_rotation, ..NodeSettings::default() };
        let node = Node::new(Arc::new(app), settings);
        serve_plain(Arc::new(node), listener, std::future::pending()).await;
    });
}

async fn open_store(data: &Path, postgres_url: Option<&str>) -> Arc<dyn Store> {
    let Some(url) = postgres_url else {
        return Arc::new(SqliteStore::open(&data.join("scrip.db")).expect("open the store"));
    };
    let settings = PostgresSettings::parse(url).expect("the address is valid");
    Arc::new(PostgresStore::open(settings).await.expect("open the store"))
}
