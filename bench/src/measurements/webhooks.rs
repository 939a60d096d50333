//! The cost of webhooks: for creates with events, and for the deliveries.

mod burst;
mod hanging_receiver;
mod report;
mod results;
mod setup;
mod vault;

pub(crate) use self::{report::report_webhooks, setup::Engine};
use self::{
    results::{TurnComparison, WebhooksResults},
    setup::SUBSCRIBED_EVENT,
    vault::{DeliverySwitch, WebhookVault},
};
use crate::{harness::webhook_receiver::WebhookReceiver, measurements::rounds::BenchPlan};

/// Each comparison is repeated, because p99 and processor time vary from second to second.
const ROUNDS: usize = 5;
const OTHER_EVENT: &str = "token.deleted";

pub(crate) async fn measure_webhooks(
    plan: &BenchPlan,
    engine: Engine,
) -> anyhow::Result<WebhooksResults> {
    let vault = WebhookVault::start(plan, engine, "delivered", DeliverySwitch::On)?;
    let other_event = compare_other_event(&vault).await?;
    let delivered = compare_subscription(&vault, DeliverySwitch::On).await?;
    vault.stop()?;
    let vault = WebhookVault::start(plan, engine, "written", DeliverySwitch::Off)?;
    let written = compare_subscription(&vault, DeliverySwitch::Off).await?;
    vault.stop()?;
    let burst = burst::measure_burst(plan, engine).await?;
    let hanging = hanging_receiver::measure_hanging_receiver(plan, engine).await?;
    Ok(WebhooksResults { engine, other_event, delivered, written, burst, hanging })
}

async fn compare_other_event(vault: &WebhookVault<'_>) -> anyhow::Result<TurnComparison> {
    let receiver = WebhookReceiver::start().await?;
    let mut comparison = TurnComparison::default();
    for _ in 0..ROUNDS {
        comparison.without.push(vault.create_at_rate("no webhook", None).await?);
        let webhook = vault.create_webhook(&receiver, OTHER_EVENT).await?;
        comparison.with.push(vault.create_at_rate("  of other events", None).await?);
        vault.delete_webhook(&webhook).await?;
    }
    comparison.without.push(vault.create_at_rate("no webhook", None).await?);
    Ok(comparison)
}

/// Compares a disabled and an enabled webhook. It is not deleted between the turns: the vault would
/// delete its deliveries during the turn without it.
async fn compare_subscription(
    vault: &WebhookVault<'_>,
    switch: DeliverySwitch,
) -> anyhow::Result<TurnComparison> {
    let receiver = WebhookReceiver::start().await?;
    let (name, counted) = match switch {
        DeliverySwitch::On => ("  event delivered", Some(&receiver)),
        DeliverySwitch::Off => ("  event written", None),
    };
    let webhook = vault.create_webhook(&receiver, SUBSCRIBED_EVENT).await?;
    let mut comparison = TurnComparison::default();
    for _ in 0..ROUNDS {
        vault.set_status(&webhook, "disabled").await?;
        comparison.without.push(vault.create_at_rate("no event", None).await?);
        vault.set_status(&webhook, "enabled").await?;
        comparison.with.push(vault.create_at_rate(name, counted).await?);
    }
    vault.set_status(&webhook, "disabled").await?;
    comparison.without.push(vault.create_at_rate("no event", None).await?);
    Ok(comparison)
}
