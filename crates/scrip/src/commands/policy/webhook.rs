//! `scrip webhook`: list, deliveries, replay, enable.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Subcommand;
use scrip_core::{
    Error, FieldError, Timestamp,
    events::DeliveryRecord,
    operations::webhooks::{
        list_webhook_deliveries::list_newest_deliveries,
        replay_webhook_deliveries::replay_webhook_deliveries, update_webhook::enable_webhook,
    },
    policy::{
        Tenant,
        webhook::{WebhookRecord, WebhookSettings},
    },
    types::id::WebhookId,
};
use scrip_server::{config::Environment, operator_error::explain};
use serde_json::{Value, json};

use crate::commands::{
    arguments::CommonArguments,
    operator::Operator,
    output::{CommandOutput, format_count, table},
};

const REPLAY_EXAMPLES: &str = "\
Examples:
  scrip webhook deliveries 7d9e2b41-5c06-4f83-9b1a-2e8f6d3c0a57
  scrip webhook replay 7d9e2b41-5c06-4f83-9b1a-2e8f6d3c0a57 --from 2026-11-01T00:00:00Z

The receiver gets the same events again, with the same ids. A running server sends them.";

/// Number of deliveries without `--limit`.
const LISTED_DEFAULT: u16 = 20;
/// The operator has no cursor, so one command can print many.
const LISTED_MAX: i64 = 10_000;

#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// List the webhooks of one tenant or of all tenants.
    List {
        /// Id or name of the tenant.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// List the newest deliveries of a webhook, without their events.
    Deliveries {
        /// Id of the webhook.
        webhook: String,
        /// Number of deliveries.
        #[arg(long, value_name = "COUNT", default_value_t = LISTED_DEFAULT,
            value_parser = clap::value_parser!(u16).range(1..=LISTED_MAX))]
        limit: u16,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Send the events since a time again.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay {
        /// Id of the webhook.
        webhook: String,
        /// Time of the oldest event, such as 2026-11-01T00:00:00Z.
        #[arg(long, value_name = "TIME")]
        from: String,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Enable a webhook that the vault or a client has disabled.
    Enable {
        /// Id of the webhook.
        webhook: String,
        #[command(flatten)]
        common: CommonArguments,
    },
}

pub(crate) fn run(command: &WebhookCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        WebhookCommand::List { tenant, common } => {
            common.with_vault(environment, "webhook list", async |it| list(it, tenant.as_deref()))
        }
        WebhookCommand::Deliveries { webhook, limit, common } => {
            common.with_vault(environment, "webhook deliveries", async |it| {
                list_deliveries(it, webhook, usize::from(*limit)).await
            })
        }
        WebhookCommand::Replay { webhook, from, common } => {
            common.with_vault(environment, "webhook replay", async |it| {
                replay(it, webhook, from).await
            })
        }
        WebhookCommand::Enable { webhook, common } => {
            common.with_vault(environment, "webhook enable", async |it| enable(it, webhook).await)
        }
    }
}

type TenantWebhook<'a> = (&'a Arc<Tenant>, &'a Arc<WebhookRecord>);

fn webhooks<'a>(tenants: Vec<&'a Arc<Tenant>>) -> Vec<TenantWebhook<'a>> {
    let of_tenant = |it: &'a Arc<Tenant>| it.webhooks.values().map(move |webhook| (it, webhook));
    tenants.into_iter().flat_map(of_tenant).collect()
}

fn find<'a>(operator: &'a Operator, text: &str) -> anyhow::Result<TenantWebhook<'a>> {
    let id = WebhookId::parse(text).context("this is not the id of a webhook")?;
    let found = webhooks(operator.directory.tenants()).into_iter().find(|(_, it)| it.id == id);
    found.with_context(|| {
        let message = format!("webhook {id} does not exist; run: scrip webhook list");
        operator.missing_message(&message)
    })
}

/// The host of the URL. The rest of a URL may contain a secret of the receiver.
fn host((tenant, webhook): &TenantWebhook<'_>) -> String {
    let settings = WebhookSettings::open(&tenant.keys, webhook);
    settings.map_or_else(|_| "-".to_owned(), |it| it.url.host().to_owned())
}

