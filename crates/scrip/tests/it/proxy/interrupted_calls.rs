//! Events between the loading of a token and the start of a call: another node sends a call with the
//! same idempotency key, or the client disconnects.

use std::{
    io::Write,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use scrip_core::{
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotencyLookup, IdempotencyRecord},
    policy::LookupPermit,
    read_log::ReadLogBatch,
    store::Store,
    types::StoreFuture,
};
use scrip_server::listen::serve_plain;
use scrip_testing::{
    destination::behavior::DestinationBehavior,
    faults::intercepted_store::{InterceptedStore, Interceptor},
    process::harness::becomes_true,
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, oneshot},
    time::timeout,
};

use crate::{
    harness::server::{TestServer, text_field},
    proxy::{
        harness::{ProxyHarness, ProxyResponse, StatedDelivery, TestCard},
        idempotency::new_key,
    },
};

/// A step of the store at which calls wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PausedStep {
    /// The record of tokens in a rejected call.
    RejectedUse,
    /// The record of an idempotency key, before the first byte leaves.
    CallRecord,
}

/// Lets calls wait at one step.
struct StorePause {
    step: PausedStep,
    waiting: AtomicUsize,
    cancelled: AtomicUsize,
    resume: Semaphore,
}

/// Counts a wait that ends because its call is dropped.
struct CancelledWait<'a>(&'a AtomicUsize);

impl Drop for CancelledWait<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl StorePause {
    fn new(step: PausedStep) -> Arc<Self> {
        let (waiting, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { step, waiting, cancelled, resume: Semaphore::new(0) })
    }

    async fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let cancelled = CancelledWait(&self.cancelled);
        self.resume.acquire().await.unwrap().forget();
        std::mem::forget(cancelled);
    }

    #[track_caller]
    fn expect_waiting(&self) {
        assert!(becomes_true(|| self.waiting.load(Ordering::SeqCst) > 0), "no call waits");
    }

    #[track_caller]
    fn expect_cancelled(&self) {
        assert!(becomes_true(|| self.cancelled.load(Ordering::SeqCst) > 0), "the call waits");
    }

    fn resume_all(&self) {
        self.resume.add_permits(100);
    }
}

struct PausedStore(Arc<StorePause>);

impl Interceptor for PausedStore {
    fn insert_call_record<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        permit: &'a LookupPermit,
        record: IdempotencyRecord,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            if self.0.step == PausedStep::CallRecord {
                self.0.wait().await;
            }
            engine.insert_call_record(permit, record, entries).await
        })
    }

    fn append_read_log<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        batch: ReadLogBatch,
    ) -> StoreFuture<'a, ()> {
        let is_rejected_use = batch.entries.iter().any(|it| it.outcome.contains("rejected_call"));
        Box::pin(async move {
            if is_rejected_use && self.0.step == PausedStep::RejectedUse {
                self.0.wait().await;
            }
            engine.append_read_log(batch).await
        })
    }
}

/// Another node: claims of idempotency keys are in the memory of one node.
struct OtherNode;

impl Interceptor for OtherNode {
    fn claim_idempotency_key<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        lookup: IdempotencyLookup,
    ) -> StoreFuture<'a, ClaimOutcome> {
        Box::pin(async move {
            Ok(match engine.claim_idempotency_key(lookup).await? {
                ClaimOutcome::InFlight => {
                    ClaimOutcome::Claimed(IdempotencyClaim::new(lookup.digest, Box::new(())))
                }
                outcome @ (ClaimOutcome::Claimed(_) | ClaimOutcome::Completed(_)) => outcome,
            })
        })
    }
}

/// Two nodes. Calls of the first one wait at a step.
struct PausedHarness {
    harness: ProxyHarness,
    pause: Arc<StorePause>,
    other_node: TestServer,
    host: scrip_testing::destination::DestinationHost,
    card: TestCard,
}

impl PausedHarness {
    fn start(step: PausedStep) -> Self {
        let pause = StorePause::new(step);
        let mut engine = None;
        let harness = ProxyHarness::start_with(|setup, _| {
            let inner = Arc::clone(&setup.vault.store);
            engine = Some(Arc::clone(&inner));
            let interceptor = PausedStore(Arc::clone(&pause));
            setup.vault.store = Arc::new(InterceptedStore { engine: inner, interceptor });
        });
        let card = harness.create_card();
        let other_node = harness.start_second_node(|setup| {
            let (engine, interceptor) = (engine.unwrap(), OtherNode);
            setup.vault.store = Arc::new(InterceptedStore { engine, interceptor });
        });
        let host = harness.destinations.host(&[]);
        Self { harness, pause, other_node, host, card }
    }

    fn send(&self, node: &TestServer, key: &str, expression: String) -> ProxyResponse {
        let request = self.harness.request_to(node, "POST", "/proxy");
        let request = request.api_key(&self.harness.keys.private).url(&self.host.url(""));
        request.idempotency_key(key).json(&json!([expression])).send()
    }

    fn failing_expression(&self) -> String {
        format!("{{{{ {} | json: '$.number' | append: 'x' | to_number }}}}", self.card.id)
    }

