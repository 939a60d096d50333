//! The client: limits, pool, connection, exchange.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, Uri, Version,
    header::{self, HeaderName},
    http::uri::Scheme,
};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::{
    body::{BodyConnection, EgressBody, RequestPermits},
    connect::Connector,
    connection::{
        ExchangeFailure, OutgoingRequest, http1::Http1Connection, http2::Http2Connection,
        poll_deadline,
    },
    destination::Destination,
    error::{CheckError, SendError, SendFailure},
    guard::{CheckedAddresses, EgressGuard, GuardRejection},
    limiter::{KeyedLimiter, KeyedLimits},
    pool::{ConnectionPool, PoolKey, PooledConnection},
    scope::{ConnectionScope, TenantKey},
    settings::EgressSettings,
    tls::{TlsMaterial, TlsOptions, TlsOptionsError, TrustedRoots},
};

/// Closed pooled connections that a request tries before it opens a new one.
const POOLED_ATTEMPTS_MAX: usize = 4;

/// The guarded client. Clones share pools and limits.
#[derive(Debug, Clone)]
pub struct EgressClient {
    inner: Arc<ClientState>,
}

#[derive(Debug)]
struct ClientState {
    connector: Connector,
    pool: Arc<ConnectionPool>,
    destinations: Arc<KeyedLimiter<Arc<PoolKey>>>,
    tenants: Arc<KeyedLimiter<TenantKey>>,
    roots: TrustedRoots,
    default_tls: TlsOptions,
    head_bytes_max: usize,
    idle_timeout: Duration,
    opened: AtomicU64,
    has_sweeper: AtomicBool,
}

/// Counts of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressStats {
    pub requests_in_progress: usize,
    pub requests_waiting: usize,
    pub idle_connections: usize,
    pub connections_opened: u64,
    pub connections_reused: u64,
    pub lookups: u64,
}

impl EgressClient {
    /// Errors: the TLS library rejects its own defaults.
    pub fn new(settings: EgressSettings) -> Result<Self, TlsOptionsError> {
        let limits = settings.limits;
        let tenant_limits = |total_max| KeyedLimits {
            total_max,
            per_key_max: usize::MAX,
            waiting_max: limits.waiting_max,
        };
        let destination_limits = KeyedLimits {
            total_max: usize::MAX,
            per_key_max: limits.destination_requests_max,
            waiting_max: limits.waiting_max,
        };
        let connector = Connector {
            guard: EgressGuard {
                allow_list: settings.allow_list,
                allowed_ports: settings.allowed_ports,
                loopback_http: settings.loopback_http,
                own_addresses: settings.own_addresses,
                is_enabled: settings.has_guard,
            },
            resolver: settings.resolver,
            lookups: KeyedLimiter::new(tenant_limits(limits.lookups_max)),
            lookup_count: AtomicU64::new(0),
            forward_proxy: settings.forward_proxy,
            connect_timeout: limits.connect_timeout,
        };
        Ok(Self {
            inner: Arc::new(ClientState {
                connector,
                pool: Arc::new(ConnectionPool::new(&limits)),
                destinations: KeyedLimiter::new(destination_limits),
                tenants: KeyedLimiter::new(tenant_limits(limits.requests_max)),
                default_tls: TlsOptions::new(&TlsMaterial::default(), &settings.roots)?,
                roots: settings.roots,
                head_bytes_max: limits.head_bytes_max,
                idle_timeout: limits.idle_timeout,
                opened: AtomicU64::new(0),
                has_sweeper: AtomicBool::new(false),
            }),
        })
    }

    /// Builds TLS options. Keep the result: it identifies connections that may be shared.
    /// Errors: a certificate or the key is unreadable, or they do not match.
    pub fn tls_options(
        &self,
        material: &TlsMaterial<'_>,
    ) -> Result<Arc<TlsOptions>, TlsOptionsError> {
        TlsOptions::new(material, &self.inner.roots).map(Arc::new)
    }

    /// The decision of the guard that needs no lookup: scheme, port and name.
    /// Errors: the rule that the destination violates.
    pub fn check_name(&self, destination: &Destination) -> Result<(), GuardRejection> {
        self.inner.connector.guard.check_name(destination)
    }

    /// The complete decision of the guard. Resolves the name, and does not connect.
    /// Errors: the guard rejects the destination, or its name cannot be resolved.
    pub async fn check(
        &self,
        destination: &Destination,
        scope: ConnectionScope,
    ) -> Result<CheckedAddresses, CheckError> {
        self.inner.connector.check(destination, scope.tenant).await
    }

