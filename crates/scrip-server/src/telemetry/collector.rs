//! Sends batches of spans to a collector: OTLP, protobuf over plain HTTP. Runs on the thread of the
//! batches, so it may block; a batch that cannot be sent is dropped.

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

const DEADLINE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct CollectorExporter {
    endpoint: String,
    agent: Agent,
    resource: ResourceAttributesWithSchema,
    /// The last batch did not arrive: said once, and not again until one does.
    is_failing: AtomicBool,
}

impl CollectorExporter {
    pub(super) fn new(CollectorUrl(endpoint): &CollectorUrl, resource: &Resource) -> Self {
        // Without a proxy: its library would look for one in the environment.
        let config = Agent::config_builder().proxy(None).max_redirects(0);
        let agent = config.timeout_global(Some(DEADLINE)).build().into();
        let (endpoint, resource) = (endpoint.clone(), resource.into());
        Self { endpoint, agent, resource, is_failing: AtomicBool::new(false) }
    }

    fn send(&self, body: &[u8]) -> Result<(), ureq::Error> {
        let request = self.agent.post(&self.endpoint).content_type("application/x-protobuf");
        // Read to its end, so that the connection can be used again.
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
                    tracing::info!("the collector takes traces again");
                }
                Ok(())
            }
            Err(error) => {
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "the collector takes no traces; they are dropped");
                }
                Err(OTelSdkError::InternalFailure("not sent".to_owned()))
            }
        }
    }
}
