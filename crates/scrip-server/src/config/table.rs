//! Table of all settings: name, kind, bounds, default and description.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc};

use scrip_api::limiter::OutagePolicy;
use scrip_core::audit::ReadRecording;
use scrip_seal::Secret;
use scrip_threeds::format::Text;

use crate::{
    clock::steady::StartTrust,
    config::{
        keys::{AllowedSources, CheckInterval, SourceLossLimit, UnlockOrder},
        setting::{EffectiveSetting, Setting, SettingText, parse},
        value::{
            AllowedDestinations, AuditSinkTarget, BoundedNumber, CollectorUrl, FieldOrigin,
            ForwardProxyUrl, HostNames, LockMemory, LogFilter, LogFormat, PortList, SettingValue,
            StorageUrl, Switch,
            epoch_keys::EpochKeyLocation,
            limits::{NetworkList, RateSetting, RedisUrl},
            threeds::{PublicUrl, SchemeSettings},
        },
    },
    directory_servers::address::LoopbackUrl,
};

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

        /// The effective settings.
        #[derive(Debug)]
        pub struct Settings {
            $(pub $section: $Section,)+
            /// Each setting with its text and source.
            pub effective: Vec<EffectiveSetting>,
            /// Connected schemes.
            pub schemes: Vec<SchemeSettings>,
            /// Settings of scheme sections: path and text.
            pub scheme_entries: Vec<(String, String)>,
            /// Problems that do not prevent a start.
            pub warnings: Vec<String>,
            /// From `SCRIP_ROOT_KEY`; overrides the root key file.
            pub root_key: Option<Arc<Secret>>,
            /// Keys of unlock methods from variables `SCRIP_UNLOCK_…`, by variable.
            pub unlock_keys: BTreeMap<String, Arc<Secret>>,
            /// The operating-system user who runs this process.
            pub os_user: Option<Arc<str>>,
            /// The settings file that was read.
            pub file: Option<PathBuf>,
            /// Whether `storage.url` in the file contains a password, in use or not.
            pub has_password_in_file: bool,
        }

        $(#[derive(Debug)]
        pub struct $Section {
            $($(#[doc = $about])+ pub $name: $kind,)+
        })+

        impl Settings {
            /// Parses every setting. Returns the settings if all are valid, and the problems.
            pub(super) fn read(
                look_up: &mut dyn FnMut(&'static Setting) -> SettingText,
            ) -> (Option<Self>, Vec<String>) {
                let mut problems = Vec::new();
                let mut rows = SETTINGS.iter();
                let mut next = || rows.next().map(&mut *look_up).unwrap_or_default();
                $(let $section = {
                    $(let $name = parse::<$kind>(next(), &mut problems);)+
                    (|| Some($Section { $($name: $name?,)+ }))()
                };)+
                let settings = || Some(Self {
                    $($section: $section?,)+
                    effective: Vec::new(),
                    schemes: Vec::new(),
                    scheme_entries: Vec::new(),
                    warnings: Vec::new(),
                    root_key: None,
                    unlock_keys: BTreeMap::new(),
                    os_user: None,
                    file: None,
                    has_password_in_file: false,
                });
                (settings(), problems)
            }
        }
    };
}

settings! {
    server: ServerSettings {
        /// Address to listen on; port 0 selects a free port.
        listen: SocketAddr = "127.0.0.1:4242",
        /// Allow plain HTTP on an address that is not loopback.
        plain_http: bool = "false",
        /// Maximum size of a request body.
        body_bytes_max: BoundedNumber<1024, 67_108_864> = "1048576",
        /// Maximum time until the head of a request or a TLS handshake has arrived; also the
        /// maximum idle time of a connection.
        header_deadline_seconds: BoundedNumber<1, 3600> = "30",
        /// Maximum time until a request body has arrived.
        body_deadline_seconds: BoundedNumber<1, 3600> = "30",
        /// The same for requests that need no API key; the shorter of both applies.
        keyless_body_deadline_seconds: BoundedNumber<1, 3600> = "5",
        /// Maximum number of concurrent connections. When all are in use, a new connection replaces
        /// the idlest one without a request in progress, or waits.
        connections_max: BoundedNumber<1, 1_000_000> = "4096",
        /// One client network (an IPv4 address, or a /64 of IPv6) may use one part in this many of
        /// the connections, and always 8; networks in `limits.trusted_proxies` have no limit.
        connections_network_share: BoundedNumber<1, 1_000_000> = "16",
        /// Maximum time until a new connection sends its first byte.
        first_byte_deadline_seconds: BoundedNumber<1, 3600> = "10",
        /// Minimum rate at which a request body must arrive, measured over `rate_window_seconds`; 0
        /// for no minimum.
        request_bytes_per_second_min: BoundedNumber<0, 1_000_000> = "256",
        /// Minimum rate at which a client must read a response, measured over
        /// `rate_window_seconds`; 0 for no minimum.
        response_bytes_per_second_min: BoundedNumber<0, 1_000_000> = "1024",
        /// Time over which these two rates are measured.
        rate_window_seconds: BoundedNumber<1, 3600> = "30",
        /// Memory for request bodies in flight and the data parsed from them, counted as 17 times
        /// the length of a body; at least the amount for one body of `body_bytes_max`.
        body_memory_bytes: BoundedNumber<1024, 4_294_967_295> = "268435456",
        /// The same for requests that need no API key, such as 3-D Secure notifications.
        keyless_body_memory_bytes: BoundedNumber<1024, 4_294_967_295> = "16777216",
        /// One client network may use one part in this many of each of the two memory pools.
        body_memory_network_share: BoundedNumber<1, 1_000_000> = "4",
        /// Memory for responses above 64 KiB until clients have read them.
        response_memory_bytes: BoundedNumber<1024, 4_294_967_295> = "268435456",
        /// One client network may use one part in this many of it; networks in
        /// `limits.trusted_proxies` have no limit.
        response_memory_network_share: BoundedNumber<1, 1_000_000> = "8",
        /// Maximum time for requests in flight to finish after a stop signal.
        drain_deadline_seconds: BoundedNumber<1, 3600> = "10",
        /// User to switch to when started as root; empty to keep the current user.
        user: Option<String> = "",
        /// A second control socket, for the operators of `server.control_group`: an absolute path in
        /// a directory that only root or the server can write, such as `/run/scrip/control.sock`.
        control_socket: Option<PathBuf> = "",
        /// Group, by name or number, that may use `server.control_socket`: see requests, approve
        /// and reject them, enter shares. The server's user must be a member.
        control_group: Option<String> = "",
        /// Keep memory out of swap: auto (if the system allows it), on (required to start), off.
        lock_memory: LockMemory = "auto",
    }
    tls: TlsSettings {
        /// TLS certificate with its chain, a PEM file; empty for plain HTTP.
        certificate: Option<PathBuf> = "",
        /// Private key of the certificate, a PEM file.
        key: Option<PathBuf> = "",
        /// Interval at which the two files are checked for changes.
        reload_seconds: BoundedNumber<1, 86_400> = "30",
    }
    storage: StorageSettings {
        /// Data directory with the database, created by `scrip init`. With PostgreSQL, the
        /// directory for files of this node: control socket, chain heads of the logs, BIN data, and
        /// the root key unless it is stored elsewhere. Two nodes never share a data directory.
        data_dir: PathBuf = "scrip-data",
        /// PostgreSQL 14 or later, for one or more nodes, such as
        /// `postgres://scrip@db.internal/scrip`; empty for the embedded engine. A remote host must
        /// present a valid certificate (sslmode=verify-full is the default) unless the URL contains
        /// sslmode=disable. If the URL contains a password, set it in `SCRIP_STORAGE_URL` or in a
        /// file that only the server can read.
        url: Option<StorageUrl> = "",
        /// Maximum number of connections of this node to PostgreSQL.
        connections: BoundedNumber<1, 1000> = "16",
        /// Whether `scrip serve` may migrate the PostgreSQL schema: on, or off (the server does not
        /// start with an old schema; run `scrip migrate`).
        migrate: Switch = "off",
        /// Role that servers use, if another role owns the tables: `scrip init` and `scrip migrate`
        /// grant the required rights to it. Empty if one role does both.
        serve_role: Option<String> = "",
        /// Root certificates for PostgreSQL, a PEM file; empty for the root certificates of the
        /// system.
        ca_file: Option<PathBuf> = "",
        /// Declares that no other node uses this PostgreSQL. CVC epoch keys then need not be shared
        /// in Redis.
        single_node: bool = "false",
    }
    keys: KeySettings {
        /// Root key file; empty for `root.key` in the data directory.
        root_key_file: Option<PathBuf> = "",
        /// Maximum age of the sealing key of a tenant in days; 0 for no limit. `scrip doctor` and a
        /// metric report older keys.
        tenant_max_age_days: BoundedNumber<0, 36_500> = "365",
        /// Maximum age of the vault key in days; 0 for no limit. `scrip doctor`, the log and a metric
        /// report an older key. It is never rotated automatically.
        vault_max_age_days: BoundedNumber<0, 36_500> = "365",
        /// Whether the server rotates the sealing keys of tenants that are older.
        rotate_automatically: bool = "false",
        /// Rows that a rotation encrypts again in a second.
        rotation_rows_per_second: BoundedNumber<1, 1_000_000> = "1000",
        /// Time after which a new version of a sealing key encrypts. Every server must have loaded
        /// it by then; a server that cannot load it rejects all requests after 22 seconds.
        promote_after_seconds: BoundedNumber<1, 86_400> = "30",
        /// Minimum time for which an old version stays after that. Cursors of lists that clients
        /// hold end with the old version.
        destroy_after_seconds: BoundedNumber<1, 31_536_000> = "86400",
        /// Kinds of unlock methods in the order in which a start tries them, separated by commas,
        /// such as `pkcs11, file`; empty for the order file, env, pkcs11, aws-kms, transit.
        unlock_order: UnlockOrder = "",
        /// Libraries of PKCS#11 devices, addresses of Transit servers, keys and endpoints of AWS KMS
        /// and files with secrets that unlock methods may use, separated by commas, such as
        /// `/usr/lib/softhsm/libsofthsm2.so, /etc/scrip/pin`.
        unlock_sources: AllowedSources = "",
        /// How often the server asks each unlock method for the vault key, such as `10m`; a failing
        /// method is asked at least every minute.
        check_every: CheckInterval = "10m",
        /// Time after which the vault is sealed if no unlock method returns its key any more, such
        /// as `24h`; empty to serve without a limit.
        seal_when_source_lost: Option<SourceLossLimit> = "",
        /// Whether changes of keys, exports, backups and new API keys need a second operator. The
        /// vault stores `true`: to switch it off, two operators run `scrip keys dual-control off`.
        dual_control: bool = "false",
        /// Whether a program without the FIPS module of AWS-LC must not start.
        require_fips: bool = "false",
    }
    cvc: CvcSettings {
        /// Location of the CVC epoch keys, which are never stored with the data: memory (a restart
        /// loses CVCs); `file:PATH` on a tmpfs or ramfs, such as `file:/dev/shm/scrip/epochs` (keys
        /// survive a restart of the process); or the address of a Redis or Valkey without
        /// persistence, such as `redis://10.0.0.5:6379/0` or `rediss://user@redis.internal/`
        /// (several servers share the keys).
        epoch_keys: EpochKeyLocation = "memory",
        /// File with the password of that Redis; empty if it requires none.
        epoch_keys_password_file: Option<PathBuf> = "",
        /// Allow the key file on a disk, or a Redis that may write to a disk. Destroyed keys may be
        /// recoverable from a disk.
        allow_epoch_keys_on_disk: bool = "false",
    }
    clock: ClockSettings {
        /// How to use the wall clock at start: cautious (never earlier than the time that the vault
        /// has recorded, and no destruction based on the wall clock alone), or wall (trust the wall
        /// clock).
        start_mode: StartTrust = "cautious",
    }
    limits: RateLimitSettings {
        /// Rate limits: on, or off for all callers.
        mode: Switch = "on",
        /// Each rate limit is written as requests per duration, followed by `block` and a duration
        /// if it blocks; or off. This one: requests to test tenants, by API key and address.
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
        /// Keys of private applications: by API key, and separately by address.
        private_application: RateSetting = "2000/10s",
        /// Keys of public applications and of access sessions, by API key and address.
        public_application: RateSetting = "50/60s block 10s",
        /// Keys of management applications, by API key.
        management_application: RateSetting = "200/60s block 60s",
        /// Proxy calls without an API key, by proxy and address.
        keyless_proxy: RateSetting = "50/10s",
        /// Proxies with their own hostname, by hostname and address.
        proxy_hostname: RateSetting = "50/10s",
        /// All requests, by address.
        address: RateSetting = "2000/10s block 30s",
        /// Keys that contain neither _test_ nor _prod_, by API key and address.
        legacy_key: RateSetting = "100/60s",
        /// Networks of trusted proxies, such as `10.0.0.0/8, ::1`; their X-Forwarded-For header is
        /// used.
        trusted_proxies: NetworkList = "",
        /// Maximum number of counters in memory, about 500 bytes each. When all are in use, new
        /// callers share overflow counters.
        counters_max: BoundedNumber<1000, 10_000_000> = "100000",
        /// Redis or Valkey for counters shared by several servers, such as
        /// `redis://10.0.0.5:6379/0` or `rediss://user@redis.internal/`; empty to count in this
        /// process.
        redis_url: Option<RedisUrl> = "",
        /// File with the password of Redis; empty if it requires none.
        redis_password_file: Option<PathBuf> = "",
        /// Maximum response time of Redis.
        redis_deadline_ms: BoundedNumber<1, 10_000> = "100",
        /// Behavior while Redis is unavailable: local (this server counts alone), or reject
        /// (respond with 503).
        redis_outage: OutagePolicy = "local",
    }
    audit: AuditSettings {
        /// Recording of reads: durable (on disk before the response, otherwise the request fails),
        /// or off (reads leave no record; only for performance measurements).
        reads: ReadRecording = "durable",
        /// File with the chain heads of the logs, to detect that the database was rolled back;
        /// empty for `audit.head` in the data directory. Store it on another disk or machine if
        /// possible.
        head_file: Option<PathBuf> = "",
        /// Sink that receives every audit record as a JSON line: `file:PATH` (append; reopened
        /// after log rotation), or `syslog:PATH`, the socket of a daemon on this machine, such as
        /// `syslog:/dev/log`; empty for no sink.
        sink: Option<AuditSinkTarget> = "",
    }
    proxy: ProxyCallSettings {
        /// Destinations of proxied calls, separated by commas: names such as `api.example.com` and
        /// `*.example.com`, and networks such as `10.1.0.0/16`; empty for all public names. An
        /// address that is not public always needs an entry for its network.
        allow: AllowedDestinations = "",
        /// Ports of destinations, separated by commas.
        allowed_ports: PortList = "443",
        /// Maximum size of the body of a proxied call, and of an answer.
        body_max: BoundedNumber<1024, 67_108_864> = "1048576",
        /// Maximum time until a destination has answered, for proxies without a `timeout`.
        timeout_seconds: BoundedNumber<1, 60> = "25",
        /// Upper limit for the `timeout` of proxies.
        timeout_max_seconds: BoundedNumber<1, 60> = "60",
        /// HTTP proxy that connects to all destinations and receivers of webhooks (CONNECT), such as
        /// `http://proxy.internal:3128`; empty to connect directly.
        forward_proxy: Option<ForwardProxyUrl> = "",
        /// File with `user:password` of that proxy; empty if it requires none.
        forward_proxy_password_file: Option<PathBuf> = "",
        /// Certificate authorities of destinations and receivers of webhooks, a PEM file; empty for
        /// those of the system.
        ca_file: Option<PathBuf> = "",
        /// Allow `localhost` and loopback addresses as hosts of destinations and receivers of webhooks,
        /// also over plain HTTP; for development only.
        loopback_http: bool = "false",
        /// Maximum number of proxied calls in progress. A tenant gets at most as many as are still
        /// free, so that the slow destinations of one tenant do not stop the others.
        calls_max: BoundedNumber<1, 1_000_000> = "2048",
        /// Maximum number of calls in progress to one destination of one proxy.
        destination_calls_max: BoundedNumber<1, 1_000_000> = "512",
        /// Maximum number of idle connections to destinations.
        idle_connections_max: BoundedNumber<0, 1_000_000> = "1024",
    }
    webhooks: WebhookDeliverySettings {
        /// Whether this server delivers events to webhooks. Other servers of the same vault deliver
        /// them otherwise.
        deliver: bool = "true",
        /// Receivers of webhooks, separated by commas: names such as `hooks.example.com` and
        /// `*.example.com`, and networks such as `10.1.0.0/16`; empty for all public names. An
        /// address that is not public always needs an entry for its network.
        allow: AllowedDestinations = "",
        /// Ports of receivers, separated by commas.
        allowed_ports: PortList = "443",
    }
    elements: ElementsSettings {
        /// Origin that serves the hosted card fields, such as `https://fields.example`; empty for
        /// no fields. Its host must be another one than the host of the API, because answers of
        /// proxied calls share the origin of the API. Both names lead to this server.
        origin: Option<FieldOrigin> = "",
    }
    deprecated: DeprecatedSettings {
        /// GET /tokens, replaced by GET /v2/tokens: on, or off (410).
        list_tokens_v1: Switch = "on",
        /// POST /tokens/search, replaced by POST /v2/tokens/search: on, or off (410).
        search_tokens_v1: Switch = "on",
    }
    metrics: MetricsSettings {
        /// Address of a separate listener for /metrics, in plain HTTP, such as 127.0.0.1:9464;
        /// empty for no separate listener.
        listen: Option<SocketAddr> = "",
        /// File with the bearer key that /metrics requires. Without a separate listener, /metrics
        /// is served on the client listener and requires this key.
        key_file: Option<PathBuf> = "",
        /// Host names, separated by commas, under which the metrics listener accepts requests, such
        /// as `scrip.internal`; IP addresses and `localhost` are always accepted.
        hosts: HostNames = "",
    }
    telemetry: TelemetrySettings {
        /// OTLP collector for traces, as JSON over plain HTTP, such as `http://127.0.0.1:4318`; empty
        /// for no traces.
        otlp_endpoint: Option<CollectorUrl> = "",
        /// Percentage of requests to trace, unless the trace context of the caller has already
        /// decided.
        sample_percent: BoundedNumber<0, 100> = "100",
    }
    threeds: ThreeDsConfig {
        /// URL at which browsers reach this server, such as `https://vault.example`; `listen` for
        /// the listen address. Required if a scheme or the simulator is connected.
        public_url: Option<PublicUrl> = "",
        /// Fill in request attributes that official samples omit: the transaction type and the
        /// requestor.
        lenient: bool = "false",
        /// Prefix that some schemes require before the merchant name.
        server_name: Option<Text<1, 40>> = "",
        /// URL of the simulator, which replaces all schemes for test tenants. Plain HTTP, so only
        /// on this machine, such as `http://127.0.0.1:4243`; empty for none.
        simulator_url: Option<LoopbackUrl> = "",
        /// Maximum time to connect to a directory server, for each of its addresses.
        connect_deadline_ms: BoundedNumber<10, 60_000> = "5000",
        /// Maximum response time of a directory server.
        response_deadline_ms: BoundedNumber<10, 60_000> = "10000",
        /// Maximum age of card ranges before they are fetched again.
        card_ranges_max_age_hours: BoundedNumber<1, 24> = "24",
        /// Address on which directory servers of production schemes deliver results, over mTLS.
        /// Required if a production scheme is connected.
        results_listen: Option<SocketAddr> = "",
        /// Certificate of that listener with its chain, a PEM file.
        results_certificate: Option<PathBuf> = "",
        /// Private key of that certificate, a PEM file.
        results_key: Option<PathBuf> = "",
    }
    log: LogSettings {
        /// Log format: auto (text on a terminal, else json), json, text.
        format: LogFormat = "auto",
        /// Log filter, such as `info` or `scrip_server=debug`.
        filter: LogFilter = "info",
    }
}
