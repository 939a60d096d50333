//! Traces, for whoever has configured a collector. Nobody waits for them: spans go into a bounded
//! queue, and what does not fit is dropped.

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
    /// Nothing when there is no collector: then nothing of this runs.
    pub(super) fn new(settings: &TelemetrySettings) -> Option<Self> {
        let collector = settings.otlp_endpoint.clone()?;
        let percent = u32::try_from(settings.sample_percent.get()).unwrap_or(100);
        let share = Sampler::TraceIdRatioBased(f64::from(percent) / 100.0);
        let sending = Arc::new(OnceLock::new());
        let provider = SdkTracerProvider::builder()
            .with_span_processor(DeferredProcessor(Arc::clone(&sending)))
            .with_sampler(Sampler::ParentBased(Box::new(share)))
            .with_resource(Resource::builder_empty().build())
            .build();
        Some(Self { provider, collector, processor: sending })
    }

    /// Sends from now on, on a thread of its own. So call it when the process has given up what it
    /// gives up before there are threads.
    pub fn start(&self) {
        self.processor.get_or_init(|| {
            let config = BatchConfigBuilder::default()
                .with_max_queue_size(QUEUE_MAX)
                .with_max_export_batch_size(BATCH_MAX)
                .with_scheduled_delay(SEND_EVERY)
                .build();
            let sending =
                BatchSpanProcessor::builder(CollectorExporter::new(&self.collector, &resource()));
            sending.with_batch_config(config).build()
        });
    }

    /// Only our own spans, with only the fields they name; no log line becomes part of a trace.
    pub(super) fn layer(&self) -> BoxedLayer {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer(SERVICE_NAME));
        let bare = layer
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        bare.with_filter(filter_fn(|it| it.is_span() && it.target() == SPAN_TARGET)).boxed()
    }

    /// Sends what is left, if that can be done in time.
    pub fn flush(&self, deadline: Duration) {
        if self.provider.shutdown_with_timeout(deadline).is_err() {
            tracing::warn!("some traces were not sent before the end");
        }
    }
}

/// All that is said of the program itself.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder_empty().with_service_name(SERVICE_NAME).with_attribute(version).build()
}

/// Passes on what has ended, once somebody sends.
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
