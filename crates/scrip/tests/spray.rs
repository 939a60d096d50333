//! Requests from a million addresses use bounded memory and do not evade the limits.
//!
//! Alone in its process, because it measures the memory of the process.

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
    app::{App, trusted_proxies::TrustedProxies},
    limiter::{COUNTERS_MAX, Limiter},
};
use scrip_core::{
    operations::tenants::create_tenant::initialize_vault_keys,
    policy::rate_limit::{
        ClientNetwork, EffectiveRates, RateLimitName, RateLimitRequest, RateLimitTarget,
    },
    store::open_directory,
    types::time::Clock,
};
use scrip_seal::Pepper;
use scrip_server::{
    clock::ticks,
    listen::serve_plain,
    node::{Node, NodeSettings},
};
use scrip_store::SqliteStore;
use scrip_testing::{
    clock::StoppedClock,
    vault::{new_vault, root_key},
};
use tokio::{net::TcpListener, runtime::Runtime};

const MEBIBYTE: u64 = 1024 * 1024;
const GROWTH_MAX: u64 = 64 * MEBIBYTE;

/// The anonymous resident memory of the process.
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
    let bytes_before = resident_bytes();
    let limiter = Limiter::new(EffectiveRates::default(), COUNTERS_MAX);
    let is_admitted = |number: u32| {
        let network = ClientNetwork::from_address(spread_address(number));
        let request =
            RateLimitRequest { address: network, target: RateLimitTarget::Other, caller: None };
        // Like a request: first checked, then counted.
        limiter.check_address(clock.now(), network).is_ok()
            && runtime.block_on(limiter.count_request(&clock, &pepper, &request)).is_ok()
    };
    // An address that was active before, with all but one of its requests used.
    let admitted_before = (0..1999).filter(|_| is_admitted(0)).count();
    assert_eq!(admitted_before, 1999);
    let admitted_count = (1..=1_000_000).filter(|it| is_admitted(*it)).count();
    let added_bytes = resident_bytes().saturating_sub(bytes_before);
    assert!(added_bytes < GROWTH_MAX, "{} MiB", added_bytes / MEBIBYTE);
    let counter_usage = limiter.counter_usage();
    assert_eq!(counter_usage.counters, COUNTERS_MAX);
    // The limit for each address with its own counter, plus 2000 for all other addresses together.
    assert_eq!(admitted_count, COUNTERS_MAX - 1 + 2000);
    assert!(is_admitted(0), "the last request of the first address was rejected");
    assert!(!is_admitted(0), "the first address exceeded its limit");
    assert!(is_admitted(5), "an address with its own counter lost its budget");
    assert!(!is_admitted(2_000_001), "a new address was not limited");
    let address =
        limiter.decisions().into_iter().find(|it| it.name == RateLimitName::Address).unwrap();
    assert_eq!(address.allowed, 2000 + 99_999 + 2000 + 1);
    check_over_http(&runtime, bytes_before);
}

/// The same with real requests. A trusted proxy reports the client address.
fn check_over_http(runtime: &Runtime, bytes_before: u64) {
    const COUNTERS: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let root = Arc::new(root_key());
    let store = SqliteStore::open(&folder.path().join("scrip.db")).unwrap();
    let vault = new_vault(Arc::new(store), Arc::new(StoppedClock::default()));
    let (address, app) = runtime.block_on(async {
        initialize_vault_keys(&vault, &*root).await.unwrap();
        let directory = open_directory(&*vault.store, &*root, None).await.unwrap();
        let mut app = App::new(vault, directory, root, ticks);
        app.limiter = Limiter::new(EffectiveRates::default(), COUNTERS);
        app.settings.trusted_proxies = TrustedProxies(vec!["127.0.0.1/32".parse().unwrap()]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, app) = (listener.local_addr().unwrap(), Arc::new(app));
        let node = Node::new(Arc::clone(&app), NodeSettings::default());
        tokio::spawn(serve_plain(Arc::new(node), listener, std::future::pending()));
        (address, app)
    });
    let mut line = PersistentConnection::open(address);
    assert_eq!((0..1990).filter(|_| line.request_status(spread_address(0)) == 401).count(), 1990);
    let statuses: Vec<_> = (1..=20_000).map(|it| line.request_status(spread_address(it))).collect();
    let count = |status| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((count(401), count(429)), (COUNTERS - 1 + 2000, 20_000 - COUNTERS + 1 - 2000));
    let answered = (0..20).filter(|_| line.request_status(spread_address(0)) == 401).count();
    assert_eq!(answered, 10, "the first address must have ten requests left");
    assert_eq!(app.limiter.counter_usage().counters, COUNTERS);
    let added_bytes = resident_bytes().saturating_sub(bytes_before);
    assert!(added_bytes < GROWTH_MAX, "{} MiB", added_bytes / MEBIBYTE);
}

/// A persistent connection.
struct PersistentConnection(BufReader<TcpStream>);

impl PersistentConnection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    /// The status for a client at this address with an unknown key.
    fn request_status(&mut self, client: IpAddr) -> u16 {
        let request = format!(
            "GET /permissions HTTP/1.1\r\nHost: x\r\nBT-API-KEY: none\r\nX-Forwarded-For: {client}\r\n\r\n"
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut status, mut length) = (0, 0);
        for (line_index, line) in self.0.by_ref().lines().map(Result::unwrap).enumerate() {
            if line_index == 0 {
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
