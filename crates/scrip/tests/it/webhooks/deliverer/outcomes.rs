//! Successful deliveries.

use scrip_core::policy::destination::LoopbackDestinations;
use scrip_seal::{WebhookSecret, sign_with_secrets};
use scrip_testing::destination::DestinationServer;

use super::{DelivererHarness, parse_body, respond};

#[test]
fn event_is_delivered_once_with_its_signatures() {
    let harness = DelivererHarness::start();
    let host = harness.receivers.host(&[respond(204)]);
    let webhook = harness.create_webhook(&host.url("/hooks"));
    harness.raise(1);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    let (request, row) = (host.single_request(), harness.single_row(&webhook));
    assert_eq!((row.attempts, row.status, &*row.error), (1, 204, ""));
    let body = parse_body(&request);
    assert_eq!(body["event"]["type"], "token.created");
    assert_eq!(body["event"]["id"], request.header("webhook-id").unwrap());
    let secret = WebhookSecret::parse(&webhook.secret).unwrap();
    let seconds = request.header("webhook-timestamp").unwrap().parse().unwrap();
    let id = request.header("webhook-id").unwrap();
    let expected = sign_with_secrets(&[&secret], id, seconds, &request.body);
    assert_eq!(request.header("webhook-signature"), Some(&*expected));
    assert_eq!(request.header("bt-signature").unwrap().len(), 344, "256 bytes in base64");
}

#[test]
fn many_webhooks_of_many_tenants_get_each_event_once() {
    let harness = DelivererHarness::start();
    let mut hosts = Vec::new();
    for _ in 0..10 {
        let keys = harness.server.create_default_tenant();
        for _ in 0..5 {
            let host = harness.receivers.host(&[respond(200)]);
            let webhook = harness.create_webhook_of(&keys, &host.url("/"));
            hosts.push((host, webhook));
        }
        harness.raise_of(&keys, 4);
    }
    for (host, webhook) in &hosts {
        harness.wait_for_rows(webhook, |it| it.state == "delivered");
        let requests = host.requests();
        let mut ids: Vec<_> = requests.iter().map(|it| it.header("webhook-id").unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), requests.len()), (4, 4));
    }
}

#[test]
fn development_server_delivers_to_a_plain_receiver_on_its_machine() {
    let (receiver, host) = DestinationServer::start_plain(&[respond(200)]);
    let harness = DelivererHarness::start_with(|setup, egress| {
        setup.settings.loopback_destinations = LoopbackDestinations::Allowed;
        egress.loopback_http = true;
    });
    let webhook = harness.create_webhook(&host.url("/hooks"));
    harness.raise(1);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    assert_eq!(host.request_count(), 1);
    drop(receiver);
}
