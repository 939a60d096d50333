//! Every setting, declared once: its name, its kind and bounds, its default and its explanation.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use scrip_api::limiter::OutagePolicy;
use scrip_core::audit::ReadRecording;
use scrip_seal::Secret;
use scrip_threeds::format::Text;

use crate::{
    config::{
        EffectiveSetting, SettingText, parse,
        value::{
            AuditSinkTarget, BoundedNumber, CollectorUrl, EpochKeyLocation, HostNames, LockMemory,
            LogFilter, LogFormat, SettingValue, Switch, ValueKind,
            limits::{NetworkList, RateSetting, RedisUrl},
            storage::StorageUrl,
            threeds::{PublicUrl, SchemeSettings},
        },
    },
    directory_servers::address::LoopbackUrl,
    process::clock::steady::StartTrust,
};

/// One row of the table.
#[derive(Debug)]
pub struct Setting {
    pub section: &'static str,
    pub name: &'static str,
    pub kind: ValueKind,
    /// Its text without what is secret in it.
    pub redact: fn(&str) -> String,
    pub default: &'static str,
    pub description: &'static [&'static str],
}

impl Setting {
    /// As it is written in the file: `server.listen`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// `SCRIP_SERVER_LISTEN`.
    pub fn variable(&self) -> String {
        format!("SCRIP_{}_{}", self.section, self.name).to_ascii_uppercase()
    }
}

