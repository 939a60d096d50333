//! Sends batches of spans to a collector: OTLP, protobuf over plain HTTP. Runs on the batch thread,
//! so it may block. A batch that cannot be sent is dropped.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{
        common::tonic::ResourceAttributesWithSchema,
        trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{SpanData, SpanExporter},
};
use prost::Message;
use ureq::Agent;

use crate::config::CollectorUrl;

/// Maximum duration of one request, with its connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct CollectorExporter {
    endpoint: String,
    agent: Agent,
    resource: ResourceAttributesWithSchema,
    /// Whether the last batch failed. Only the first failure in a row is logged.
    is_failing: AtomicBool,
}

impl CollectorExporter {
    pub(super) fn new(CollectorUrl(endpoint): &CollectorUrl, resource: &Resource) -> Self {
        // No proxy: the library would read its address from the environment.
        let config = Agent::config_builder().proxy(None).max_redirects(0);
        let agent = config.timeout_global(Some(REQUEST_TIMEOUT)).build().into();
        let (endpoint, resource) = (endpoint.clone(), resource.into());
        Self { endpoint, agent, resource, is_failing: AtomicBool::new(false) }
    }

    fn send(&self, body: &[u8]) -> Result<(), ureq::Error> {
        let request = self.agent.post(&self.endpoint).content_type("application/x-protobuf");
        // Read the response completely, so that the connection can be reused.
        request.send(body)?.into_body().read_to_vec().map(drop)
    }
}

impl SpanExporter for CollectorExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        match self.send(&body) {
            Ok(()) => {
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("trace collector available again");
                }
                Ok(())
            }
            Err(error) => {
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        %error,
                        "sending traces to the collector failed; traces are dropped until the \
                         collector is available again"
                    );
                }
                Err(OTelSdkError::InternalFailure("sending failed".to_owned()))
            }
        }
    }
}