    /// The outcomes of the uses of the card, oldest first.
    fn uses(&self) -> Vec<String> {
        let path = format!("/logs?operation=use_token&entity_id={}", self.card.id);
        let logs = self.harness.server.get_path(&self.harness.keys.management, &path);
        let logs = logs.expect_status(200);
        logs["data"].as_array().unwrap().iter().rev().map(|it| text_field(it, "outcome")).collect()
    }
}

#[test]
fn rejected_call_is_maybe_sent_if_another_node_sent_a_call_with_its_key() {
    let paused = PausedHarness::start(PausedStep::RejectedUse);
    let key = new_key();
    thread::scope(|scope| {
        let rejected =
            scope.spawn(|| paused.send(&paused.harness.server, &key, paused.failing_expression()));
        paused.pause.expect_waiting();
        let sent = paused.send(&paused.other_node, &key, paused.card.number_expression());
        sent.expect_answer(200);
        paused.pause.resume_all();
        rejected.join().unwrap().expect_error(400, StatedDelivery::MaybeSent);
    });
    assert_eq!(paused.host.request_count(), 1);
    // Without a call of another node, the same rejection is certain.
    let rejected = paused.send(&paused.harness.server, &new_key(), paused.failing_expression());
    rejected.expect_not_sent(400);
}

#[test]
fn use_is_recorded_if_another_node_starts_a_call_with_the_same_key_first() {
    let paused = PausedHarness::start(PausedStep::CallRecord);
    let key = new_key();
    thread::scope(|scope| {
        let second = scope
            .spawn(|| paused.send(&paused.harness.server, &key, paused.card.number_expression()));
        paused.pause.expect_waiting();
        let sent = paused.send(&paused.other_node, &key, paused.card.number_expression());
        sent.expect_answer(200);
        paused.pause.resume_all();
        second.join().unwrap().expect_error(409, StatedDelivery::MaybeSent);
    });
    assert_eq!(paused.host.request_count(), 1);
    assert_eq!(paused.uses(), ["used_in_call", "used_in_rejected_call"]);
}

#[test]
fn use_is_recorded_if_the_client_disconnects_before_the_rejection() {
    let paused = PausedHarness::start(PausedStep::RejectedUse);
    let body = json!([paused.failing_expression()]).to_string();
    let request = format!(
        "POST /proxy HTTP/1.1\r\nHost: vault\r\nBT-API-KEY: {}\r\nBT-PROXY-URL: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        paused.harness.keys.private,
        paused.host.url(""),
        body.len(),
    );
    let mut stream = TcpStream::connect(paused.harness.server.address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    paused.pause.expect_waiting();
    drop(stream);
    paused.pause.expect_cancelled();
    assert!(paused.uses().is_empty());
    paused.pause.resume_all();
    assert!(becomes_true(|| paused.uses() == ["used_in_rejected_call"]), "{:?}", paused.uses());
}

/// Otherwise a slow destination would delay the stop of the server beyond its drain deadline.
#[test]
fn call_in_its_own_task_ends_when_the_server_stops_and_is_maybe_sent() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[DestinationBehavior::Silent]);
    let proxy = harness.create_proxy_to(&host, json!({"timeout": 60}));
    let key = new_key();
    let send = || harness.post_to(&proxy).idempotency_key(&key).json(&json!({})).send();
    thread::scope(|scope| {
        let call = scope.spawn(send);
        host.wait_for_requests(1);
        harness.server.app.tasks.calls.stop();
        call.join().unwrap().expect_error(503, StatedDelivery::MaybeSent);
    });
    send().expect_error(409, StatedDelivery::MaybeSent);
    assert_eq!(host.request_count(), 1);
}

/// The task of such a call does not end with its connection.
#[test]
fn server_that_stops_ends_calls_with_an_idempotency_key_at_the_drain_deadline() {
    let harness = ProxyHarness::start_with(|setup, _| {
        setup.node.connection_limits.drain_deadline = Duration::from_millis(50);
    });
    let host = harness.destinations.host(&[DestinationBehavior::Silent]);
    let proxy = harness.create_proxy_to(&host, json!({"timeout": 60}));
    let (server, key) = (&harness.server, new_key());
    let listener = server.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop_sender, stop_receiver) = oneshot::channel::<()>();
    let stop = async move { drop(stop_receiver.await) };
    let serving = server.runtime.spawn(serve_plain(Arc::clone(&server.node), listener, stop));
    let request = format!(
        "POST /proxy HTTP/1.1\r\nHost: vault\r\nBT-API-KEY: {}\r\nBT-PROXY-KEY: {}\r\n\
         BT-IDEMPOTENCY-KEY: {key}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}",
        harness.keys.private, proxy.key,
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    host.wait_for_requests(1);
    stop_sender.send(()).unwrap();
    server.runtime.block_on(async {
        timeout(Duration::from_secs(45), serving).await.expect("the server stops").unwrap();
        let is_idle = server.app.tasks.calls.wait_until_idle(Duration::ZERO).await;
        assert!(is_idle, "the call continues after the stop of the server");
    });
    let repetition = harness.post_to(&proxy).idempotency_key(&key).json(&json!({})).send();
    repetition.expect_error(409, StatedDelivery::MaybeSent);
    assert_eq!(host.request_count(), 1);
}