macro_rules! settings {
    ($($section:ident: $Section:ident {
        $($(#[doc = $about:literal])+ $name:ident: $kind:ty = $default:literal,)+
    })+) => {
        pub const SETTINGS: &[Setting] = &[$($(Setting {
            section: stringify!($section),
            name: stringify!($name),
            kind: <$kind as SettingValue>::KIND,
            redact: <$kind as SettingValue>::redact,
            default: $default,
            description: &[$($about),+],
        },)+)+];

        /// What is in force.
        #[derive(Debug)]
        pub struct Settings {
            $(pub $section: $Section,)+
            /// Each setting with its text and where that comes from.
            pub effective: Vec<EffectiveSetting>,
            /// The schemes that the file connects.
            pub schemes: Vec<SchemeSettings>,
            /// Their settings by path, with their texts.
            pub of_schemes: Vec<(String, String)>,
            /// What is no error but hardly meant.
            pub warnings: Vec<String>,
            /// From `SCRIP_ROOT_KEY`; takes the place of the file.
            pub root_key: Option<Arc<Secret>>,
            /// The operating-system user who runs this process.
            pub os_user: Option<Arc<str>>,
            /// The file that was read.
            pub file: Option<PathBuf>,
        }

        $(#[derive(Debug)]
        pub struct $Section {
            $($(#[doc = $about])+ pub $name: $kind,)+
        })+

        impl Settings {
            /// Asks for the text of each setting in turn; the settings when all are good, and
            /// what is wrong with the others.
            pub(super) fn read(
                say: &mut dyn FnMut(&'static Setting) -> SettingText,
            ) -> (Option<Self>, Vec<String>) {
                let mut broken = Vec::new();
                let mut rows = SETTINGS.iter();
                let mut next = || rows.next().map(&mut *say).unwrap_or_default();
                $(let $section = {
                    $(let $name = parse::<$kind>(next(), &mut broken);)+
                    (|| Some($Section { $($name: $name?,)+ }))()
                };)+
                let whole = || Some(Self {
                    $($section: $section?,)+
                    effective: Vec::new(),
                    schemes: Vec::new(),
                    of_schemes: Vec::new(),
                    warnings: Vec::new(),
                    root_key: None,
                    os_user: None,
                    file: None,
                });
                (whole(), broken)
            }
        }
    };
}

settings! {
    server: ServerSettings {
        /// Where to listen; port 0 takes any free one.
        listen: SocketAddr = "127.0.0.1:4242",
        /// Allow an address that is not loopback without TLS.
        plain_http: bool = "false",
        /// The largest body that is read.
        body_bytes_max: BoundedNumber<1024, 67_108_864> = "1048576",
        /// How long the head of a request, or a TLS handshake, may take to arrive;
        /// also how long a connection may say nothing.
        header_deadline_seconds: BoundedNumber<1, 3600> = "30",
        /// How long a body may take to arrive.
        body_deadline_seconds: BoundedNumber<1, 3600> = "30",
        /// The same for a request that needs no key; the shorter of both counts.
        keyless_body_deadline_seconds: BoundedNumber<1, 3600> = "5",
        /// Connections served at once. A further one takes the place of the idlest connection
        /// without a request in progress, or waits.
        connections_max: BoundedNumber<1, 1_000_000> = "4096",
        /// A client network (an IPv4 address, or 64 bits of an IPv6 address) may have one part in so
        /// many of these connections, and at least 8; networks of
        /// `limits.trusted_proxies` have no cap.
        connections_network_share: BoundedNumber<1, 1_000_000> = "16",
        /// How long a new connection may take to send its first byte.
        first_byte_deadline_seconds: BoundedNumber<1, 3600> = "10",
        /// How fast the body of a request must arrive, measured over `rate_window_seconds`; 0 for
        /// no minimum.
        request_bytes_per_second_min: BoundedNumber<0, 1_000_000> = "256",
        /// How fast a client must read an answer, measured over `rate_window_seconds`; 0 for
        /// no minimum.
        answer_bytes_per_second_min: BoundedNumber<0, 1_000_000> = "1024",
        /// The time over which these two rates are measured.
        rate_window_seconds: BoundedNumber<1, 3600> = "30",
        /// Memory for request bodies in flight and what is parsed from them, counted as 17 times the
        /// length of a body; at least as much as one body of `body_bytes_max` needs.
        body_memory_bytes: BoundedNumber<1024, 4_294_967_295> = "268435456",
        /// The same for requests that need no key, such as 3-D Secure notifications.
        keyless_body_memory_bytes: BoundedNumber<1024, 4_294_967_295> = "16777216",
        /// A client network may have one part in so many of either memory.
        body_memory_network_share: BoundedNumber<1, 1_000_000> = "4",
        /// Memory for answers above 64 KiB until their clients have read them.
        answer_memory_bytes: BoundedNumber<1024, 4_294_967_295> = "268435456",
        /// A client network may have one part in so many of it; networks of
        /// `limits.trusted_proxies` have no share.
        answer_memory_network_share: BoundedNumber<1, 1_000_000> = "8",
        /// How long requests in flight may take to end when the server is told to stop.
        drain_deadline_seconds: BoundedNumber<1, 3600> = "10",
        /// The user to become when started as root; empty to stay who we are.
        user: Option<String> = "",
        /// Keep memory out of swap: auto (where the system allows it), on (or do not start), off.
        lock_memory: LockMemory = "auto",
    }
    tls: TlsSettings {
        /// The certificate and its chain, a PEM file; empty for plain HTTP.
        certificate: Option<PathBuf> = "",
        /// The private key of the certificate, a PEM file.
        key: Option<PathBuf> = "",
        /// How often to look whether the two files have changed.
        reload_seconds: BoundedNumber<1, 86_400> = "30",
    }
    storage: StorageSettings {
        /// Where the database is; made by `scrip init`. With PostgreSQL, where this node has what is
        /// its own: the control socket, the heads of the logs, BIN data, and the root key unless
        /// that is elsewhere. Never the same for two nodes.
        data_dir: PathBuf = "scrip-data",
        /// PostgreSQL 14 or later, for more than one node, such as `postgres://scrip@db.internal/scrip`;
        /// empty for the embedded engine. A host that is not this machine has to show a certificate
        /// (sslmode=verify-full, which need not be said), unless it says sslmode=disable. With a
        /// password in it, it belongs into `SCRIP_STORAGE_URL` or a file that only the server reads.
        url: Option<StorageUrl> = "",
        /// Connections of this node to PostgreSQL, at most.
        connections: BoundedNumber<1, 1000> = "16",
        /// Whether `scrip serve` may bring PostgreSQL's schema up to date: on, or off (it does not
        /// start, and `scrip migrate` does).
        migrate: Switch = "off",
        /// The role that servers use, where another one owns the tables: `scrip init` and `scrip
        /// migrate` give it the rights that it needs. Empty where one role does both.
        serve_role: Option<String> = "",
        /// Who vouches for PostgreSQL's certificate, a PEM file; empty for whom this system trusts.
        ca_file: Option<PathBuf> = "",
        /// That no other node serves this PostgreSQL, so that the keys of card verification codes need
        /// not be where others find them.
        only_node: bool = "false",
    }
    keys: KeySettings {
        /// The root key; empty for `root.key` in the data directory.
        root_key_file: Option<PathBuf> = "",
    }
    cvc: CvcSettings {
        /// Where the keys of card verification codes are, which never lie beside the data:
        /// memory (a restart loses codes); `file:PATH` on a tmpfs or ramfs, such as
        /// `file:/dev/shm/scrip/epochs` (a restart of the process keeps them); or the address of a
        /// Redis or Valkey without persistence, such as `redis://10.0.0.5:6379/0` or
        /// `rediss://user@redis.internal/`, by which several servers share them.
        epoch_keys: EpochKeyLocation = "memory",
        /// A file with the password of that Redis; empty when it asks for none.
        epoch_keys_password_file: Option<PathBuf> = "",
        /// Allow that file on a disk, or a Redis that may write to one, where a destroyed key may be
        /// found again.
        epoch_keys_on_disk: bool = "false",
    }
    clock: ClockSettings {
        /// How to take the machine's clock at the start: cautious (never before what the vault has
        /// seen, and nothing is destroyed on its word alone), or wall (it is right).
        start: StartTrust = "cautious",
    }
    limits: RateLimitSettings {
        /// Rate limits: on, or off for everybody.
        mode: Switch = "on",
        /// Each row of the table: requests per time, `block` and a time for one that blocks, or off.
        /// By API key and address, of a tenant for tests.
        test_tenant: RateSetting = "50/10s",
        /// POST /tokens/search and /v2/tokens/search, by API key and address.
        search_tokens: RateSetting = "50/10s",
        /// GET /tokens and /v2/tokens, by API key and address.
        list_tokens: RateSetting = "100/10s",
        /// POST /tokens and /tokenize, by API key and address.
        create_tokens: RateSetting = "200/10s",
        /// PATCH /tokens/{id}, by API key and address.
        update_token: RateSetting = "200/10s",
        /// DELETE /tokens/{id}, by API key and address.
        delete_token: RateSetting = "200/10s",
        /// /account-updater, by API key and address.
        account_updater: RateSetting = "10/10s",
        /// Keys of private applications: by API key, and by address.
        private_application: RateSetting = "2000/10s",
        /// Keys of public applications and of sessions, by API key and address.
        public_application: RateSetting = "50/60s block 10s",
        /// Keys of management applications, by API key.
        management_application: RateSetting = "200/60s block 60s",
        /// A proxy that is called without a key, by proxy and address.
        keyless_proxy: RateSetting = "50/10s",
        /// A proxy with a name of its own, by name and address.
        proxy_hostname: RateSetting = "50/10s",
        /// Everybody, by address.
        address: RateSetting = "2000/10s block 30s",
        /// Keys with neither _test_ nor _prod_ in them, by API key and address.
        legacy_key: RateSetting = "100/60s",
        /// Networks of proxies whose X-Forwarded-For is believed, such as `10.0.0.0/8, ::1`.
        trusted_proxies: NetworkList = "",
        /// Counters in memory, some 500 bytes each when all are in use; beyond them newcomers share.
        counters_max: BoundedNumber<1000, 10_000_000> = "100000",
        /// Redis or Valkey for counters that several servers share, such as `redis://10.0.0.5:6379/0`
        /// or `rediss://user@redis.internal/`; empty to count in this process.
        redis_url: Option<RedisUrl> = "",
        /// A file with the password of Redis; empty when it asks for none.
        redis_password_file: Option<PathBuf> = "",
        /// How long an answer of Redis may take.
        redis_deadline_ms: BoundedNumber<1, 10_000> = "100",
        /// When Redis is away: local (this server counts for itself), or closed (503).
        redis_away: OutagePolicy = "local",
    }
    audit: AuditSettings {
        /// Whether reads are recorded: durable (on disk before the answer, or there is none), or
        /// off (nobody will know who saw what; for measuring what it costs).
        reads: ReadRecording = "durable",
        /// The heads of the logs, kept apart, by which a database that was rolled back is found;
        /// empty for `audit.head` in the data directory. Better on another disk or machine.
        head_file: Option<PathBuf> = "",
        /// Who else is told every record, as a line of JSON: `file:PATH` (appended, and begun anew
        /// when it was moved away), or `syslog:PATH`, the socket of a daemon on this machine, such
        /// as `syslog:/dev/log`; empty for nobody.
        export: Option<AuditSinkTarget> = "",
    }
    deprecated: DeprecatedSettings {
        /// GET /tokens, whose place GET /v2/tokens has taken: on, or off (410).
        list_tokens_v1: Switch = "on",
        /// POST /tokens/search, whose place POST /v2/tokens/search has taken: on, or off (410).
        search_tokens_v1: Switch = "on",
    }
    metrics: MetricsSettings {
        /// Where to show metrics at /metrics, in plain HTTP and apart from the clients, such as
        /// 127.0.0.1:9464; empty for no such listener.
        listen: Option<SocketAddr> = "",
        /// A file with the bearer key that /metrics then needs; without a listener of its own,
        /// /metrics is where the clients ask, for whoever has this key.
        key_file: Option<PathBuf> = "",
        /// Names, between commas, by which the listener of metrics may be asked, such as
        /// `scrip.internal`; addresses and `localhost` always may.
        hosts: HostNames = "",
    }
    telemetry: TelemetrySettings {
        /// Where a collector takes traces by OTLP over plain HTTP, such as
        /// `http://127.0.0.1:4318`; empty for no traces.
        otlp_endpoint: Option<CollectorUrl> = "",
        /// Of how many requests in a hundred, where the caller has not decided already.
        sample_percent: BoundedNumber<0, 100> = "100",
    }
    threeds: ThreeDsConfig {
        /// Where browsers reach this server, such as `https://vault.example`; `listen` for where it
        /// listens. Needed as soon as a scheme or the simulator is connected.
        public_url: Option<PublicUrl> = "",
        /// Fill in what official samples leave out of a request: the kind of transaction, and who asks.
        lenient: bool = "false",
        /// What some schemes want to see in front of a merchant's name.
        server_name: Option<Text<1, 40>> = "",
        /// The simulator of every scheme, for test tenants only, in clear and therefore on this
        /// machine, such as `http://127.0.0.1:4243`; empty for none.
        simulator_url: Option<LoopbackUrl> = "",
        /// How long a connection to a directory server may take, for each of its addresses.
        connect_deadline_ms: BoundedNumber<10, 60_000> = "5000",
        /// How long its answer may take.
        answer_deadline_ms: BoundedNumber<10, 60_000> = "10000",
        /// How old card ranges may get before they are asked for again.
        ranges_hours: BoundedNumber<1, 24> = "24",
        /// Where directory servers of production come with results, by TLS and with a certificate of
        /// their own; needed as soon as one is connected.
        results_listen: Option<SocketAddr> = "",
        /// The certificate of that listener and its chain, a PEM file.
        results_certificate: Option<PathBuf> = "",
        /// Its private key, a PEM file.
        results_key: Option<PathBuf> = "",
    }
    log: LogSettings {
        /// How to write the log: auto (text on a terminal, else json), json, text.
        format: LogFormat = "auto",
        /// What to log, such as `info` or `scrip_server=debug`.
        filter: LogFilter = "info",
    }
}
