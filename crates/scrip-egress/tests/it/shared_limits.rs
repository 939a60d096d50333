//! Limits that are shared fairly between tenants.

use std::{io, net::Ipv4Addr, sync::Arc, time::Duration};

use scrip_egress::{
    ConnectionScope, Delivery, Destination, EgressClient, EgressLimits, LookupFuture, Resolve,
    SendError, SendFailure,
};
use tokio::{sync::Semaphore, task::JoinHandle, time::Instant};

use crate::{
    peers::{Peer, read_request, wait_until},
    support::{TestAuthority, client, get, peer_url, permissive_settings, scope, soon, text},
};

const OVERLOADED: SendError =
    SendError { delivery: Delivery::NotSent, failure: SendFailure::Overloaded };

/// A destination that responds below `/fast`, and elsewhere only after a permission.
struct SlowPeer {
    peer: Peer,
    responses: Arc<Semaphore>,
    client: EgressClient,
}

impl SlowPeer {
    async fn start(limits: EgressLimits) -> Self {
        let authority = TestAuthority::new();
        let responses = Arc::new(Semaphore::new(0));
        let permissions = Arc::clone(&responses);
        let handle = move |mut stream, log: crate::peers::PeerLog| {
            let permissions = Arc::clone(&permissions);
            async move {
                loop {
                    let request = read_request(&mut stream).await?;
                    let is_fast = request.starts_with("GET /fast");
                    log.record(request);
                    if !is_fast {
                        permissions.acquire().await.map_err(io::Error::other)?.forget();
                    }
                    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    tokio::io::AsyncWriteExt::write_all(&mut stream, response).await?;
                }
            }
        };
        let peer = Peer::start(Some(authority.server_config()), handle).await;
        let mut settings = permissive_settings(peer.port(), authority.roots());
        settings.limits = limits;
        Self { peer, responses, client: client(settings) }
    }

    fn request(&self, path: &str, scope: ConnectionScope) -> JoinHandle<Result<String, SendError>> {
        let (client, destination) = (self.client.clone(), peer_url(self.peer.port(), path));
        tokio::spawn(async move {
            let response = client.send(&destination, scope, None, get(), soon()).await?;
            Ok(text(response).await)
        })
    }

    async fn wait_for_requests(&self, count: usize) {
        wait_until(|| self.peer.log.requests().len() == count).await;
    }
}

#[tokio::test]
async fn tenant_with_slow_destinations_leaves_half_to_others() {
    let limits = EgressLimits { requests_max: 8, waiting_max: 100, ..EgressLimits::default() };
    let slow = SlowPeer::start(limits).await;
    let requests: Vec<_> = (0..10).map(|it| slow.request("/slow", scope(1, it))).collect();
    slow.wait_for_requests(4).await;
    wait_until(|| slow.client.stats().requests_waiting == 6).await;
    // Another tenant is served at once, several times.
    for _ in 0..5 {
        assert_eq!(slow.request("/fast", scope(2, 0)).await.unwrap().unwrap(), "ok");
    }
    assert_eq!(slow.client.stats().requests_in_progress, 4);
    slow.responses.add_permits(10);
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap(), "ok");
    }
    let stats = slow.client.stats();
    assert_eq!((stats.requests_in_progress, stats.requests_waiting), (0, 0));
}

#[tokio::test]
async fn freed_places_go_to_the_waiting_tenants_in_turn() {
    let limits = EgressLimits { requests_max: 4, waiting_max: 100, ..EgressLimits::default() };
    let slow = SlowPeer::start(limits).await;
    // The first tenant has two places and many waiting requests; the second gets the third place.
    let first: Vec<_> = (0..20).map(|it| slow.request("/first", scope(1, it))).collect();
    slow.wait_for_requests(2).await;
    let second: Vec<_> = (0..20).map(|it| slow.request("/second", scope(2, it))).collect();
    slow.wait_for_requests(3).await;
    wait_until(|| slow.client.stats().requests_waiting == 37).await;
    for count in 4..=18 {
        slow.responses.add_permits(1);
        slow.wait_for_requests(count).await;
    }
    let log = slow.peer.log.requests();
    let served = log.iter().filter(|it| it.starts_with("GET /second")).count();
    assert!((8..=10).contains(&served), "{served} of 18");
    for request in second.into_iter().chain(first) {
        slow.responses.add_permits(1);
        request.abort();
    }
}

