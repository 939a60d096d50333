//! The database address: how the connection is encrypted, and the redacted form for logs.
//!
//! `sslmode` is an option of PostgreSQL addresses. Most of its values do not authenticate the
//! server. `disable` and `verify-full` are accepted because they are unambiguous; all other values
//! are rejected.

use std::{error::Error, fmt, net::IpAddr, str::FromStr};

use tokio_postgres::{Config, config::Host};

/// The reason why an address is invalid. Never contains the address, because it may include a
/// password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidAddress(&'static str);

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for InvalidAddress {}

/// Transport of the connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresTransport {
    /// Unencrypted: a Unix socket, this machine, or `sslmode=disable`.
    Plain,
    /// TLS with verification of the server's name and certificate chain.
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
    /// Address without the password and without options, because options can contain secrets.
    pub(crate) redacted: String,
}

const UNSUPPORTED_SSL_MODE: InvalidAddress = InvalidAddress(
    "sslmode must be verify-full (the default for remote hosts) or disable; other values do not \
     authenticate the server: write sslmode=verify-full, and set storage.ca_file if your own CA \
     signed the server's certificate",
);

impl PostgresAddress {
    pub(crate) fn parse(url: &str) -> Result<Self, InvalidAddress> {
        let without_scheme =
            ["postgres://", "postgresql://"].iter().find_map(|it| url.strip_prefix(it));
        let without_scheme = without_scheme.ok_or(InvalidAddress("must start with postgres://"))?;
        // The driver also splits at the first `@`.
        let (credentials, target) = match without_scheme.split_once('@') {
            Some((credentials, target)) => (Some(credentials), target),
            None => (None, without_scheme),
        };
        let (host_and_path, query) = target.split_once('?').unwrap_or((target, ""));
        // If a later part contains an unescaped `@`, such as a password in the options, the driver
        // would read everything before it as the user.
        let user = credentials.and_then(|it| it.split(':').next()).unwrap_or_default();
        if host_and_path.contains('@')
            || host_and_path.contains('#')
            || user.contains(['/', '?', '&', '='])
        {
            return Err(InvalidAddress(
                "is ambiguous: write @ in a password as %40, # as %23, : as %3A, / as %2F, ? as %3F",
            ));
        }
        let (ssl_mode, query) = take_ssl_mode(query)?;
        let config = Config::from_str(&join_url(credentials, host_and_path, &query))
            .map_err(|_| InvalidAddress("is not a valid PostgreSQL address"))?;
        let transport = choose_transport(&config, ssl_mode)?;
        let redacted_user = credentials.map(|it| match it.split_once(':') {
            Some((user, _)) => format!("{user}:***@"),
            None => format!("{it}@"),
        });
        let ssl_option = match ssl_mode {
            SslMode::Unspecified => "",
            SslMode::Disable => "?sslmode=disable",
            SslMode::VerifyFull => "?sslmode=verify-full",
        };
        let redacted =
            format!("postgres://{}{host_and_path}{ssl_option}", redacted_user.unwrap_or_default());
        Ok(Self { config, transport, redacted })
    }
}

/// Joins the parts to the URL that the driver parses.
fn join_url(credentials: Option<&str>, host_and_path: &str, query: &str) -> String {
    let credentials = credentials.map(|it| format!("{it}@")).unwrap_or_default();
    format!("postgres://{credentials}{host_and_path}?{query}")
}

/// Extracts `sslmode` and returns it with the remaining query.
fn take_ssl_mode(query: &str) -> Result<(SslMode, String), InvalidAddress> {
    let mut ssl_mode = SslMode::Unspecified;
    let mut remaining_pairs = Vec::new();
    for pair in query.split('&').filter(|it| !it.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (name, value) {
            ("sslmode", _) if ssl_mode != SslMode::Unspecified => {
                return Err(InvalidAddress("must contain sslmode only once"));
            }
            ("sslmode", "disable") => ssl_mode = SslMode::Disable,
            ("sslmode", "verify-full") => ssl_mode = SslMode::VerifyFull,
            ("sslmode", _) => return Err(UNSUPPORTED_SSL_MODE),
            ("sslrootcert", _) => {
                return Err(InvalidAddress(
                    "must not contain sslrootcert; set storage.ca_file instead",
                ));
            }
            // The driver would decode a percent-encoded name that this check does not recognize.
            (name, _) if name.starts_with("ssl") || name.contains('%') => {
                return Err(InvalidAddress("must not contain TLS options other than sslmode"));
            }
            (_, _) => remaining_pairs.push(pair),
        }
    }
    Ok((ssl_mode, remaining_pairs.join("&")))
}

fn choose_transport(
    config: &Config,
    ssl_mode: SslMode,
) -> Result<PostgresTransport, InvalidAddress> {
    let hosts = config.get_hosts();
    if hosts.is_empty() && config.get_hostaddrs().is_empty() {
        return Err(InvalidAddress("must name a host, or a socket directory as %2Frun%2F…"));
    }
    let has_socket = hosts.iter().any(|it| matches!(it, Host::Unix(_)));
    let is_local = if config.get_hostaddrs().is_empty() {
        hosts.iter().all(is_local_host)
    } else {
        config.get_hostaddrs().iter().all(IpAddr::is_loopback)
    };
    match ssl_mode {
        SslMode::Disable => Ok(PostgresTransport::Plain),
        SslMode::Unspecified if is_local => Ok(PostgresTransport::Plain),
        SslMode::Unspecified | SslMode::VerifyFull if has_socket => {
            Err(InvalidAddress("must not require TLS on a Unix socket"))
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
        let error = PostgresAddress::parse(url).map(|it| it.redacted).unwrap_err().to_string();
        assert!(error.contains(message), "the error lacks {message:?}: {error}");
        assert!(!error.contains("4242"), "the error quotes the address: {error}");
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
        let verify_full = "postgres://a@localhost/b?sslmode=verify-full";
        assert_accepted(verify_full, Tls, verify_full);
        let disable = "postgres://a@db/b?sslmode=disable";
        assert_accepted(disable, Plain, disable);
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
        assert_rejected("postgres://a:x4242", "not a valid PostgreSQL address");
        assert_rejected("postgres://db/b?user=a&password=42@42", "%40");
        assert_rejected("postgres://db?password=42:42@42", "%40");
        assert_rejected("4242", "start with postgres://");
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
        assert_rejected("postgres://a@db/b?ssl%6Dode=require", "TLS options");
        assert_rejected("postgres://a@db/b?sslnegotiation=direct", "TLS options");
        assert_rejected("postgres://a@db/b?sslrootcert=4242", "storage.ca_file");
        assert_rejected("postgres://a@%2Frun/b?sslmode=verify-full", "on a Unix socket");
        assert_rejected("postgres://a@%2Frun,db/b", "on a Unix socket");
        assert_rejected("postgres://a@/b", "name a host");
    }
}
