//! Deliveries to one webhook while the receiver of another webhook of the tenant does not answer.

use anyhow::ensure;

use crate::{
    harness::{
        clock::now,
        results::{MeasurementResult, print_result},
        webhook_receiver::WebhookReceiver,
    },
    measurements::{
        rounds::BenchPlan,
        webhooks::{
            setup::{Engine, SUBSCRIBED_EVENT},
            vault::{CONNECTIONS, DeliverySwitch, WebhookVault},
        },
    },
};

/// A tenant has at most five webhooks.
const HANGING_ROUNDS: usize = 4;
/// The answers of the other receiver before it hangs. The vault sends it more requests at the same time
/// after successes, so that more of them hang.
const ANSWERS_BEFORE: u64 = 200;

/// The percentiles are those of the time from an event to its arrival at the receiver that answers.
#[derive(Debug)]
pub(super) struct HangingReceiverResult {
    pub(super) without: Vec<MeasurementResult>,
    pub(super) with: Vec<MeasurementResult>,
    /// Requests that the other receiver did not answer, in each turn with it.
    pub(super) unanswered: Vec<u64>,
}

pub(super) async fn measure_hanging_receiver(
    plan: &BenchPlan,
    engine: Engine,
) -> anyhow::Result<HangingReceiverResult> {
    let vault = WebhookVault::start(plan, engine, "hanging", DeliverySwitch::On)?;
    let receiver = WebhookReceiver::start().await?;
    vault.create_webhook(&receiver, SUBSCRIBED_EVENT).await?;
    let (mut without, mut with, mut unanswered) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..HANGING_ROUNDS {
        without.push(measure_deliveries(&vault, "delivery", &receiver).await?);
        // A new webhook in each round: the attempts of an earlier one still wait for their answers,
        // so the vault would send it nothing.
        let hanging = WebhookReceiver::start().await?;
        hanging.hang_after(ANSWERS_BEFORE);
        let webhook = vault.create_webhook(&hanging, SUBSCRIBED_EVENT).await?;
        with.push(measure_deliveries(&vault, "  while another hangs", &receiver).await?);
        vault.set_status(&webhook, "disabled").await?;
        // Without a request that hangs, the turn would show nothing.
        ensure!(hanging.unanswered() > 0, "the other receiver got no request in which it hangs");
        unanswered.push(hanging.unanswered());
    }
    without.push(measure_deliveries(&vault, "delivery", &receiver).await?);
    vault.stop()?;
    Ok(HangingReceiverResult { without, with, unanswered })
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
