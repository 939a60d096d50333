//! The address of a database: whether it is encrypted on the way, and what may be shown of it.
//!
//! The word `sslmode` is PostgreSQL's, and most of its values do not make sure who answers. Two of
//! them say what they mean, and are taken; the others are refused, never read as something else.

use std::{net::IpAddr, str::FromStr};

use tokio_postgres::{Config, config::Host};

use crate::postgres::connect::settings::InvalidAddress;

/// What is between us and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresTransport {
    /// A socket, this machine, or what somebody said is good enough.
    Plain,
    /// With the server's name and its certificate's chain looked at.
    Tls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SslMode {
    Unspecified,
    Disable,
    VerifyFull,
}

pub(crate) struct PostgresAddress {
    pub(crate) config: Config,
    pub(crate) transport: PostgresTransport,
    /// Without a password, and without options, which could be anything.
    pub(crate) redacted: String,
}

const UNSUPPORTED_SSL_MODE: InvalidAddress = InvalidAddress(
    "sslmode must be verify-full, which a host beyond this machine gets without saying, or disable. \
     The others do not make sure who answers: write sslmode=verify-full, and set storage.ca_file \
     if the certificate is of a CA of your own",
);

impl PostgresAddress {
    pub(crate) fn parse(url: &str) -> Result<Self, InvalidAddress> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|it| url.strip_prefix(it));
        let rest = rest.ok_or(InvalidAddress("must begin with postgres://"))?;
        // The driver looks for the first one too.
        let (credentials, rest) = match rest.split_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        // An @ further behind, such as in a password among the options, makes a user of all before it.
        let user = credentials.and_then(|it| it.split(':').next()).unwrap_or_default();
        if place.contains('@') || place.contains('#') || user.contains(['/', '?', '&', '=']) {
            return Err(InvalidAddress(
                "is not clear: write @ in a password as %40, # as %23, : as %3A, / as %2F, ? as %3F",
            ));
        }
        let (ssl_mode, query) = take_ssl_mode(query)?;
        let config = Config::from_str(&join_url(credentials, place, &query))
            .map_err(|_| InvalidAddress("is not an address that PostgreSQL understands"))?;
        let transport = choose_transport(&config, ssl_mode)?;
        let user = credentials.map(|it| match it.split_once(':') {
            Some((user, _)) => format!("{user}:***@"),
            None => format!("{it}@"),
        });
        let ssl_mode = match ssl_mode {
            SslMode::Unspecified => "",
            SslMode::Disable => "?sslmode=disable",
            SslMode::VerifyFull => "?sslmode=verify-full",
        };
        let redacted = format!("postgres://{}{place}{ssl_mode}", user.unwrap_or_default());
        Ok(Self { config, transport, redacted })
    }
}

/// What the driver is to read.
fn join_url(credentials: Option<&str>, host_and_path: &str, query: &str) -> String {
    let credentials = credentials.map(|it| format!("{it}@")).unwrap_or_default();
    format!("postgres://{credentials}{host_and_path}?{query}")
}

/// It, and the query without it.
fn take_ssl_mode(query: &str) -> Result<(SslMode, String), InvalidAddress> {
    let mut ssl_mode = SslMode::Unspecified;
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|it| !it.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (name, value) {
            ("sslmode", _) if ssl_mode != SslMode::Unspecified => {
                return Err(InvalidAddress("must say sslmode once"));
            }
            ("sslmode", "disable") => ssl_mode = SslMode::Disable,
            ("sslmode", "verify-full") => ssl_mode = SslMode::VerifyFull,
            ("sslmode", _) => return Err(UNSUPPORTED_SSL_MODE),
            ("sslrootcert", _) => {
                return Err(InvalidAddress(
                    "must have no sslrootcert; that file goes into storage.ca_file",
                ));
            }
            // A name in disguise would be read by the driver and not by us.
            (name, _) if name.starts_with("ssl") || name.contains('%') => {
                return Err(InvalidAddress("must say nothing of TLS but sslmode"));
            }
            (_, _) => rest.push(pair),
        }
    }
    Ok((ssl_mode, rest.join("&")))
}

