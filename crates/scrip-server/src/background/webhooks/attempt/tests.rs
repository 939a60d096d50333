//! Attempts against real receivers over TLS.

use std::{net::Ipv4Addr, sync::Arc};

use scrip_core::{
    events::{Event, EventJson, payload::token::describe_deleted_token},
    types::{
        EventType,
        id::{EventId, TenantId, TokenId},
    },
};
use scrip_egress::{
    AllowList, EgressSettings, GuardRejection, LookupFuture, Resolve, TlsFailure, TrustedRoots,
};
use scrip_seal::{RootKey, WebhookSecret, WebhookSigningKey, sign_with_secrets};
use scrip_testing::destination::{
    DestinationHost, DestinationServer,
    authority::{HostTls, HttpVersions},
    behavior::{CannedResponse, DestinationBehavior},
};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::*;
use crate::background::webhooks::signer::EventDelivery;

const NOW: Timestamp = Timestamp { unix_ms: 1_700_000_000_999 };
/// Long enough for a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);
const EVENT_ID: EventId = EventId(Uuid::from_u128(7));

#[derive(Debug)]
struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn lookup<'a>(&'a self, _name: &'a str) -> LookupFuture<'a> {
        Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })
    }
}

/// A server with receivers, a client that may reach them, and the keys of a webhook.
struct AttemptHarness {
    /// The server has a runtime of its own, so a test function cannot run in one.
    runtime: Runtime,
    server: DestinationServer,
    client: EgressClient,
    signing_key: WebhookSigningKey,
    secrets: [WebhookSecret; 2],
    event: EventJson,
}

impl AttemptHarness {
    fn new() -> Self {
        Self::with_allowed_names(&["*", "127.0.0.0/8"])
    }

    fn with_allowed_names(names: &[&str]) -> Self {
        let server = DestinationServer::start();
        let roots = TrustedRoots::from_pem(&server.authority.root_pem()).unwrap();
        let mut settings = EgressSettings::new(roots);
        settings.allow_list = AllowList::parse(names.iter().copied()).unwrap();
        settings.allowed_ports = vec![server.address.port()];
        settings.resolver = Arc::new(LoopbackResolver);
        let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
        let event = Event {
            id: EVENT_ID,
            event_type: EventType::TokenDeleted.as_str(),
            at: NOW,
            tenant: TenantId(Uuid::from_u128(8)),
            trace: "trace-1".into(),
            actor: None,
            data: describe_deleted_token(&TokenId::parse("customer-7").unwrap()),
        };
        Self {
            runtime: Runtime::new().unwrap(),
            server,
            client: EgressClient::new(settings).unwrap(),
            signing_key: WebhookSigningKey::create(&root).unwrap().0,
            secrets: [(); 2].map(|()| WebhookSecret::new(scrip_seal::fill_random)),
            event: event.to_json(),
        }
    }

    fn attempt(&self, host: &DestinationHost, timeout: Duration) -> AttemptReport {
        let destination = Destination::parse(&host.url("/hooks?tenant=7")).unwrap();
        let receiver = WebhookReceiver {
            client: &self.client,
            destination: &destination,
            scope: ConnectionScope { tenant: [1; 16], part: [2; 16] },
            timeout,
        };
        let [current, previous] = &self.secrets;
        let delivery = EventDelivery {
            event_id: EVENT_ID,
            event: &self.event,
            secrets: &[current, previous],
            signing_key: &self.signing_key,
        };
        self.runtime.block_on(receiver.attempt(delivery.sign(NOW).unwrap(), NOW))
    }

    /// Attempts a delivery to a new receiver with this behavior.
    fn report(&self, behavior: DestinationBehavior) -> AttemptReport {
        self.attempt(&self.server.host(&[behavior]), LONG_TIMEOUT)
    }

    fn outcome(&self, behavior: DestinationBehavior) -> AttemptOutcome {
        self.report(behavior).outcome
    }
}

const FAILED: AttemptOutcome = AttemptOutcome::Failed { retry_after: None };

