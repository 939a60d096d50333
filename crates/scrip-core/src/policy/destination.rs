//! Destinations that tenants choose: the URLs and host names of proxies and webhooks.

pub mod destination_url;
pub mod host_name;

pub use self::{
    destination_url::{DestinationUrl, LoopbackDestinations},
    host_name::HostName,
};