fn choose_transport(
    config: &Config,
    ssl_mode: SslMode,
) -> Result<PostgresTransport, InvalidAddress> {
    let hosts = config.get_hosts();
    if hosts.is_empty() && config.get_hostaddrs().is_empty() {
        return Err(InvalidAddress("must name a host, or the folder of a socket as %2Frun%2F…"));
    }
    let has_socket = hosts.iter().any(|it| matches!(it, Host::Unix(_)));
    let is_near = if config.get_hostaddrs().is_empty() {
        hosts.iter().all(is_local_host)
    } else {
        config.get_hostaddrs().iter().all(IpAddr::is_loopback)
    };
    match ssl_mode {
        SslMode::Disable => Ok(PostgresTransport::Plain),
        SslMode::Unspecified if is_near => Ok(PostgresTransport::Plain),
        SslMode::Unspecified | SslMode::VerifyFull if has_socket => {
            Err(InvalidAddress("must not ask for TLS on a socket, which has none"))
        }
        SslMode::Unspecified | SslMode::VerifyFull => Ok(PostgresTransport::Tls),
    }
}

fn is_local_host(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|it: IpAddr| it.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_accepted(url: &str, transport: PostgresTransport, redacted: &str) {
        let address = PostgresAddress::parse(url).map_err(|it| it.to_string()).unwrap();
        assert_eq!((address.transport, address.redacted.as_str()), (transport, redacted));
    }

    #[track_caller]
    fn assert_rejected(url: &str, message: &str) {
        let output = PostgresAddress::parse(url).map(|it| it.redacted).unwrap_err().to_string();
        assert!(output.contains(message), "{output}");
        assert!(!output.contains("4242"), "{output}");
    }

    #[test]
    fn local_hosts_connect_in_clear_and_remote_hosts_use_tls() {
        use PostgresTransport::{Plain, Tls};
        assert_accepted("postgres://a@%2Frun%2Fpg/b", Plain, "postgres://a@%2Frun%2Fpg/b");
        assert_accepted("postgresql://a@localhost:5433/b", Plain, "postgres://a@localhost:5433/b");
        assert_accepted("postgres://a@127.0.0.1/b", Plain, "postgres://a@127.0.0.1/b");
        assert_accepted("postgres://a@[::1]/b", Plain, "postgres://a@[::1]/b");
        assert_accepted("postgres://a@db/b", Tls, "postgres://a@db/b");
        assert_accepted("postgres://a@localhost,db/b", Tls, "postgres://a@localhost,db/b");
        assert_accepted(
            "postgres://a@localhost/b?hostaddr=10.0.0.1",
            Tls,
            "postgres://a@localhost/b",
        );
        assert_accepted("postgres://a@db/b?hostaddr=127.0.0.1", Plain, "postgres://a@db/b");
        assert_accepted("postgres://db", Tls, "postgres://db");
        let full = "postgres://a@localhost/b?sslmode=verify-full";
        assert_accepted(full, Tls, full);
        let off = "postgres://a@db/b?sslmode=disable";
        assert_accepted(off, Plain, off);
    }

    #[test]
    fn password_is_redacted_from_the_address() {
        use PostgresTransport::{Plain, Tls};
        assert_accepted("postgres://a:4242@db/b", Tls, "postgres://a:***@db/b");
        assert_accepted("postgres://a:42/4?2@db/b", Tls, "postgres://a:***@db/b");
        assert_accepted(
            "postgres://a@db/b?password=4242&sslmode=disable",
            Plain,
            "postgres://a@db/b?sslmode=disable",
        );
        assert_accepted("postgres://a@db/b?options=-c%20x%3D4242", Tls, "postgres://a@db/b");
        assert_rejected("postgres://a:42@42@db/b", "%40");
        assert_rejected("postgres://a:x4242", "not an address");
        assert_rejected("postgres://db/b?user=a&password=42@42", "%40");
        assert_rejected("postgres://db?password=42:42@42", "%40");
        assert_rejected("4242", "begin with postgres://");
    }

    #[test]
    fn sslmode_that_does_not_authenticate_the_server_is_rejected() {
        for mode in ["require", "prefer", "allow", "verify-ca", "", "4242"] {
            assert_rejected(
                &format!("postgres://a@db/b?sslmode={mode}"),
                "write sslmode=verify-full",
            );
        }
        assert_rejected("postgres://a@db/b?sslmode=disable&sslmode=verify-full", "once");
        assert_rejected("postgres://a@db/b?ssl%6Dode=require", "nothing of TLS");
        assert_rejected("postgres://a@db/b?sslnegotiation=direct", "nothing of TLS");
        assert_rejected("postgres://a@db/b?sslrootcert=4242", "storage.ca_file");
        assert_rejected("postgres://a@%2Frun/b?sslmode=verify-full", "on a socket");
        assert_rejected("postgres://a@%2Frun,db/b", "on a socket");
        assert_rejected("postgres://a@/b", "name a host");
    }
}
