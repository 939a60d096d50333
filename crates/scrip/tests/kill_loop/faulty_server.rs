//! A server whose store breaks one promise, to see that breaking it is noticed.

use std::{fs, io::Write, path::Path, sync::Arc};

use scrip_api::{app::App, limiter::Limiter};
use scrip_core::policy::Directory;
use scrip_seal::RootKey;
use scrip_server::{
    listen::serve_plain,
    node::{Node, NodeSettings},
    process::clock::{SystemClock, ticks},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    faults::{intercepted_store::InterceptedStore, store_fault::StoreFault},
    vault::new_vault,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Serves a data directory that `scrip dev` has made, until killed.
pub(crate) fn run(fault: StoreFault, data: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let inner = SqliteStore::open(&data.join("scrip.db")).expect("the store opens");
        let source = RootKey::from_file(&data.join("root.key")).expect("the root key is there");
        let store = InterceptedStore { engine: Arc::new(inner), interceptor: fault };
        let vault = new_vault(Arc::new(store), Arc::new(SystemClock));
        let directory = Directory::load(&*vault.store, &source, None).await;
        let directory = directory.expect("the keys open");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let keys = fs::read_to_string(data.join("dev-keys.json")).expect("the keys are there");
        let keys: Value = serde_json::from_str(&keys).expect("they are JSON");
        let hello = json!({ "url": url, "keys": keys["keys"] });
        writeln!(std::io::stdout(), "{hello}").expect("somebody listens");
        let mut app = App::new(vault, directory, Arc::new(source), ticks);
        app.limiter = Limiter::disabled();
        let node = Node::new(Arc::new(app), NodeSettings::default());
        serve_plain(Arc::new(node), listener, std::future::pending()).await;
    });
}
