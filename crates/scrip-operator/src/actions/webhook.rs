//! Webhooks and their deliveries: list, replay, enable.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
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
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    action::{Action, ActionSpec},
    error::explain,
    operator::Operator,
    output::{Column, CommandOutput, format_count},
};

/// Number of deliveries without `--limit`.
const LISTED_DEFAULT: u16 = 20;
/// The operator has no cursor, so one command can print many.
const LISTED_MAX: i64 = 10_000;

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

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ListWebhooks {
    /// Id or name of the tenant.
    #[arg(long)]
    tenant: Option<String>,
}

impl Action for ListWebhooks {
    const SPEC: ActionSpec = ActionSpec::view("webhook list");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let mut webhooks = webhooks(operator.tenants(self.tenant.as_deref())?);
        webhooks.sort_by_key(|(tenant, it)| (tenant.id, it.created.at, it.id));
        let row = |it: &TenantWebhook<'_>| {
            let (tenant, webhook) = it;
            let events: Vec<_> = webhook.events.as_slice().iter().map(|it| it.as_str()).collect();
            json!({
                "id": webhook.id.to_string(), "tenant_id": tenant.id.to_string(),
                "tenant": tenant.name.as_str(), "name": webhook.name.as_str(),
                "status": webhook.status.as_str(), "host": host(it), "events": events,
            })
        };
        let columns = [
            Column::new("ID", "/id"),
            Column::new("TENANT", "/tenant"),
            Column::new("STATUS", "/status"),
            Column::new("HOST", "/host"),
            Column::count("EVENTS", "/events"),
            Column::new("NAME", "/name"),
        ];
        let rows = webhooks.iter().map(row).collect();
        Ok(operator.with_alterations(CommandOutput::list("webhooks", columns, rows)))
    }
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ListDeliveries {
    /// Id of the webhook.
    webhook: String,
    /// Number of deliveries.
    #[arg(long, value_name = "COUNT", default_value_t = LISTED_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=LISTED_MAX))]
    limit: u16,
}

impl Action for ListDeliveries {
    const SPEC: ActionSpec = ActionSpec::view("webhook deliveries");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let (tenant, webhook) = find(operator, &self.webhook)?;
        let permit = operator.policy_permit(tenant);
        let limit = usize::from(self.limit);
        let deliveries = list_newest_deliveries(&operator.vault, &permit, webhook.id, limit).await;
        let rows = deliveries.map_err(explain)?.iter().map(delivery_json).collect();
        let columns = [
            Column::new("EVENT", "/event_id"),
            Column::new("TYPE", "/event_type"),
            Column::new("TIME", "/timestamp"),
            Column::new("STATUS", "/status"),
            Column::new("ATTEMPTS", "/attempts"),
            Column::new("NEXT ATTEMPT", "/next_attempt_at"),
            Column::new("LAST ANSWER", "/last_answer"),
        ];
        Ok(CommandOutput::list("deliveries", columns, rows))
    }
}

fn delivery_json(record: &DeliveryRecord) -> Value {
    let text = |it: Option<Timestamp>| it.map(|it| it.to_string());
    let status = record.last_status.map(|it| it.to_string());
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
        "last_answer": status.or_else(|| record.last_error.clone()),
    })
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ReplayDeliveries {
    /// Id of the webhook.
    webhook: String,
    /// Time of the oldest event, such as 2026-11-01T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    from: String,
}

impl Action for ReplayDeliveries {
    const SPEC: ActionSpec = ActionSpec::change("webhook replay");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        replay(operator, &self.webhook, &self.from).await
    }
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct EnableWebhook {
    /// Id of the webhook.
    webhook: String,
}

impl Action for EnableWebhook {
    const SPEC: ActionSpec = ActionSpec::approved_change("webhook enable");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        enable(operator, &self.webhook).await
    }
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