#[tokio::test]
async fn slow_destination_leaves_the_share_of_its_tenant_to_others() {
    let limits = EgressLimits {
        requests_max: 100,
        destination_requests_max: 2,
        waiting_max: 8,
        ..EgressLimits::default()
    };
    let slow = SlowPeer::start(limits).await;
    let requests: Vec<_> = (0..6).map(|_| slow.request("/slow", scope(1, 1))).collect();
    slow.wait_for_requests(2).await;
    wait_until(|| slow.client.stats().requests_waiting == 4).await;
    assert_eq!(slow.client.stats().requests_in_progress, 2);
    // The waiting places of the destination are used.
    assert_eq!(slow.request("/slow", scope(1, 1)).await.unwrap().unwrap_err(), OVERLOADED);
    // Another part of the tenant is not affected.
    assert_eq!(slow.request("/fast", scope(1, 2)).await.unwrap().unwrap(), "ok");
    slow.responses.add_permits(6);
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap(), "ok");
    }
    assert_eq!(slow.peer.log.connections(), 3);
}

#[tokio::test]
async fn cancelled_and_late_requests_leave_the_queue() {
    let limits = EgressLimits { requests_max: 2, waiting_max: 100, ..EgressLimits::default() };
    let slow = SlowPeer::start(limits).await;
    let active = slow.request("/slow", scope(1, 1));
    slow.wait_for_requests(1).await;
    let waiting: Vec<_> = (0..5).map(|_| slow.request("/slow", scope(1, 1))).collect();
    wait_until(|| slow.client.stats().requests_waiting == 5).await;
    let deadline = Instant::now() + Duration::from_millis(50);
    let destination = peer_url(slow.peer.port(), "/slow");
    let result = slow.client.send(&destination, scope(1, 1), None, get(), deadline).await;
    let expected = SendError { delivery: Delivery::NotSent, failure: SendFailure::Timeout };
    assert_eq!(result.unwrap_err(), expected);
    for request in &waiting {
        request.abort();
    }
    wait_until(|| slow.client.stats().requests_waiting == 0).await;
    slow.responses.add_permits(1);
    assert_eq!(active.await.unwrap().unwrap(), "ok");
    assert_eq!(slow.client.stats().requests_in_progress, 0);
    assert_eq!(slow.request("/fast", scope(1, 1)).await.unwrap().unwrap(), "ok");
    assert_eq!(slow.peer.log.requests().len(), 2);
}

/// A resolver that answers for some names only after a permission.
#[derive(Debug)]
struct SlowResolver(Arc<Semaphore>);

impl Resolve for SlowResolver {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a> {
        Box::pin(async move {
            if name.starts_with("slow") {
                self.0.acquire().await.map_err(io::Error::other)?.forget();
            }
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        })
    }
}

#[tokio::test]
async fn slow_lookups_of_a_tenant_leave_places_to_others() {
    let lookups = Arc::new(Semaphore::new(0));
    let mut settings = permissive_settings(443, scrip_egress::TrustedRoots::none());
    settings.resolver = Arc::new(SlowResolver(Arc::clone(&lookups)));
    settings.limits.lookups_max = 4;
    let client = client(settings);
    let slow = Destination::parse("https://slow.example/").unwrap();
    let fast = Destination::parse("https://fast.example/").unwrap();
    let checks: Vec<_> = (0..10)
        .map(|_| {
            let (client, slow) = (client.clone(), slow.clone());
            tokio::spawn(async move { client.check(&slow, scope(1, 1)).await })
        })
        .collect();
    wait_until(|| client.stats().lookups == 2).await;
    for _ in 0..5 {
        assert!(client.check(&fast, scope(2, 1)).await.is_ok());
    }
    // A cancelled check keeps its place until the lookup ends.
    for check in &checks {
        check.abort();
    }
    for check in checks {
        assert!(check.await.is_err());
    }
    let (late_client, late) = (client.clone(), fast.clone());
    let check = tokio::spawn(async move { late_client.check(&late, scope(1, 1)).await });
    assert!(client.check(&fast, scope(2, 1)).await.is_ok());
    assert!(!check.is_finished());
    lookups.add_permits(2);
    assert!(check.await.unwrap().is_ok());
}