    /// Sends a request and returns the response when its head is received. `deadline` applies until
    /// the last byte of the body. The target and the host are those of the destination.
    ///
    /// Errors: no response, and whether the request may have been sent.
    pub async fn send(
        &self,
        destination: &Destination,
        scope: ConnectionScope,
        tls: Option<&Arc<TlsOptions>>,
        request: Request<Bytes>,
        deadline: Instant,
    ) -> Result<Response<EgressBody>, SendError> {
        let state = &*self.inner;
        let reject = |it| SendError::not_sent(SendFailure::Rejected(it));
        state.connector.guard.check_name(destination).map_err(reject)?;
        let request = prepare(request, destination)?;
        let tls = tls.map_or(&state.default_tls, |it| it);
        let key = Arc::new(PoolKey {
            scope,
            tls: destination.is_https().then(|| tls.id()),
            host: destination.shared_host(),
            port: destination.port(),
        });
        let mut deadline = Box::pin(sleep_until(deadline));
        let permits = before(deadline.as_mut(), state.acquire(&key)).await?;
        let exchange = Exchange { state, destination, key: &key, tls };
        let (response, connection) = exchange.run(request, deadline.as_mut()).await?;
        let (parts, incoming) = response.into_parts();
        let pool = Arc::clone(&state.pool);
        self.start_sweeper();
        let body = EgressBody::new(incoming, connection, pool, key, permits, deadline);
        Ok(Response::from_parts(parts, body))
    }

    /// Closes connections that no request uses.
    pub fn close_idle_connections(&self) {
        self.inner.pool.close_all();
    }

    pub fn stats(&self) -> EgressStats {
        let state = &*self.inner;
        let (requests_in_progress, tenants_waiting) = state.tenants.load();
        let (_, destinations_waiting) = state.destinations.load();
        EgressStats {
            requests_in_progress,
            requests_waiting: tenants_waiting.saturating_add(destinations_waiting),
            idle_connections: state.pool.idle_count(),
            connections_opened: state.opened.load(Ordering::Relaxed),
            connections_reused: state.pool.reused.load(Ordering::Relaxed),
            lookups: state.connector.lookup_count.load(Ordering::Relaxed),
        }
    }

    /// Starts one task that closes idle connections, until the client is dropped.
    fn start_sweeper(&self) {
        let has_sweeper = &self.inner.has_sweeper;
        if has_sweeper.load(Ordering::Relaxed) || has_sweeper.swap(true, Ordering::Relaxed) {
            return;
        }
        let interval = (self.inner.idle_timeout / 2).max(Duration::from_millis(10));
        drop(tokio::spawn(sweep_periodically(Arc::downgrade(&self.inner), interval)));
    }
}

async fn sweep_periodically(state: Weak<ClientState>, interval: Duration) {
    loop {
        sleep(interval).await;
        let Some(state) = state.upgrade() else { return };
        state.pool.close_expired();
    }
}

impl ClientState {
    /// Waits for a place at the destination first: requests that wait for a slow destination must
    /// not use the share of their tenant.
    async fn acquire(&self, key: &Arc<PoolKey>) -> Result<RequestPermits, SendFailure> {
        let destination = self.destinations.acquire(key).await;
        let destination = destination.map_err(|_| SendFailure::Overloaded)?;
        let tenant = self.tenants.acquire(&key.scope.tenant).await;
        let tenant = tenant.map_err(|_| SendFailure::Overloaded)?;
        Ok(RequestPermits::new(destination, tenant))
    }
}

/// One request on the connections of its key.
struct Exchange<'a> {
    state: &'a ClientState,
    destination: &'a Destination,
    key: &'a Arc<PoolKey>,
    tls: &'a TlsOptions,
}

type ReceivedHead = (Response<hyper::body::Incoming>, BodyConnection);