#[test]
fn receiver_gets_a_signed_canonical_body_and_all_headers() {
    let harness = AttemptHarness::new();
    let host = harness.server.host(&[DestinationBehavior::text(204, "")]);
    let report = harness.attempt(&host, LONG_TIMEOUT);
    assert_eq!((report.outcome, report.status), (AttemptOutcome::Delivered, Some(204)));
    assert_eq!(report.failure, None);
    let request = host.single_request();
    assert_eq!((&*request.method, &*request.target), ("POST", "/hooks?tenant=7"));
    assert_eq!(request.text(), harness.event.to_delivery(NOW));
    let (id, [current, previous]) = (EVENT_ID.to_string(), &harness.secrets);
    let signatures =
        sign_with_secrets(&[current, previous], &id, 1_700_000_000, request.text().as_bytes());
    let user_agent = format!("scrip-webhooks/{}", env!("CARGO_PKG_VERSION"));
    let expected = [
        ("content-type", "application/json"),
        ("user-agent", &user_agent),
        ("bt-signature-version", "v1"),
        ("webhook-id", &id),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", &signatures),
    ];
    for (name, value) in expected {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    // 256 bytes in base64. Its content is verified by the tests of the key and of other languages.
    assert_eq!(request.header("bt-signature").unwrap().len(), 344);
    assert_eq!(request.header_names().len(), expected.len() + 3, "host, length, bt-signature");
}

#[test]
fn http_two_receiver_gets_the_same_delivery() {
    let harness = AttemptHarness::new();
    let behaviors = [DestinationBehavior::text(200, "ok")];
    let host = harness.server.host_with(HostTls::Trusted, HttpVersions::Http2, &behaviors);
    let report = harness.attempt(&host, LONG_TIMEOUT);
    assert_eq!(report.outcome, AttemptOutcome::Delivered);
    let request = host.single_request();
    assert!(request.is_http2);
    assert_eq!(request.text(), harness.event.to_delivery(NOW));
}

#[test]
fn status_of_the_answer_decides_the_outcome() {
    let harness = AttemptHarness::new();
    let respond = |status| DestinationBehavior::text(status, "body");
    assert_eq!(harness.outcome(respond(200)), AttemptOutcome::Delivered);
    assert_eq!(harness.outcome(respond(410)), AttemptOutcome::Gone);
    for status in [400, 404, 429, 500, 503] {
        assert_eq!(harness.outcome(respond(status)), FAILED, "{status}");
    }
    let busy = CannedResponse::new(503, "text/plain", "busy").with_header("Retry-After", "120");
    let retry_after = Some(Duration::from_secs(120));
    assert_eq!(harness.outcome(busy.into()), AttemptOutcome::Failed { retry_after });
}

#[test]
fn redirect_fails_and_is_not_followed() {
    let harness = AttemptHarness::new();
    let target = harness.server.host(&[DestinationBehavior::text(200, "ok")]);
    for status in [301, 302, 307, 308] {
        let redirect = CannedResponse::new(status, "text/plain", "")
            .with_header("Location", &target.url("/hooks"));
        assert_eq!(harness.outcome(redirect.into()), FAILED, "{status}");
    }
    assert_eq!(target.request_count(), 0);
}

#[test]
fn receiver_that_never_answers_fails_after_the_timeout() {
    let harness = AttemptHarness::new();
    let host = harness.server.host(&[DestinationBehavior::Silent]);
    let report = harness.attempt(&host, Duration::from_millis(300));
    assert_eq!((report.outcome, report.status), (FAILED, None));
    assert_eq!(report.failure, Some(SendFailure::Timeout));
    assert!(report.elapsed >= Duration::from_millis(300));
}

#[test]
fn receiver_that_stops_within_its_body_has_answered() {
    let harness = AttemptHarness::new();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec();
    let report = harness.report(DestinationBehavior::RawThenSilent(head));
    assert_eq!((report.outcome, report.status), (AttemptOutcome::Delivered, Some(200)));
    assert!(report.elapsed < LONG_TIMEOUT, "the attempt does not wait for the body");
}

#[test]
fn long_and_endless_bodies_do_not_change_the_outcome() {
    let harness = AttemptHarness::new();
    let long = DestinationBehavior::text(200, &"x".repeat(100_000));
    assert_eq!(harness.outcome(long), AttemptOutcome::Delivered);
    assert_eq!(harness.outcome(DestinationBehavior::Endless), AttemptOutcome::Delivered);
}

#[test]
fn connection_is_used_again_only_after_a_short_body() {
    let harness = AttemptHarness::new();
    for (body_length, expected) in [(1024, 1), (1025, 2)] {
        let body = "x".repeat(body_length);
        let host = harness.server.host(&[DestinationBehavior::text(200, &body)]);
        for _ in 0..2 {
            let report = harness.attempt(&host, LONG_TIMEOUT);
            assert_eq!(report.outcome, AttemptOutcome::Delivered);
        }
        assert_eq!(host.connections(), expected, "body of {body_length} bytes");
    }
}

#[test]
fn broken_connection_and_unknown_certificate_fail() {
    let harness = AttemptHarness::new();
    let report = harness.report(DestinationBehavior::HangUp);
    assert_eq!(report.outcome, FAILED);
    assert_eq!(report.failure, Some(SendFailure::Closed));
    let report = harness.report(DestinationBehavior::Raw(b"no HTTP\r\n\r\n".to_vec()));
    assert_eq!(report.failure, Some(SendFailure::Malformed));
    let behaviors = [DestinationBehavior::text(200, "ok")];
    let host = harness.server.host_with(HostTls::UnknownAuthority, HttpVersions::Http1, &behaviors);
    let report = harness.attempt(&host, LONG_TIMEOUT);
    let failure = SendFailure::Tls(TlsFailure::CertificateAuthority);
    assert_eq!(report.failure, Some(failure));
    assert_eq!(host.request_count(), 0);
}

#[test]
fn receiver_on_an_inner_network_gets_no_request() {
    let harness = AttemptHarness::with_allowed_names(&[]);
    let host = harness.server.host(&[DestinationBehavior::text(200, "ok")]);
    let report = harness.attempt(&host, LONG_TIMEOUT);
    assert_eq!(report.outcome, FAILED);
    let is_guard = |failure| {
        let SendFailure::Rejected(rejection) = failure else { return false };
        matches!(rejection, GuardRejection::Address(_))
    };
    assert!(report.failure.is_some_and(is_guard), "{report:?}");
    assert!(!report.failure.unwrap().to_string().contains(host.name()));
    assert_eq!(harness.server.connections(), 0);
}

#[test]
fn only_a_failure_of_the_vault_postpones_a_delivery() {
    assert_eq!(classify_failure(SendFailure::Overloaded), AttemptOutcome::Postponed);
    let failures = [SendFailure::Lookup, SendFailure::Timeout, SendFailure::Closed];
    assert_eq!(failures.map(classify_failure), [FAILED; 3]);
}
