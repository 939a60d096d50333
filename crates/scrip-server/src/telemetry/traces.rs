//! Traces, if a collector is configured. No request waits for them: spans enter a bounded queue,
//! and spans that do not fit are dropped.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use opentelemetry::{Context, KeyValue, trace::TracerProvider};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData,
        SpanProcessor,
    },
};
use scrip_core::metrics::SPAN_TARGET;
use tracing_subscriber::{Layer, filter::filter_fn};

use crate::{
    config::{CollectorUrl, TelemetrySettings},
    telemetry::{BoxedLayer, collector::CollectorExporter},
};

const SERVICE_NAME: &str = "scrip";
const QUEUE_MAX: usize = 4096;
const BATCH_MAX: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    collector: CollectorUrl,
    processor: Arc<OnceLock<BatchSpanProcessor>>,
}

impl Traces {
    /// Returns `None` without a collector; then no tracing code runs.
    pub(super) fn new(settings: &TelemetrySettings) -> Option<Self> {
        let collector = settings.otlp_endpoint.clone()?;
        let percent = u32::try_from(settings.sample_percent.get()).unwrap_or(100);
        let sampler = Sampler::TraceIdRatioBased(f64::from(percent) / 100.0);
        let processor = Arc::new(OnceLock::new());
        let provider = SdkTracerProvider::builder()
            .with_span_processor(DeferredProcessor(Arc::clone(&processor)))
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(Resource::builder_empty().build())
            .build();
        Some(Self { provider, collector, processor })
    }

    /// Starts the sender thread. Call it after the hardening steps that require a single thread.
    pub fn start(&self) {
        self.processor.get_or_init(|| {
            let config = BatchConfigBuilder::default()
                .with_max_queue_size(QUEUE_MAX)
                .with_max_export_batch_size(BATCH_MAX)
                .with_scheduled_delay(SEND_EVERY)
                .build();
            let builder =
                BatchSpanProcessor::builder(CollectorExporter::new(&self.collector, &resource()));
            builder.with_batch_config(config).build()
        });
    }

    /// Exports only our own spans with their declared fields; no log line becomes part of a trace.
    pub(super) fn layer(&self) -> BoxedLayer {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer(SERVICE_NAME));
        let layer = layer
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        layer.with_filter(filter_fn(|it| it.is_span() && it.target() == SPAN_TARGET)).boxed()
    }

    /// Sends the remaining spans, for at most this time.
    pub fn flush(&self, timeout: Duration) {
        if self.provider.shutdown_with_timeout(timeout).is_err() {
            tracing::warn!("some traces were not sent before shutdown");
        }
    }
}

/// Attributes that identify the program.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder_empty().with_service_name(SERVICE_NAME).with_attribute(version).build()
}

/// Forwards finished spans once the sender has started.
#[derive(Debug)]
struct DeferredProcessor(Arc<OnceLock<BatchSpanProcessor>>);

impl SpanProcessor for DeferredProcessor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if let Some(it) = self.0.get() {
            it.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.get().map_or(Ok(()), SpanProcessor::force_flush)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.get().map_or(Ok(()), |it| it.shutdown_with_timeout(timeout))
    }
}
