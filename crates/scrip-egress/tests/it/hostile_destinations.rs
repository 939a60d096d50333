//! A table of hostile destinations, judged without a connection.

use std::sync::Arc;

use scrip_egress::{
    AddressClass, CheckError, Destination, DestinationError, EgressClient, EgressSettings,
    GuardRejection, SendFailure, TrustedRoots,
};
use tokio::net::TcpListener;

use crate::{
    peers::Peer,
    support::{SCOPE, TableResolver, client, get, permissive_settings, send, text},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Syntax(DestinationError),
    Rejected(GuardRejection),
    Unresolved,
    Allowed,
}

const SCHEME: Verdict = Verdict::Syntax(DestinationError::Scheme);
const CHARACTER: Verdict = Verdict::Syntax(DestinationError::Character);
const FRAGMENT: Verdict = Verdict::Syntax(DestinationError::Fragment);
const USER_INFO: Verdict = Verdict::Syntax(DestinationError::UserInfo);
const HOST: Verdict = Verdict::Syntax(DestinationError::Host);
const LITERAL: Verdict = Verdict::Syntax(DestinationError::AddressLiteral);
const PORT_SYNTAX: Verdict = Verdict::Syntax(DestinationError::Port);
const LOOPBACK_HOST: Verdict = Verdict::Rejected(GuardRejection::LoopbackHost);
const PORT: Verdict = Verdict::Rejected(GuardRejection::Port);
const LOCAL_NAME: Verdict = Verdict::Rejected(GuardRejection::LocalName);

