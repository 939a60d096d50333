//! A million addresses: what they cost, and that they do not help anybody.
//!
//! Alone in its process, because it looks at the memory of the whole.

#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    sync::Arc,
};

use scrip_api::{
    app::App,
    limiter::{COUNTERS_MAX, Limiter},
    middleware::client_address::TrustedProxies,
};
use scrip_core::{
    operations::tenants::create_tenant::initialize_vault_keys,
    policy::{
        Directory,
        rate_limit::{
            ClientNetwork, EffectiveRates, RateLimitName, RateLimitRequest, RateLimitTarget,
        },
    },
    time::Clock,
};
use scrip_seal::Pepper;
use scrip_server::{
    listen::serve_plain,
    node::{Node, NodeSettings},
    process::clock::ticks,
};
use scrip_store::SqliteStore;
use scrip_testing::{
    clock::StoppedClock,
    vault::{new_vault, root_key},
};
use tokio::{net::TcpListener, runtime::Runtime};

const MEBIBYTE: u64 = 1024 * 1024;
const GROWTH_MAX: u64 = 64 * MEBIBYTE;

/// What the process has of its own in memory.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

fn spread_address(number: u32) -> IpAddr {
    if number.is_multiple_of(2) {
        return Ipv4Addr::from(number.wrapping_mul(2_654_435_761)).into();
    }
    Ipv6Addr::from((0x2001_0db8_u128 << 96) | (u128::from(number) << 64) | 7).into()
}

#[test]
fn million_addresses_use_bounded_memory_and_stay_limited() {
    let runtime = Runtime::new().unwrap();
    let source = root_key();
    let pepper = Pepper::create(&source).unwrap().0;
    let clock = StoppedClock::default();
    let before = resident_bytes();
    let limiter = Limiter::new(EffectiveRates::default(), COUNTERS_MAX);
    let is_let_in = |number: u32| {
        let network = ClientNetwork::from_address(spread_address(number));
        let facts =
            RateLimitRequest { address: network, target: RateLimitTarget::Other, caller: None };
        // As a request does: first asked, then counted.
        limiter.check_address(clock.now(), network).is_ok()
            && runtime.block_on(limiter.count_request(&clock, &pepper, &facts)).is_ok()
    };
    // Somebody who was here before: all but one of what it may.
    let old = (0..1999).filter(|_| is_let_in(0)).count();
    assert_eq!(old, 1999);
    let let_in = (1..=1_000_000).filter(|it| is_let_in(*it)).count();
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{} MiB", grown / MEBIBYTE);
    let full = limiter.counter_usage();
    assert_eq!(full.counters, COUNTERS_MAX);
    // Each that found room, and two thousand of all the others together.
    assert_eq!(let_in, COUNTERS_MAX - 1 + 2000);
    assert!(is_let_in(0), "the last of what it may");
    assert!(!is_let_in(0), "and no more");
    assert!(is_let_in(5), "who found room has the rest of it");
    assert!(!is_let_in(2_000_001), "newcomers are limited");
    let address =
        limiter.decisions().into_iter().find(|it| it.name == RateLimitName::Address).unwrap();
    assert_eq!(address.allowed, 2000 + 99_999 + 2000 + 1);
    check_over_http(&runtime, before);
}

/// The same by real requests, of which a proxy says where they come from.
fn check_over_http(runtime: &Runtime, before: u64) {
    const COUNTERS: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let root = Arc::new(root_key());
    let store = SqliteStore::open(&folder.path().join("scrip.db")).unwrap();
    let vault = new_vault(Arc::new(store), Arc::new(StoppedClock::default()));
    let (place, app) = runtime.block_on(async {
        initialize_vault_keys(&vault, &*root).await.unwrap();
        let directory = Directory::load(&*vault.store, &*root, None).await.unwrap();
        let mut app = App::new(vault, directory, root, ticks);
        app.limiter = Limiter::new(EffectiveRates::default(), COUNTERS);
        app.trusted_proxies = TrustedProxies(vec!["127.0.0.1/32".parse().unwrap()]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (place, app) = (listener.local_addr().unwrap(), Arc::new(app));
        let node = Node::new(Arc::clone(&app), NodeSettings::default());
        tokio::spawn(serve_plain(Arc::new(node), listener, std::future::pending()));
        (place, app)
    });
    let mut line = KeptConnection::open(place);
    assert_eq!((0..1990).filter(|_| line.request_status(spread_address(0)) == 401).count(), 1990);
    let statuses: Vec<_> = (1..=20_000).map(|it| line.request_status(spread_address(it))).collect();
    let count = |status| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((count(401), count(429)), (COUNTERS - 1 + 2000, 20_000 - COUNTERS + 1 - 2000));
    assert_eq!(
        (0..20).filter(|_| line.request_status(spread_address(0)) == 401).count(),
        10,
        "ten were left"
    );
    assert_eq!(app.limiter.counter_usage().counters, COUNTERS);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{} MiB", grown / MEBIBYTE);
}

/// A connection that is kept.
struct KeptConnection(BufReader<TcpStream>);

impl KeptConnection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    /// The status for somebody from there, with a key that nobody knows.
    fn request_status(&mut self, client: IpAddr) -> u16 {
        let request = format!(
            "GET /permissions HTTP/1.1\r\nHost: x\r\nBT-API-KEY: none\r\nX-Forwarded-For: {client}\r\n\r\n"
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut status, mut length) = (0, 0);
        for (at, line) in self.0.by_ref().lines().map(Result::unwrap).enumerate() {
            if at == 0 {
                status = line.split(' ').nth(1).unwrap().parse().unwrap();
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        status
    }
}