fn list(operator: &Operator, tenant: Option<&str>) -> anyhow::Result<CommandOutput> {
    let mut webhooks = webhooks(operator.tenants(tenant)?);
    webhooks.sort_by_key(|(tenant, it)| (tenant.id, it.created.at, it.id));
    let row = |it: &TenantWebhook<'_>| {
        let (tenant, webhook) = it;
        [
            webhook.id.to_string(),
            tenant.name.as_str().to_owned(),
            webhook.status.as_str().to_owned(),
            host(it),
            webhook.events.as_slice().len().to_string(),
            webhook.name.as_str().to_owned(),
        ]
    };
    let rows: Vec<_> = webhooks.iter().map(row).collect();
    let mut text = table(["ID", "TENANT", "STATUS", "HOST", "EVENTS", "NAME"], &rows);
    text += &operator.alterations.lines();
    let body = |it: &TenantWebhook<'_>| {
        let (tenant, webhook) = it;
        let events: Vec<_> = webhook.events.as_slice().iter().map(|it| it.as_str()).collect();
        json!({
            "id": webhook.id.to_string(), "tenant_id": tenant.id.to_string(),
            "name": webhook.name.as_str(), "status": webhook.status.as_str(), "host": host(it),
            "events": events,
        })
    };
    let bodies: Vec<_> = webhooks.iter().map(body).collect();
    let alterations = operator.alterations.descriptions();
    Ok(CommandOutput::new(text, json!({ "webhooks": bodies, "alterations": alterations })))
}

async fn list_deliveries(
    operator: &Operator,
    webhook: &str,
    limit: usize,
) -> anyhow::Result<CommandOutput> {
    let (tenant, webhook) = find(operator, webhook)?;
    let permit = operator.policy_permit(tenant);
    let deliveries = list_newest_deliveries(&operator.vault, &permit, webhook.id, limit).await;
    let deliveries = deliveries.map_err(explain)?;
    let rows: Vec<_> = deliveries.iter().map(delivery_row).collect();
    let names = ["EVENT", "TYPE", "TIME", "STATUS", "ATTEMPTS", "NEXT ATTEMPT", "LAST ANSWER"];
    let bodies: Vec<_> = deliveries.iter().map(delivery_json).collect();
    Ok(CommandOutput::new(table(names, &rows), json!({ "deliveries": bodies })))
}

fn delivery_row(record: &DeliveryRecord) -> [String; 7] {
    let status = record.last_status.map(|it| it.to_string());
    let dash = || "-".to_owned();
    [
        record.event.to_string(),
        record.event_type.clone(),
        record.occurred_at.to_string(),
        record.state.as_str().to_owned(),
        record.attempts.to_string(),
        record.next_attempt_at.map_or_else(dash, |it| it.to_string()),
        status.or_else(|| record.last_error.clone()).unwrap_or_else(dash),
    ]
}

fn delivery_json(record: &DeliveryRecord) -> Value {
    let text = |it: Option<Timestamp>| it.map(|it| it.to_string());
    json!({
        "event_id": record.event.to_string(),
        "event_type": record.event_type,
        "timestamp": record.occurred_at.to_string(),
        "status": record.state.as_str(),
        "attempts": record.attempts,
        "last_attempt_at": text(record.last_attempt_at),
        "next_attempt_at": text(record.next_attempt_at),
        "last_status_code": record.last_status,
        "last_error": record.last_error,
    })
}

async fn replay(operator: &Operator, webhook: &str, from: &str) -> anyhow::Result<CommandOutput> {
    let (tenant, webhook) = find(operator, webhook)?;
    let parsed = Timestamp::parse_date("from", from);
    let from =
        parsed.map_err(|FieldError { problem, .. }| anyhow::anyhow!("the time {problem}"))?;
    let permit = operator.policy_permit(tenant);
    let id = webhook.id;
    let replayed = replay_webhook_deliveries(&operator.vault, permit, id, from, None).await;
    let count = match replayed {
        Ok(replayed) => replayed.0,
        // The message for clients names an HTTP request.
        Err(Error::Invalid(errors)) if errors.iter().any(|it| it.field == "status") => {
            bail!("webhook {id} is disabled; run: scrip webhook enable {id}")
        }
        Err(error) => return Err(explain(error)),
    };
    let replayed = match count {
        1 => "1 delivery".to_owned(),
        count => format!("{count} deliveries"),
    };
    let text = format!("replayed {replayed} of webhook {id} since {from}");
    Ok(CommandOutput::new(text, json!({ "id": id.to_string(), "replayed": count })))
}

async fn enable(operator: &Operator, webhook: &str) -> anyhow::Result<CommandOutput> {
    let (tenant, webhook) = find(operator, webhook)?;
    let permit = operator.policy_permit(tenant);
    enable_webhook(&operator.vault, permit, webhook.id).await.map_err(explain)?;
    let events = format_count(webhook.events.as_slice().len(), "event type");
    let text = format!("enabled webhook {} ({events})", webhook.id);
    Ok(CommandOutput::new(text, json!({ "id": webhook.id.to_string(), "status": "enabled" })))
}