/// URLs that are hostile by themselves.
const URLS: &[(&str, Verdict)] = &[
    // Loopback, in every notation.
    ("https://127.0.0.1/", LOOPBACK_HOST),
    ("https://127.0.0.1:8443/", LOOPBACK_HOST),
    ("https://127.255.255.254/", LOOPBACK_HOST),
    ("https://localhost/", LOOPBACK_HOST),
    ("https://LOCALHOST/", LOOPBACK_HOST),
    ("http://localhost/", LOOPBACK_HOST),
    ("http://127.0.0.1/", LOOPBACK_HOST),
    ("http://[::1]/", LOOPBACK_HOST),
    ("https://[::1]/", LOOPBACK_HOST),
    ("https://[0:0:0:0:0:0:0:1]/", LOOPBACK_HOST),
    ("https://[0000:0000:0000:0000:0000:0000:0000:0001]/", LOOPBACK_HOST),
    ("https://127.1/", HOST),
    ("https://127.0.1/", HOST),
    ("https://127/", HOST),
    ("https://2130706433/", HOST),
    ("https://017700000001/", HOST),
    ("https://0x7f000001/", HOST),
    ("https://0x7f.0.0.1/", HOST),
    ("https://0x7f.1/", HOST),
    ("https://0177.0.0.1/", HOST),
    ("https://0177.0.0.01/", HOST),
    ("https://127.0.0.01/", HOST),
    ("https://127.0.0.0x1/", HOST),
    ("https://00000127.0.0.1/", HOST),
    ("https://127.0.0.1./", HOST),
    ("https://localhost./", HOST),
    ("https://loc%61lhost/", HOST),
    ("https://127%2e0%2e0%2e1/", HOST),
    ("https://%31%32%37.0.0.1/", HOST),
    ("https://127\u{3002}0\u{3002}0\u{3002}1/", CHARACTER),
    ("https://\u{ff11}\u{ff12}\u{ff17}.0.0.1/", CHARACTER),
    ("https://\u{2460}\u{2461}\u{2466}.\u{24ea}.\u{24ea}.\u{2460}/", CHARACTER),
    ("https://\u{24db}ocalhost/", CHARACTER),
    ("https://local\u{ad}host.example/", CHARACTER),
    ("https://localhost.localdomain/", LOCAL_NAME),
    ("https://api.localhost/", LOCAL_NAME),
    ("https://[::ffff:127.0.0.1]/", LITERAL),
    ("https://[::ffff:7f00:1]/", LITERAL),
    ("https://[0:0:0:0:0:ffff:7f00:0001]/", LITERAL),
    ("https://[::127.0.0.1]/", LITERAL),
    ("https://[64:ff9b::7f00:1]/", LITERAL),
    ("https://[2002:7f00:1::]/", LITERAL),
    ("https://[::1%25lo]/", HOST),
    ("https://[::1]x/", HOST),
    ("https://[::1/", HOST),
    ("https://[]/", HOST),
    ("https://[127.0.0.1]/", HOST),
    ("https://::1/", HOST),
    // Other addresses.
    ("https://0.0.0.0/", LITERAL),
    ("https://0/", HOST),
    ("https://[::]/", LITERAL),
    ("https://10.0.0.1/", LITERAL),
    ("https://10.1/", HOST),
    ("https://192.168.1.1/", LITERAL),
    ("https://172.16.0.1/", LITERAL),
    ("https://100.64.0.1/", LITERAL),
    ("https://169.254.169.254/latest/meta-data/", LITERAL),
    ("https://0xa9fea9fe/", HOST),
    ("https://2852039166/", HOST),
    ("https://0251.0376.0251.0376/", HOST),
    ("https://[fd00:ec2::254]/", LITERAL),
    ("https://[fe80::1]/", LITERAL),
    ("https://[fe80::1%25eth0]/", HOST),
    ("https://[fc00::1]/", LITERAL),
    ("https://93.184.216.34/", LITERAL),
    ("https://[2606:2800:220:1:248:1893:25c8:1946]/", LITERAL),
    ("https://[v1.abc]/", HOST),
    // Names of a local network.
    ("https://metadata.google.internal/", LOCAL_NAME),
    ("https://vault.internal/", LOCAL_NAME),
    ("https://db.default.svc.cluster.local/", LOCAL_NAME),
    ("https://printer.local/", LOCAL_NAME),
    ("https://router.lan/", LOCAL_NAME),
    ("https://nas.home.arpa/", LOCAL_NAME),
    ("https://hr.corp/", LOCAL_NAME),
    ("https://metadata/", HOST),
    ("https://kubernetes/", HOST),
    ("https://vault:8200/", HOST),
    // Names that are not DNS names.
    ("https://a..example/", HOST),
    ("https://.example.com/", HOST),
    ("https://example.com./", HOST),
    ("https://-a.example/", HOST),
    ("https://a-.example/", HOST),
    ("https://a_b.example/", HOST),
    ("https://*.example/", HOST),
    ("https://a,b.example/", HOST),
    ("https://a;b.example/", HOST),
    ("https://a b.example/", CHARACTER),
    ("https://ex\u{e4}mple.com/", CHARACTER),
    ("https://\u{430}pi.example/", CHARACTER),
    ("https:///", HOST),
    ("https://", HOST),
    ("https://?a", HOST),
    // User information and confusion about the authority.
    ("https://user@public.example/", USER_INFO),
    ("https://user:secret@public.example/", USER_INFO),
    ("https://@public.example/", USER_INFO),
    ("https://public.example@127.0.0.1/", USER_INFO),
    ("https://public.example:443@127.0.0.1/", USER_INFO),
    ("https://127.0.0.1%40public.example/", HOST),
    ("https://public.example%2f@127.0.0.1/", USER_INFO),
    ("https://public.example\\@127.0.0.1/", CHARACTER),
    ("https://127.0.0.1\\.public.example/", CHARACTER),
    ("https://public.example#@127.0.0.1/", FRAGMENT),
    ("https://public.example/#fragment", FRAGMENT),
    ("https://public.example%23.internal/", HOST),
    ("https:\\\\public.example/", CHARACTER),
    ("https:/public.example/", SCHEME),
    ("https:public.example", SCHEME),
    ("//public.example/", SCHEME),
    ("public.example", SCHEME),
    ("https//public.example", SCHEME),
    (" https://public.example/", CHARACTER),
    ("https://public.example/ ", CHARACTER),
    ("https://public.example/\r\nHost: 127.0.0.1", CHARACTER),
    ("https://public.example\t/", CHARACTER),
    ("https://public\n.example/", CHARACTER),
    ("https://public.example/\0", CHARACTER),
    ("https://public.example/%", CHARACTER),
    ("https://public.example/%0", CHARACTER),
    ("https://public.example/%zz", CHARACTER),
    ("https://public.example/{{ token }}", CHARACTER),
    // Schemes.
    ("http://public.example/", SCHEME),
    ("HTTP://public.example/", SCHEME),
    ("ftp://public.example/", SCHEME),
    ("file:///etc/passwd", SCHEME),
    ("gopher://127.0.0.1:6379/_FLUSHALL", SCHEME),
    ("ldap://public.example/", SCHEME),
    ("ws://public.example/", SCHEME),
    ("unix:///run/scrip.sock", SCHEME),
    ("data:text/plain,a", SCHEME),
    ("javascript://public.example/", SCHEME),
    ("view-source:https://public.example/", SCHEME),
    // Ports.
    ("https://public.example:80/", PORT),
    ("https://public.example:22/", PORT),
    ("https://public.example:25/", PORT),
    ("https://public.example:5432/", PORT),
    ("https://public.example:6379/", PORT),
    ("https://public.example:8443/", PORT),
    ("https://public.example:65535/", PORT),
    ("https://public.example:0/", PORT_SYNTAX),
    ("https://public.example:/", PORT_SYNTAX),
    ("https://public.example:0443/", PORT_SYNTAX),
    ("https://public.example:+443/", PORT_SYNTAX),
    ("https://public.example:-1/", PORT_SYNTAX),
    ("https://public.example:65536/", PORT_SYNTAX),
    ("https://public.example:65979/", PORT_SYNTAX),
    ("https://public.example:443:443/", PORT_SYNTAX),
    ("https://public.example:https/", PORT_SYNTAX),
    ("https://public.example:4 43/", CHARACTER),
    ("https://public.example:\u{96a}\u{96a}\u{969}/", CHARACTER),
];

