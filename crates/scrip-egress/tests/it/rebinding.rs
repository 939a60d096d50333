//! Names with changing addresses, and redirects.

use std::sync::{Arc, atomic::Ordering};

use hyper::StatusCode;
use scrip_egress::{AddressClass, EgressSettings, GuardRejection, SendFailure};

use crate::{
    peers::Peer,
    support::{
        PEER_NAME, SCOPE, TableResolver, TestAuthority, client, get, peer_url, permissive_settings,
        send, text,
    },
};

#[tokio::test]
async fn connection_uses_the_checked_address_without_a_second_lookup() {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    // The first address is permitted. A second lookup would return another one.
    let resolver = TableResolver::new(&[(PEER_NAME, &[&["127.0.0.1"], &["127.0.0.99"]])]);
    let mut settings = permissive_settings(peer.port(), authority.roots());
    settings.resolver = Arc::<TableResolver>::clone(&resolver);
    let client = client(settings);
    for _ in 0..3 {
        let response = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap();
        text(response).await;
    }
    assert_eq!(resolver.lookups.load(Ordering::SeqCst), 1);
    assert_eq!(peer.log.connections(), 1);
}

#[tokio::test]
async fn rebound_name_is_rejected_at_the_next_connection() {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    let rows: &[&[&str]] = &[&["93.184.216.34"], &["127.0.0.1"]];
    let settings = |is_guarded| {
        let mut settings = EgressSettings::new(authority.roots());
        settings.allowed_ports = vec![peer.port()];
        settings.resolver = TableResolver::new(&[(PEER_NAME, rows)]);
        if is_guarded { settings } else { settings.without_guard_for_control_run() }
    };
    let destination = peer_url(peer.port(), "/");

    let guarded = client(settings(true));
    assert!(guarded.check(&destination, SCOPE).await.is_ok());
    let error = send(&guarded, &destination, get()).await.unwrap_err();
    let rejection = GuardRejection::Address(AddressClass::Loopback);
    assert_eq!(error.failure, SendFailure::Rejected(rejection));
    assert_eq!(peer.log.connections(), 0);

    // Without the guard, the second address is reached.
    let control = client(settings(false));
    assert!(control.check(&destination, SCOPE).await.is_ok());
    assert!(send(&control, &destination, get()).await.is_ok());
    assert_eq!(peer.log.requests().len(), 1);
}

#[tokio::test]
async fn redirects_are_responses() {
    let authority = TestAuthority::new();
    let target = Peer::start_echo(None).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("http://127.0.0.1:{}/", target.port());
        let response =
            format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let peer = Peer::start_canned(Some(authority.server_config()), response.into()).await;
        let client = client(permissive_settings(peer.port(), authority.roots()));
        let response = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap();
        assert_eq!(response.status(), StatusCode::from_u16(status).unwrap());
        assert_eq!(response.headers()["location"], location);
    }
    assert_eq!(target.log.connections(), 0);
}
