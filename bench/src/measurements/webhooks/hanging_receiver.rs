//! Deliveries to one webhook while the receiver of another webhook of the tenant does not answer.

use crate::{
    harness::{
        clock::now,
        results::{MeasurementResult, print_result},
        webhook_receiver::WebhookReceiver,
    },
    measurements::{
        rounds::BenchPlan,
        webhooks::{
            Engine, ROUNDS, SUBSCRIBED_EVENT,
            vault::{CONNECTIONS, DeliverySwitch, WebhookVault},
        },
    },
};

/// The answers of the other receiver before it hangs. The vault sends it more requests at the same time
/// after successes, so that more of them hang.
const ANSWERS_BEFORE: u64 = 200;

/// The percentiles are those of the time from an event to its arrival at the receiver that answers.
#[derive(Debug)]
pub(super) struct HangingReceiverResult {
    pub(super) without: Vec<MeasurementResult>,
    pub(super) with: Vec<MeasurementResult>,
    /// Requests that the other receiver did not answer.
    pub(super) hanging_requests: u64,
}

pub(super) async fn measure_hanging_receiver(
    plan: &BenchPlan,
    engine: Engine,
) -> anyhow::Result<HangingReceiverResult> {
    let vault = WebhookVault::start(plan, engine, "hanging", DeliverySwitch::On)?;
    let receiver = WebhookReceiver::start().await?;
    let hanging = WebhookReceiver::start().await?;
    vault.create_webhook(&receiver, SUBSCRIBED_EVENT).await?;
    let webhook = vault.create_webhook(&hanging, SUBSCRIBED_EVENT).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        vault.set_status(&webhook, "disabled").await?;
        without.push(measure_deliveries(&vault, "delivery", &receiver).await?);
        hanging.hang_after(ANSWERS_BEFORE);
        vault.set_status(&webhook, "enabled").await?;
        with.push(measure_deliveries(&vault, "  while another hangs", &receiver).await?);
    }
    vault.set_status(&webhook, "disabled").await?;
    without.push(measure_deliveries(&vault, "delivery", &receiver).await?);
    let answered = ANSWERS_BEFORE.saturating_mul(u64::try_from(ROUNDS)?);
    let requests = hanging.received().saturating_add(hanging.repetitions());
    let hanging_requests = requests.saturating_sub(answered);
    vault.stop()?;
    Ok(HangingReceiverResult { without, with, hanging_requests })
}

async fn measure_deliveries(
    vault: &WebhookVault<'_>,
    name: &'static str,
    receiver: &WebhookReceiver,
) -> anyhow::Result<MeasurementResult> {
    drop(receiver.take_ages());
    let start = now();
    vault.create_at_rate("create", Some(receiver)).await?;
    let ages = receiver.take_ages();
    let result = MeasurementResult::new(name, CONNECTIONS, ages, 1, start.elapsed());
    print_result(&result)?;
    Ok(result)
}
