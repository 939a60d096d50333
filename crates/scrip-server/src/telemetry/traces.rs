//! Traces, if a collector is configured. No request waits for them: spans enter a bounded queue,
//! and spans that do not fit are dropped.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc as std_mpsc},
    thread,
    time::Duration,
};

use tokio::{
    runtime,
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval},
};

use crate::{
    config::{CollectorUrl, TelemetrySettings},
    telemetry::{
        collector::Collector,
        otlp::export_request,
        span_layer::{BoxedLayer, TraceSpan, span_layer},
    },
};

const QUEUE_MAX: usize = 4096;
const BATCH_MAX: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Traces {
    collector: CollectorUrl,
    sample_percent: u32,
    /// Empty until the sender starts; earlier spans are dropped.
    queue: Arc<OnceLock<mpsc::Sender<TraceSpan>>>,
    sender: OnceLock<SenderHandle>,
}

#[derive(Debug)]
struct SenderHandle {
    stop: watch::Sender<bool>,
    /// Receives whether all remaining spans were sent.
    outcome: Mutex<std_mpsc::Receiver<bool>>,
}

impl Traces {
    /// Returns `None` without a collector; then no tracing code runs.
    pub(super) fn new(settings: &TelemetrySettings) -> Option<Self> {
        let collector = settings.otlp_endpoint.clone()?;
        let sample_percent = u32::try_from(settings.sample_percent.get()).unwrap_or(100);
        Some(Self { collector, sample_percent, queue: Arc::default(), sender: OnceLock::new() })
    }

    pub(super) fn layer(&self) -> BoxedLayer {
        let queue = Arc::clone(&self.queue);
        span_layer(self.sample_percent, move |span| {
            if let Some(queue) = queue.get() {
                // A span that does not fit is dropped.
                drop(queue.try_send(span));
            }
        })
    }

    /// Starts the sender thread. Call it once, after the hardening steps that require a single
    /// thread.
    /// Errors: the system has no resources for a thread.
    pub fn start(&self) -> io::Result<()> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (queue, spans) = mpsc::channel(QUEUE_MAX);
        let (stop, stop_receiver) = watch::channel(false);
        let (outcome_sender, outcome) = std_mpsc::channel();
        let collector = Collector::new(self.collector.0.clone());
        let send_all = move || {
            let all_sent = runtime.block_on(send_batches(spans, stop_receiver, collector));
            // The process may no longer wait for the outcome.
            let _ = outcome_sender.send(all_sent);
            // Do not wait for a name lookup that still runs.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("traces".to_owned()).spawn(send_all)?;
        drop(self.sender.set(SenderHandle { stop, outcome: Mutex::new(outcome) }));
        drop(self.queue.set(queue));
        Ok(())
    }

    /// Sends the remaining spans, for at most this time.
    pub fn flush(&self, timeout: Duration) {
        let Some(SenderHandle { stop, outcome }) = self.sender.get() else { return };
        stop.send_replace(true);
        let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if outcome.recv_timeout(timeout) != Ok(true) {
            tracing::warn!("some traces were not sent before shutdown");
        }
    }
}

/// Sends a batch when it is full, and every second. Returns after the stop signal, when the queue
/// is empty, whether all batches since the signal were sent.
async fn send_batches(
    mut spans: mpsc::Receiver<TraceSpan>,
    mut stop: watch::Receiver<bool>,
    mut collector: Collector,
) -> bool {
    let (mut batch, mut all_sent) = (Vec::with_capacity(BATCH_MAX), true);
    let mut ticks = interval(SEND_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let free_places = BATCH_MAX.saturating_sub(batch.len());
        let is_due = tokio::select! {
            biased;
            _ = stop.wait_for(|it| *it), if !spans.is_closed() => {
                // Accept no more spans; those in the queue can still be received.
                spans.close();
                false
            }
            _ = ticks.tick() => true,
            count = spans.recv_many(&mut batch, free_places) => count == 0 || count == free_places,
        };
        if is_due && !batch.is_empty() {
            let is_sent = collector.send(export_request(&batch)).await;
            all_sent &= is_sent || !*stop.borrow();
            batch.clear();
        } else if spans.is_closed() && spans.is_empty() && batch.is_empty() {
            return all_sent;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, extract::State, routing::post};
    use bytes::Bytes;
    use scrip_egress::configured::ServerAddress;
    use serde_json::Value;
    use tokio::net::TcpListener;

    use super::*;

    type BatchSizes = Arc<Mutex<Vec<usize>>>;

    async fn count_spans(State(sizes): State<BatchSizes>, body: Bytes) {
        let request: Value = serde_json::from_slice(&body).unwrap();
        let spans = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
        sizes.lock().unwrap().push(spans.as_array().unwrap().len());
    }

    #[tokio::test]
    async fn stop_signal_sends_the_queue_in_batches_of_at_most_512_spans() {
        let sizes = BatchSizes::default();
        let routes = Router::new().route("/v1/traces", post(count_spans));
        let routes = routes.with_state(Arc::clone(&sizes));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let server = tokio::spawn(axum::serve(listener, routes).into_future());

        let (queue, spans) = mpsc::channel(QUEUE_MAX);
        (0..1200).for_each(|_| queue.try_send(TraceSpan::default()).unwrap());
        let (_stop, stop_receiver) = watch::channel(true);
        let collector = Collector::new(ServerAddress::parse(&url).unwrap());
        assert!(send_batches(spans, stop_receiver, collector).await);
        assert!(queue.try_send(TraceSpan::default()).is_err(), "the queue is closed");
        server.abort();
        assert_eq!(*sizes.lock().unwrap(), [512, 512, 176]);
    }
}