/// Addresses that the name server of an attacker returns.
const ADDRESSES: &[(&[&str], AddressClass)] = &[
    (&["127.0.0.1"], AddressClass::Loopback),
    (&["127.8.9.10"], AddressClass::Loopback),
    (&["::1"], AddressClass::Loopback),
    (&["::ffff:127.0.0.1"], AddressClass::Loopback),
    (&["::127.0.0.1"], AddressClass::Loopback),
    (&["64:ff9b::127.0.0.1"], AddressClass::Loopback),
    (&["64:ff9b:1::127.0.0.1"], AddressClass::Loopback),
    (&["2002:7f00:1::1"], AddressClass::Loopback),
    (&["::ffff:0:127.0.0.1"], AddressClass::Loopback),
    (&["2001:0:4136:e378:8000:63bf:80ff:fffe"], AddressClass::Loopback),
    (&["2606:4700::5efe:127.0.0.1"], AddressClass::Loopback),
    (&["0.0.0.0"], AddressClass::Unspecified),
    (&["0.1.2.3"], AddressClass::Unspecified),
    (&["::"], AddressClass::Unspecified),
    (&["::ffff:0.0.0.0"], AddressClass::Unspecified),
    (&["10.0.0.1"], AddressClass::Private),
    (&["172.31.255.255"], AddressClass::Private),
    (&["192.168.0.1"], AddressClass::Private),
    (&["::ffff:10.0.0.1"], AddressClass::Private),
    (&["64:ff9b::10.0.0.1"], AddressClass::Private),
    (&["2002:a00:1::1"], AddressClass::Private),
    (&["fc00::1"], AddressClass::Private),
    (&["fd12:3456:789a::1"], AddressClass::Private),
    (&["fec0::1"], AddressClass::Private),
    (&["169.254.169.254"], AddressClass::Metadata),
    (&["169.254.170.2"], AddressClass::Metadata),
    (&["::ffff:169.254.169.254"], AddressClass::Metadata),
    (&["64:ff9b::169.254.169.254"], AddressClass::Metadata),
    (&["2002:a9fe:a9fe::1"], AddressClass::Metadata),
    (&["fd00:ec2::254"], AddressClass::Metadata),
    (&["fd20:ce::254"], AddressClass::Metadata),
    (&["100.100.100.200"], AddressClass::Metadata),
    (&["168.63.129.16"], AddressClass::Metadata),
    (&["192.0.0.192"], AddressClass::Metadata),
    (&["169.254.1.1"], AddressClass::LinkLocal),
    (&["fe80::1"], AddressClass::LinkLocal),
    (&["100.64.0.1"], AddressClass::CarrierGradeNat),
    (&["100.127.255.255"], AddressClass::CarrierGradeNat),
    (&["224.0.0.1"], AddressClass::Multicast),
    (&["239.255.255.255"], AddressClass::Multicast),
    (&["ff02::1"], AddressClass::Multicast),
    (&["240.0.0.1"], AddressClass::Reserved),
    (&["255.255.255.255"], AddressClass::Reserved),
    (&["192.0.0.8"], AddressClass::Reserved),
    (&["100::1"], AddressClass::Reserved),
    (&["4000::1"], AddressClass::Reserved),
    (&["5f00::1"], AddressClass::Reserved),
    (&["2001:10::1"], AddressClass::Reserved),
    (&["192.0.2.1"], AddressClass::Documentation),
    (&["198.51.100.1"], AddressClass::Documentation),
    (&["203.0.113.1"], AddressClass::Documentation),
    (&["2001:db8::1"], AddressClass::Documentation),
    (&["3fff::1"], AddressClass::Documentation),
    (&["198.18.0.1"], AddressClass::Benchmark),
    (&["198.19.255.255"], AddressClass::Benchmark),
    (&["2001:2::1"], AddressClass::Benchmark),
    (&["192.88.99.1"], AddressClass::Transition),
    (&["2002:808:808::1"], AddressClass::Transition),
    (&["2001:0:4136:e378:8000:63bf:f7f7:f7f7"], AddressClass::Transition),
    (&["64:ff9b:1::8.8.8.8"], AddressClass::Transition),
    (&["::8.8.8.8"], AddressClass::Transition),
    // One of several is enough, at any position.
    (&["93.184.216.34", "127.0.0.1"], AddressClass::Loopback),
    (&["127.0.0.1", "93.184.216.34"], AddressClass::Loopback),
    (&["93.184.216.34", "2606:2800::1", "93.184.216.35", "10.0.0.1"], AddressClass::Private),
    (
        &["8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4", "8.8.8.5", "8.8.8.6", "8.8.8.7", "10.0.0.1"],
        AddressClass::Private,
    ),
];

