//! Lookups of names. A trait, so that a test can control the addresses of a name.

use std::{fmt, future::Future, io, net::IpAddr, pin::Pin};

use tokio::net::lookup_host;

pub type LookupFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves names to addresses. The result needs no check: the guard checks each address.
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a> {
        Box::pin(async move {
            let addresses = lookup_host((name, 0)).await?;
            Ok(addresses.map(|it| it.ip()).collect())
        })
    }
}
