//! `scrip dev --print-webhooks`: a webhook with all event types, and a receiver that prints its
//! deliveries.

use std::sync::Arc;

use anyhow::Context;
use scrip_api::app::App;
use scrip_core::{
    FieldError,
    operations::webhooks::{create_webhook::create_webhook, delete_webhook::delete_webhook},
    policy::{
        DisplayName, PolicyPermit,
        destination::DestinationUrl,
        webhook::{EventList, WebhookDraft},
    },
    types::{EventType, id::TenantId},
};
use scrip_demo::webhook_receiver::{self, InvalidDelivery, ReceivedDelivery, ReceiverKeys};
use scrip_operator::{error::explain, output::replace_control_characters};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::commands::output::print_output;

/// Only webhooks with this name are removed by the next start.
const NAME: &str = "scrip dev --print-webhooks";

/// Removes the webhooks of earlier starts: their receivers do not run.
pub(super) async fn remove_webhooks(app: &App, tenant: TenantId) -> anyhow::Result<()> {
    let permit = operator_permit(app, tenant)?;
    let webhooks = permit.tenant().webhooks.values().filter(|it| it.name.as_str() == NAME);
    let ids: Vec<_> = webhooks.map(|it| it.id).collect();
    for id in ids {
        delete_webhook(&app.vault, permit.clone(), id).await.map_err(explain)?;
        app.reload().await.map_err(explain)?;
    }
    Ok(())
}

/// Starts the receiver and creates its webhook. Returns the URL of the receiver.
pub(super) async fn start(app: &App, tenant: TenantId, json: bool) -> anyhow::Result<String> {
    // Any free port: several of these may run on one machine.
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.context("binding the listener of the webhook receiver failed")?;
    let url = format!("http://{}/", listener.local_addr()?);
    let destination = DestinationUrl::parse(&url, app.settings.loopback_destinations);
    let destination = destination.map_err(|FieldError { problem, .. }| {
        anyhow::anyhow!("the receiver of --print-webhooks is on this machine: its URL {problem}")
    })?;
    let names: Vec<_> = EventType::RAISED.iter().map(|it| it.as_str().to_owned()).collect();
    let events = EventList::parse(&names).map_err(|_| anyhow::anyhow!("no event types"))?;
    let draft = WebhookDraft {
        name: DisplayName::parse(NAME).map_err(explain)?,
        url: destination,
        events,
        notify_email: None,
        status: None,
    };
    let permit = operator_permit(app, tenant)?;
    let webhook = create_webhook(&app.vault, permit, draft, None).await.map_err(explain)?;
    app.reload().await.map_err(explain)?;
    let signing_key = app.webhook_signing_key().await.map_err(explain)?;
    let keys = ReceiverKeys {
        secret: webhook.secrets.current.clone(),
        public_key: signing_key.public_key_pem().to_owned(),
    };
    webhook_receiver::start(listener, keys, Box::new(move |delivery| print(delivery, json)))?;
    Ok(url)
}

fn operator_permit(app: &App, tenant: TenantId) -> anyhow::Result<PolicyPermit> {
    let directory = app.directory.load_full().context("the vault is sealed")?;
    let tenant = directory.tenant(tenant).context("the development tenant is missing")?;
    Ok(PolicyPermit::for_operator(Arc::clone(tenant)))
}

fn print(delivery: Result<ReceivedDelivery, InvalidDelivery>, json: bool) {
    let text = match delivery {
        Ok(ReceivedDelivery { body }) if json => {
            format!("{}\n", json!({ "delivery": body, "signatures": "valid" }))
        }
        Ok(ReceivedDelivery { body }) => format_delivery(&body),
        Err(InvalidDelivery(reason)) if json => format!("{}\n", json!({ "invalid": reason })),
        Err(InvalidDelivery(reason)) => format!("  invalid webhook delivery: {reason}\n\n"),
    };
    // Without a reader there is nothing to do: the vault keeps running.
    drop(print_output(&text));
}

fn format_delivery(body: &Value) -> String {
    let text = |name: &str| {
        let value = body.get("event").and_then(|it| it.get(name)).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    // Metadata is chosen by clients.
    let pretty = serde_json::to_string_pretty(body).unwrap_or_default();
    let pretty = replace_control_characters(&pretty, true);
    let pretty: String = pretty.lines().map(|it| format!("  {it}\n")).collect();
    let (kind, id, time) = (text("type"), text("id"), text("timestamp"));
    format!("  webhook {kind}  {id}  {time}  signatures valid\n{pretty}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivery_is_printed_with_type_id_and_time() {
        let body = json!({"event": {"id": "1", "type": "token.created", "timestamp": "now"}});
        let text = format_delivery(&body);
        let first = text.lines().next().unwrap();
        assert_eq!(first, "  webhook token.created  1  now  signatures valid");
        assert!(text.contains("\n      \"type\": \"token.created\"\n"), "{text}");
    }
}
