//! Collects our own spans with their declared fields. No log line becomes part of a trace.
//!
//! Fields named `otel.*` describe the span itself and are not exported as attributes:
//! - `otel.name` replaces the name.
//! - `otel.kind` is `server` for the span of a request.
//! - `otel.status_code` is `ERROR` for a failure.
//! - `otel.parent` is the span of the caller, as a validated `traceparent`.

use std::{fmt, time::Duration};

use scrip_core::types::metrics::SPAN_TARGET;
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer, Registry, filter::filter_fn, layer::Context, registry::LookupSpan,
};

use crate::clock::{ticks, unix_time};

/// A layer of the subscriber of this process.
pub(super) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The position of a span in its trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TracePosition {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    /// Decides for all spans of the trace.
    pub(super) is_sampled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttributeValue {
    Text(String),
    Integer(i64),
}

/// A span, from its creation until it is sent.
#[derive(Debug, Default)]
pub(super) struct TraceSpan {
    pub(super) position: TracePosition,
    pub(super) parent_span_id: Option<u64>,
    /// The span of the caller, if the request has one.
    pub(super) remote_parent: Option<TracePosition>,
    pub(super) name: String,
    pub(super) is_server: bool,
    pub(super) is_error: bool,
    pub(super) attributes: Vec<(&'static str, AttributeValue)>,
    /// Time since 1970.
    pub(super) started: Duration,
    /// The start on the monotonic clock: the wall clock may jump before the span ends.
    pub(super) started_ticks: Duration,
    pub(super) duration: Duration,
}

impl TracePosition {
    /// Reads a `traceparent` of version 00.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-').skip(1);
        let trace_id = u128::from_str_radix(parts.next()?, 16).ok()?;
        let span_id = u64::from_str_radix(parts.next()?, 16).ok()?;
        let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
        Some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }

    fn new_root(sample_percent: u32) -> Self {
        let trace_id = u128::from_be_bytes(random_bytes()).max(1);
        let is_sampled = is_in_sample(trace_id, sample_percent);
        Self { trace_id, span_id: 0, is_sampled }.new_child()
    }

    /// A span that is not sampled needs no id.
    fn new_child(self) -> Self {
        let span_id = if self.is_sampled { random_span_id() } else { 0 };
        Self { span_id, ..self }
    }
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    scrip_seal::fill_random(&mut bytes);
    bytes
}

/// An id of zero is invalid.
fn random_span_id() -> u64 {
    u64::from_be_bytes(random_bytes()).max(1)
}

/// Decides by the last 63 bits of the id, as OpenTelemetry libraries do.
fn is_in_sample(trace_id: u128, percent: u32) -> bool {
    let number = (trace_id & u128::from(u64::MAX)) >> 1;
    number < (u128::from(percent) << 63) / 100
}

impl Visit for TraceSpan {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "otel.name" => value.clone_into(&mut self.name),
            "otel.kind" => self.is_server = value == "server",
            "otel.status_code" => self.is_error = value == "ERROR",
            "otel.parent" => self.remote_parent = TracePosition::parse(value),
            name => self.attributes.push((name, AttributeValue::Text(value.to_owned()))),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes.push((field.name(), AttributeValue::Integer(value)));
    }

    /// Not exported: `Debug` output of a value could contain submitted data.
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

struct SpanLayer<F> {
    sample_percent: u32,
    /// Receives the sampled spans when they end.
    export: F,
}

/// Creates the layer. `export` must not block: it runs on the thread of the request.
pub(super) fn span_layer(
    sample_percent: u32,
    export: impl Fn(TraceSpan) + Send + Sync + 'static,
) -> BoxedLayer {
    SpanLayer { sample_percent, export }
        .with_filter(filter_fn(|it| it.is_span() && it.target() == SPAN_TARGET))
        .boxed()
}

impl<S, F> Layer<S> for SpanLayer<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(TraceSpan) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let local_parent =
            span.parent().and_then(|it| it.extensions().get().map(|it: &TraceSpan| it.position));
        let (started, started_ticks) = (unix_time(), ticks());
        let name = span.name().to_owned();
        let mut new = TraceSpan { name, started, started_ticks, ..TraceSpan::default() };
        attributes.record(&mut new);
        let parent = new.remote_parent.or(local_parent);
        new.parent_span_id = parent.map(|it| it.span_id);
        new.position = parent
            .map_or_else(|| TracePosition::new_root(self.sample_percent), TracePosition::new_child);
        span.extensions_mut().insert(new);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(span) = span.extensions_mut().get_mut::<TraceSpan>()
        {
            values.record(span);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let ended_span = context.span(&id).and_then(|it| it.extensions_mut().remove::<TraceSpan>());
        if let Some(mut span) = ended_span.filter(|it| it.position.is_sampled) {
            span.duration = ticks().saturating_sub(span.started_ticks);
            (self.export)(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{field::Empty, info_span, subscriber::with_default};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const TRACE_ID: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
    const SAMPLED_PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const UNSAMPLED_PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    /// Returns the exported spans, in the order in which they ended.
    fn export_spans(sample_percent: u32, create_spans: impl FnOnce()) -> Vec<TraceSpan> {
        let exported = Arc::new(Mutex::new(Vec::new()));
        let spans = Arc::clone(&exported);
        let layer = span_layer(sample_percent, move |it| spans.lock().unwrap().push(it));
        with_default(tracing_subscriber::registry().with(layer), create_spans);
        std::mem::take(&mut *exported.lock().unwrap())
    }

    fn create_request_with_child(parent: Option<&str>) {
        let request = info_span!(target: SPAN_TARGET, "request", otel.parent = parent);
        // The log may use a span in between; it is no part of the trace.
        let _entered = request.entered();
        let _between = info_span!(target: "other", "between").entered();
        drop(info_span!(target: SPAN_TARGET, "child"));
    }

    #[test]
    fn sample_percent_decides_by_the_last_63_bits_of_the_trace_id() {
        let half = 1_u128 << 63;
        for (trace_id, percent, expected) in [
            (0, 0, false),
            (0, 1, true),
            (u128::MAX, 100, true),
            (u128::MAX, 99, false),
            (half - 1, 50, true),
            (half, 50, false),
            // The first half of the id does not count.
            (u128::MAX << 64, 1, true),
        ] {
            assert_eq!(is_in_sample(trace_id, percent), expected, "{trace_id:x} {percent}");
        }
        let sampled = (0..10_000).filter(|_| TracePosition::new_root(25).is_sampled).count();
        assert!((2_200..2_800).contains(&sampled), "{sampled}");
    }

    #[test]
    fn child_span_belongs_to_the_trace_of_its_parent() {
        let spans = export_spans(100, || create_request_with_child(None));
        let [child, request] = spans.as_slice() else { panic!("{spans:?}") };
        assert_eq!((&*child.name, &*request.name), ("child", "request"));
        assert_eq!(child.position.trace_id, request.position.trace_id);
        assert_eq!(child.parent_span_id, Some(request.position.span_id));
        assert_ne!(child.position.span_id, request.position.span_id);
        assert_eq!((request.parent_span_id, request.remote_parent), (None, None));
        assert!(child.started >= request.started && child.duration <= request.duration);
    }

    #[test]
    fn sampling_flag_of_the_caller_decides_for_the_request_and_its_children() {
        let spans = export_spans(0, || create_request_with_child(Some(SAMPLED_PARENT)));
        let [child, request] = spans.as_slice() else { panic!("{spans:?}") };
        assert_eq!(request.parent_span_id, Some(0xb7ad_6b71_6920_3331));
        assert_eq!([child, request].map(|it| it.position.trace_id), [TRACE_ID; 2]);
        assert!(child.remote_parent.is_none());
        let spans = export_spans(100, || create_request_with_child(Some(UNSAMPLED_PARENT)));
        assert!(spans.is_empty(), "{spans:?}");
    }

    #[test]
    fn spans_outside_the_sample_are_not_exported() {
        let spans = export_spans(0, || create_request_with_child(None));
        assert!(spans.is_empty(), "{spans:?}");
    }

    #[test]
    fn declared_texts_and_integers_become_attributes() {
        let spans = export_spans(100, || {
            let span = info_span!(
                target: SPAN_TARGET,
                "request",
                otel.name = "create_token",
                otel.kind = "server",
                otel.status_code = Empty,
                route = "/tokens",
                status = Empty,
                value = ?"4242424242424242",
            );
            span.record("status", 500_i64);
            span.record("otel.status_code", "ERROR");
            tracing::info!(target: SPAN_TARGET, "an event");
        });
        let [span] = spans.as_slice() else { panic!("{spans:?}") };
        assert_eq!((&*span.name, span.is_server, span.is_error), ("create_token", true, true));
        let route = AttributeValue::Text("/tokens".to_owned());
        let expected = [("route", route), ("status", AttributeValue::Integer(500))];
        assert_eq!(span.attributes, expected);
    }
}
