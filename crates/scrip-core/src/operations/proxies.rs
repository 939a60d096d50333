//! Proxies.

pub mod create_proxy;
pub mod delete_proxy;
pub mod list_proxies;
pub mod set_proxy_client_certificate;
pub mod set_proxy_host;
pub mod update_proxy;
