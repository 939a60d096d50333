//! Arguments of `scrip dev`.

use std::net::SocketAddr;

use clap::Args;
use scrip_server::config;

const DEV_EXAMPLES: &str = "\
Examples:
  scrip dev
  scrip dev --print-webhooks
  scrip dev --listen 127.0.0.1:0 --json --data-dir /tmp/vault";

/// The first run creates the data directory, a root key and a test tenant with three applications.
/// Later runs use them again.
#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = DEV_EXAMPLES)]
pub(crate) struct DevArguments {
    /// Data directory with the database and the keys [default: scrip-data].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// Address to listen on; port 0 selects a free port [default: 127.0.0.1:4242].
    #[arg(long, value_name = "ADDR", value_parser = config::value::parse_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Print one line of JSON on standard output when ready.
    #[arg(long)]
    pub(crate) json: bool,
    /// Rate limits, as for every test tenant: 50 requests in 10 seconds [default: off].
    #[arg(long, value_name = "MODE", value_parser = ["on", "off"])]
    pub(crate) rate_limits: Option<String>,
    /// Allow plain HTTP on addresses other than loopback, such as in a container.
    #[arg(long)]
    pub(crate) plain_http: bool,
    /// Do not print a line for each request.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Create a webhook with all event types, and print its deliveries after a check of their
    /// signatures.
    #[arg(long)]
    pub(crate) print_webhooks: bool,
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    #[test]
    fn listen_address_without_a_host_is_rejected_with_an_example() {
        let parse = |address| {
            let command = DevArguments::augment_args(Command::new("dev"));
            command.try_get_matches_from(["dev", "--listen", address]).map_err(|it| it.to_string())
        };
        assert!(parse("127.0.0.1:4555").is_ok());
        let error = parse("4555").unwrap_err();
        assert!(error.contains("such as 127.0.0.1:4242"), "{error}");
    }
}
