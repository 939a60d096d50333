//! Connections that wait for the next request. A connection serves one scope, one set of TLS options
//! and one origin, and never another.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustls::ClientConfig;
use tokio::time::Instant;

use crate::{
    connection::{http1::Http1Connection, http2::Http2Connection},
    scope::{ConnectionScope, TenantKey},
    settings::EgressLimits,
    tls::TlsOptions,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolKey {
    pub(crate) scope: ConnectionScope,
    /// Identity of the TLS options; absent for http.
    pub(crate) tls: Option<u64>,
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

/// A connection from the pool.
pub(crate) enum PooledConnection {
    Http1(Box<Http1Connection>),
    Http2(Http2Connection),
}

#[derive(Default)]
struct PoolEntry {
    http1: Vec<(Box<Http1Connection>, Instant)>,
    http2: Vec<(Http2Connection, Instant)>,
    /// TLS sessions of this key.
    tls: Option<Arc<ClientConfig>>,
    used_at: Option<Instant>,
}

#[derive(Default)]
struct PoolState {
    entries: HashMap<Arc<PoolKey>, PoolEntry>,
    idle: usize,
    idle_by_tenant: HashMap<TenantKey, usize>,
}

pub(crate) struct ConnectionPool {
    state: Mutex<PoolState>,
    idle_max: usize,
    idle_timeout: Duration,
    age_max: Duration,
    pub(crate) reused: AtomicU64,
}

impl ConnectionPool {
    pub(crate) fn new(limits: &EgressLimits) -> Self {
        Self {
            state: Mutex::default(),
            idle_max: limits.idle_connections_max,
            idle_timeout: limits.idle_timeout,
            age_max: limits.connection_age_max,
            reused: AtomicU64::new(0),
        }
    }

    /// Takes an open connection. The newest first, so that the others become idle.
    pub(crate) fn take(&self, key: &Arc<PoolKey>) -> Option<PooledConnection> {
        let now = Instant::now();
        loop {
            // A check reads from the network, so it happens without the lock.
            let connection = match self.take_unchecked(key, now)? {
                PooledConnection::Http1(mut it) => {
                    it.is_reusable().then_some(PooledConnection::Http1(it))
                }
                PooledConnection::Http2(it) => Some(PooledConnection::Http2(it)),
            };
            if connection.is_some() {
                self.reused.fetch_add(1, Ordering::Relaxed);
                return connection;
            }
        }
    }

    fn take_unchecked(&self, key: &Arc<PoolKey>, now: Instant) -> Option<PooledConnection> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let entry = state.entries.get_mut(key)?;
        entry.used_at = Some(now);
        entry.http2.retain(|(it, _)| !it.is_closed() && !self.is_old(it.opened_at, now));
        if let Some((connection, used_at)) = entry.http2.iter_mut().find(|(it, _)| it.has_place()) {
            *used_at = now;
            return Some(PooledConnection::Http2(connection.clone()));
        }
        while let Some((connection, idle_since)) = entry.http1.pop() {
            state.idle = state.idle.saturating_sub(1);
            decrement(&mut state.idle_by_tenant, &key.scope.tenant, 1);
            let is_expired = now.duration_since(idle_since) > self.idle_timeout;
            if !is_expired && !self.is_old(connection.opened_at, now) {
                return Some(PooledConnection::Http1(connection));
            }
        }
        None
    }

    /// Keeps a connection after its response. A tenant gets at most as many places as are free.
    pub(crate) fn put_http1(&self, key: &Arc<PoolKey>, mut connection: Box<Http1Connection>) {
        let now = Instant::now();
        if self.is_old(connection.opened_at, now) || !connection.is_reusable() {
            return;
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        let tenant_idle = state.idle_by_tenant.entry(key.scope.tenant).or_default();
        if *tenant_idle < self.idle_max.saturating_sub(state.idle) {
            *tenant_idle += 1;
            state.idle += 1;
            let entry = state.entries.entry(Arc::clone(key)).or_default();
            entry.http1.push((connection, now));
            entry.used_at = Some(now);
        } else {
            decrement(&mut state.idle_by_tenant, &key.scope.tenant, 0);
        }
    }

    /// Shares a new connection with the next requests.
    pub(crate) fn put_http2(&self, key: &Arc<PoolKey>, connection: &Http2Connection) {
        let now = Instant::now();
        let mut guard = self.lock();
        let entry = guard.entries.entry(Arc::clone(key)).or_default();
        entry.used_at = Some(now);
        // Requests that began at the same time opened connections of their own; one is enough.
        if !entry.http2.iter().any(|(it, _)| !it.is_closed() && it.has_place()) {
            entry.http2.push((connection.clone(), now));
        }
    }

    /// Returns the TLS configuration with the sessions of this key.
    pub(crate) fn tls_config(&self, key: &Arc<PoolKey>, options: &TlsOptions) -> Arc<ClientConfig> {
        let mut guard = self.lock();
        let entry = guard.entries.entry(Arc::clone(key)).or_default();
        entry.used_at = Some(Instant::now());
        Arc::clone(entry.tls.get_or_insert_with(|| options.config_with_sessions()))
    }

    /// Closes connections that are idle for too long.
    pub(crate) fn close_expired(&self) {
        let now = Instant::now();
        self.retain(|used_at| now.duration_since(used_at) <= self.idle_timeout);
    }

    pub(crate) fn close_all(&self) {
        self.retain(|_| false);
    }

    pub(crate) fn idle_count(&self) -> usize {
        let guard = self.lock();
        let http2 = guard.entries.values().flat_map(|it| &it.http2);
        guard.idle + http2.filter(|(it, _)| it.is_idle()).count()
    }

    fn retain(&self, is_kept: impl Fn(Instant) -> bool) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut closed = Vec::new();
        state.entries.retain(|key, entry| {
            let (kept, expired): (Vec<_>, Vec<_>) =
                entry.http1.drain(..).partition(|(_, idle_since)| is_kept(*idle_since));
            state.idle = state.idle.saturating_sub(expired.len());
            decrement(&mut state.idle_by_tenant, &key.scope.tenant, expired.len());
            entry.http1 = kept;
            closed.extend(expired);
            entry
                .http2
                .retain(|(it, used_at)| !it.is_closed() && (is_kept(*used_at) || !it.is_idle()));
            let is_in_use = !entry.http1.is_empty() || !entry.http2.is_empty();
            is_in_use || entry.used_at.is_some_and(&is_kept)
        });
        // Close the sockets without the lock.
        drop(guard);
        drop(closed);
    }

    fn is_old(&self, opened_at: Instant, now: Instant) -> bool {
        now.duration_since(opened_at) > self.age_max
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ConnectionPool").finish_non_exhaustive()
    }
}

/// Subtracts, and forgets tenants without idle connections.
fn decrement(counts: &mut HashMap<TenantKey, usize>, tenant: &TenantKey, amount: usize) {
    if let Some(count) = counts.get_mut(tenant) {
        *count = count.saturating_sub(amount);
        if *count == 0 {
            counts.remove(tenant);
        }
    }
}
