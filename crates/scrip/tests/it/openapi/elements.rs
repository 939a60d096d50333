//! The hosted fields: their files, their host, and the API below `/api`.

mod api_paths;
mod field_keys;
mod files;
mod hosts;
mod origins;

use std::sync::LazyLock;

use scrip_api::app::field_hosting::FieldHosting;
use scrip_core::policy::application::web_origin::WebOrigin;

use crate::harness::server::{TenantApiKeys, TestRequest, TestServer};

/// The host of the fields of [`FIELDS`].
const FIELD_HOST: &str = "fields.example";
/// Any other host of the same server.
const API_HOST: &str = "vault.example";

const PAGES: [&str; 2] = [
    "/web-elements/2.17.0/hosted-elements/field.html",
    "/web-elements/2.17.0/hosted-elements/controller.html",
];
const SCRIPTS: [&str; 3] = [
    "/elements/client.js",
    "/web-elements/2.17.0/client/index.js",
    "/web-elements/1.5.0/client/index.js",
];

/// A server with an origin for the fields, as in production.
static FIELDS: LazyLock<TestServer> = LazyLock::new(|| {
    TestServer::start_with(|setup| setup.settings.field_hosting = production_hosting())
});
static FIELD_KEYS: LazyLock<TenantApiKeys> = LazyLock::new(|| FIELDS.create_default_tenant());

fn production_hosting() -> FieldHosting {
    let origin = WebOrigin::parse(&format!("https://{FIELD_HOST}")).unwrap();
    FieldHosting { origin: Some(origin), is_on_loopback: false }
}

/// A request to the host of the fields.
fn request(method: &str, path: &str) -> TestRequest {
    FIELDS.request(method, path).header("Host", FIELD_HOST)
}

/// The path of a file in the current release.
fn release_path(name: &str) -> String {
    let page = request("GET", PAGES[0]).send().text;
    let hash = page.split("/elements/").nth(1).and_then(|it| it.split('/').next()).unwrap();
    format!("/elements/{hash}/{name}")
}
