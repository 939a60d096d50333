//! The text or line of JSON that `scrip dev` prints when all listeners are ready.

use scrip_server::config::{Settings, Switch};

use crate::{commands::output::print_output, dev::dev_keys::DevKeys, serve::Addresses};

/// What is announced when all listeners are ready.
pub(super) struct DevAnnouncement<'a> {
    pub(super) addresses: &'a Addresses,
    pub(super) demo: Option<String>,
    /// The fake provider of the demo shop.
    pub(super) provider: Option<&'a str>,
    pub(super) simulator: Option<String>,
    /// The receiver that prints deliveries.
    pub(super) receiver: Option<String>,
    /// The URL of the script for hosted fields.
    pub(super) fields: Option<String>,
    pub(super) keys: &'a DevKeys,
}

/// The script is served on loopback hosts, and on the origin of the settings.
pub(super) fn field_script_url(settings: &Settings, addresses: &Addresses) -> Option<String> {
    let configured = settings.elements.origin.as_ref().map(|it| it.0.text());
    let is_loopback = settings.server.listen.ip().is_loopback();
    let origin = configured.or(is_loopback.then_some(addresses.url.as_str()))?;
    Some(format!("{origin}/elements/client.js"))
}

pub(super) fn simulator_url(settings: &Settings) -> Option<String> {
    let url = settings.threeds.simulator_url.as_ref();
    url.map(|it| format!("http://{}", it.with_path(String::new()).authority))
}

pub(super) fn announce_json(announcement: &DevAnnouncement<'_>) -> anyhow::Result<()> {
    let DevAnnouncement { addresses, demo, provider, simulator, receiver, fields, keys } =
        announcement;
    let (Addresses { url, metrics, .. }, DevKeys { tenant_id, keys }) = (addresses, keys);
    let line = serde_json::json!({
        "url": url, "metrics": metrics, "demo": demo, "provider": provider,
        "simulator": simulator, "webhook_receiver": receiver, "fields": fields, "tenant_id": tenant_id, "keys": keys,
    });
    print_output(&format!("{line}\n"))
}

pub(super) fn announce(
    settings: &Settings,
    announcement: &DevAnnouncement<'_>,
) -> anyhow::Result<()> {
    let limits = match settings.limits.mode {
        Switch::On => "on, as for every test tenant",
        Switch::Off => "off; turn them on with --rate-limits on",
    };
    let DevAnnouncement { addresses, demo, provider, simulator, receiver, fields, keys } =
        announcement;
    let (Addresses { url, metrics, .. }, DevKeys { tenant_id, keys }) = (addresses, keys);
    let demo = demo.as_ref().map_or_else(
        || "No demo shop: it is served on a loopback address only".to_owned(),
        |it| format!("Open {it} in a browser for a demo shop"),
    );
    print_output(&format!(
        "
  Scrip is ready at {url}
  API reference at {url}/docs
  data in {data}, tenant {tenant_id}
  rate limits {limits}
  metrics at {metrics}
  3-D Secure by the simulator at {simulator}
  charges of the demo shop by a fake provider at {provider}
  webhooks {webhooks}
  hosted fields: {fields}

  {demo}

  Paste these lines into another shell. SCRIP_KEY is the private key:

  export SCRIP_URL={url}
  export SCRIP_KEY={private}
  export SCRIP_PUBLIC_KEY={public}
  export SCRIP_MANAGEMENT_KEY={management}

  Your first token:

  curl $SCRIP_URL/tokens -H \"BT-API-KEY: $SCRIP_KEY\" -H 'Content-Type: application/json' \\
    -d '{{\"type\":\"card\",\"data\":{{\"number\":\"4242424242424242\",\"expiration_month\":12,\"expiration_year\":2030}}}}'

",
        data = settings.storage.data_dir.display(),
        simulator = simulator.as_deref().unwrap_or("none"),
        provider = provider.unwrap_or("none"),
        webhooks = receiver.as_ref().map_or_else(
            || "are not printed; print them with --print-webhooks".to_owned(),
            |it| format!("are printed here, by a receiver at {it}: create a token to see one"),
        ),
        fields = fields.as_ref().map_or_else(
            || "none; set SCRIP_ELEMENTS_ORIGIN, or listen on a loopback address".to_owned(),
            |it| format!("<script src=\"{it}\"></script>"),
        ),
        metrics = metrics.as_deref().unwrap_or("none"),
        management = keys.management,
        private = keys.private,
        public = keys.public,
    ))
}