fn guarded_client(resolver: Arc<TableResolver>) -> EgressClient {
    let mut settings = EgressSettings::new(TrustedRoots::none());
    settings.resolver = resolver;
    client(settings)
}

async fn judge(client: &EgressClient, url: &str) -> Verdict {
    let destination = match Destination::parse(url) {
        Ok(it) => it,
        Err(error) => return Verdict::Syntax(error),
    };
    match client.check(&destination, SCOPE).await {
        Ok(_) => Verdict::Allowed,
        Err(CheckError::Rejected(it)) => Verdict::Rejected(it),
        Err(CheckError::Lookup | CheckError::Overloaded) => Verdict::Unresolved,
    }
}

#[tokio::test]
async fn hostile_urls_are_rejected_without_a_lookup() {
    assert!(URLS.len() >= 140, "{} rows", URLS.len());
    let resolver = TableResolver::new(&[]);
    let client = guarded_client(Arc::clone(&resolver));
    for (url, expected) in URLS {
        assert_eq!(judge(&client, url).await, *expected, "{url:?}");
    }
    assert_eq!(resolver.lookups.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn names_with_hostile_addresses_are_rejected() {
    for (addresses, class) in ADDRESSES {
        let client = guarded_client(TableResolver::new(&[("hostile.example", &[addresses])]));
        let expected = Verdict::Rejected(GuardRejection::Address(*class));
        assert_eq!(judge(&client, "https://hostile.example/").await, expected, "{addresses:?}");
    }
}

#[tokio::test]
async fn public_destinations_are_allowed() {
    let addresses: &[&str] =
        &["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::93.184.216.34", "::ffff:93.184.216.34"];
    let names = [
        "public.example",
        "xn--exmple-cua.example",
        "127.0.0.1.nip.example",
        "a.b.c.d.public.example",
        "1.example",
    ];
    let lookups: &[&[&str]] = &[addresses];
    let rows: Vec<_> = names.iter().map(|it| (*it, lookups)).collect();
    let client = guarded_client(TableResolver::new(&rows));
    for name in names {
        for end in ["", "/", ":443/", "/a/b?c=d&e[]=f", "?a=b", "/..;/%2e%2e/", "/a//b|c"] {
            let url = format!("https://{name}{end}");
            assert_eq!(judge(&client, &url).await, Verdict::Allowed, "{url}");
        }
        let url = format!("HTTPS://{}/", name.to_uppercase());
        assert_eq!(judge(&client, &url).await, Verdict::Allowed, "{url}");
    }
    assert_eq!(judge(&client, "https://unknown.example/").await, Verdict::Unresolved);
}

/// URLs and resolver rows that reach this machine without a guard, on the port of the peer.
fn loopback_rows(port: u16) -> Vec<(String, Vec<&'static str>)> {
    let by_name = |address| (format!("https://hostile.example:{port}/"), vec![address]);
    let mut rows = vec![
        (format!("http://127.0.0.1:{port}/"), vec![]),
        (format!("http://127.4.5.6:{port}/"), vec![]),
        (format!("http://localhost:{port}/"), vec![]),
        (format!("http://[::1]:{port}/"), vec![]),
    ];
    rows.extend(
        ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"].map(by_name),
    );
    rows
}

#[tokio::test]
async fn loopback_is_reached_only_without_the_guard() {
    // All addresses of this machine, IPv6 and IPv4.
    let listener = TcpListener::bind("[::]:0").await.unwrap();
    let peer = Peer::start_on(listener, None, |mut stream, log| async move {
        let mut first = [0; 1];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first).await?;
        log.record(format!("{first:?}"));
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached";
        tokio::io::AsyncWriteExt::write_all(&mut stream, response).await
    });
    for (url, addresses) in loopback_rows(peer.port()) {
        let resolver = || TableResolver::new(&[("hostile.example", &[&addresses])]);
        let destination = Destination::parse(&url).unwrap();
        let mut settings = EgressSettings::new(TrustedRoots::none());
        settings.allowed_ports = vec![peer.port()];
        settings.resolver = resolver();
        let seen_before = peer.log.connections();
        let error = send(&client(settings.clone()), &destination, get()).await.unwrap_err();
        let is_rejected = matches!(error.failure, SendFailure::Rejected(_));
        assert!(is_rejected, "{url} {addresses:?}: {error:?}");
        assert_eq!(peer.log.connections(), seen_before, "{url} {addresses:?}");

        let control = client(settings.without_guard_for_control_run());
        let result = send(&control, &destination, get()).await;
        if destination.is_https() {
            // The peer speaks no TLS, but its first byte arrived.
            assert!(matches!(result.unwrap_err().failure, SendFailure::Tls(_)));
        } else {
            assert_eq!(text(result.unwrap()).await, "reached");
        }
        assert_eq!(peer.log.connections(), seen_before + 1, "{url} {addresses:?}");
    }
}

#[tokio::test]
async fn own_listeners_are_rejected_in_permitted_networks() {
    let peer = Peer::start_echo(None).await;
    let port = peer.port();
    let own_addresses =
        [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"), format!("[::]:{port}")];
    for own_address in own_addresses {
        let mut settings = permissive_settings(port, TrustedRoots::none());
        settings.loopback_http = true;
        settings.own_addresses = vec![own_address.parse().unwrap()];
        let client = client(settings);
        for url in [
            format!("https://vault.example:{port}/"),
            format!("http://127.0.0.1:{port}/"),
            format!("http://localhost:{port}/"),
        ] {
            let verdict = judge(&client, &url).await;
            assert_eq!(verdict, Verdict::Rejected(GuardRejection::OwnAddress), "{url}");
        }
        let other_port = if port == 65535 { 1 } else { port + 1 };
        let url = format!("http://127.0.0.1:{other_port}/");
        assert_eq!(judge(&client, &url).await, Verdict::Allowed, "{url}");
    }
}

#[tokio::test]
async fn loopback_http_allows_loopback_only() {
    let peer = Peer::start_echo(None).await;
    let mut settings = EgressSettings::new(TrustedRoots::none());
    settings.loopback_http = true;
    settings.resolver = TableResolver::new(&[("hostile.example", &[&["127.0.0.1"]])]);
    let client = client(settings);
    let url = format!("http://localhost:{}/a?b", peer.port());
    let response = send(&client, &Destination::parse(&url).unwrap(), get()).await.unwrap();
    assert_eq!(text(response).await, format!("GET /a?b localhost:{} ", peer.port()));
    for (url, expected) in [
        ("http://hostile.example/", SCHEME),
        ("http://10.0.0.1/", LITERAL),
        ("http://0.0.0.0/", LITERAL),
        ("http://127.1/", HOST),
        (
            "https://hostile.example/",
            Verdict::Rejected(GuardRejection::Address(AddressClass::Loopback)),
        ),
    ] {
        assert_eq!(judge(&client, url).await, expected, "{url}");
    }
}