impl Exchange<'_> {
    /// Uses pooled connections as long as they return the request unsent, then a new one.
    async fn run(
        &self,
        mut request: OutgoingRequest,
        mut deadline: Pin<&mut Sleep>,
    ) -> Result<ReceivedHead, SendError> {
        for _ in 0..POOLED_ATTEMPTS_MAX {
            let Some(connection) = self.state.pool.take(self.key) else { break };
            match self.send_on(connection, request, deadline.as_mut()).await {
                Ok(received) => return Ok(received),
                Err(ExchangeFailure { request: Some(it), .. }) => request = it,
                Err(ExchangeFailure { error, request: None }) => return Err(error),
            }
        }
        let connection = before(deadline.as_mut(), self.open_connection()).await?;
        self.send_on(connection, request, deadline).await.map_err(|it| it.error)
    }

    async fn open_connection(&self) -> Result<PooledConnection, SendFailure> {
        let state = self.state;
        let is_https = self.destination.is_https();
        let config = is_https.then(|| state.pool.tls_config(self.key, self.tls));
        let tenant = self.key.scope.tenant;
        let stream = state.connector.connect(self.destination, tenant, config).await?;
        state.opened.fetch_add(1, Ordering::Relaxed);
        if !stream.is_http2() {
            let connection = Http1Connection::open(stream, state.head_bytes_max).await?;
            return Ok(PooledConnection::Http1(connection));
        }
        let connection = Http2Connection::open(stream, state.head_bytes_max).await?;
        state.pool.put_http2(self.key, &connection);
        Ok(PooledConnection::Http2(connection))
    }

    async fn send_on(
        &self,
        connection: PooledConnection,
        mut request: OutgoingRequest,
        deadline: Pin<&mut Sleep>,
    ) -> Result<ReceivedHead, ExchangeFailure> {
        match connection {
            PooledConnection::Http1(connection) => {
                let (response, connection) = connection.exchange(request, deadline).await?;
                let connection = connection.map_or(BodyConnection::None, BodyConnection::Http1);
                Ok((response, connection))
            }
            PooledConnection::Http2(mut connection) => {
                convert_to_http2(&mut request, self.destination)
                    .map_err(|error| ExchangeFailure { error, request: None })?;
                let exchange = connection.exchange(request, deadline).await;
                let response = exchange.map_err(|mut failure| {
                    if let Some(it) = &mut failure.request {
                        convert_to_http1(it, self.destination);
                    }
                    failure
                })?;
                Ok((response, BodyConnection::Http2 { _connection: connection }))
            }
        }
    }
}

/// Runs a step before the request is sent, until the deadline.
async fn before<T>(
    mut deadline: Pin<&mut Sleep>,
    step: impl Future<Output = Result<T, SendFailure>>,
) -> Result<T, SendError> {
    let mut step = pin!(step);
    let result = poll_fn(|context| match step.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => {
            poll_deadline(deadline.as_mut(), context).map(|()| Err(SendFailure::Timeout))
        }
    });
    result.await.map_err(SendError::not_sent)
}

/// Headers that describe the connection or the framing. The client writes its own.
const CONNECTION_HEADERS: &[HeaderName] = &[
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
];

/// Removes headers that would change the framing, and sets host and target for HTTP/1.1.
pub(crate) fn prepare(
    request: Request<Bytes>,
    destination: &Destination,
) -> Result<OutgoingRequest, SendError> {
    // A tunnel would let a caller send bytes that the vault does not see.
    if request.method() == Method::CONNECT {
        return Err(SendError::not_sent(SendFailure::InvalidRequest));
    }
    let (mut parts, body) = request.into_parts();
    for name in CONNECTION_HEADERS {
        parts.headers.remove(name);
    }
    parts.headers.remove("proxy-connection");
    parts.headers.insert(header::HOST, destination.host_header.clone());
    parts.version = Version::HTTP_11;
    parts.uri = Uri::from(destination.path_and_query.clone());
    Ok(Request::from_parts(parts, Full::new(body)))
}

/// HTTP/2 sends the host as a part of the target.
pub(crate) fn convert_to_http2(
    request: &mut OutgoingRequest,
    destination: &Destination,
) -> Result<(), SendError> {
    let uri = Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(destination.authority.clone())
        .path_and_query(destination.path_and_query.clone());
    *request.uri_mut() =
        uri.build().map_err(|_| SendError::not_sent(SendFailure::InvalidRequest))?;
    request.headers_mut().remove(header::HOST);
    Ok(())
}

/// Undoes [`convert_to_http2`], for another connection.
pub(crate) fn convert_to_http1(request: &mut OutgoingRequest, destination: &Destination) {
    *request.uri_mut() = Uri::from(destination.path_and_query.clone());
    request.headers_mut().insert(header::HOST, destination.host_header.clone());
}
