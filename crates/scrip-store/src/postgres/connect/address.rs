//! The address of a database: whether it is encrypted on the way, and what may be shown of it.
//!
//! The word `sslmode` is PostgreSQL's, and most of its values do not make sure who answers. Two of
//! them say what they mean, and are taken; the others are refused, never read as something else.

use std::{net::IpAddr, str::FromStr};

use tokio_postgres::{Config, config::Host};

use crate::postgres::connect::settings::WrongAddress;

/// What is between us and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A socket, this machine, or what somebody said is good enough.
    Plain,
    /// With the server's name and its certificate's chain looked at.
    Tls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SslMode {
    Unsaid,
    Disable,
    VerifyFull,
}

pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) transport: Transport,
    /// Without a password, and without options, which could be anything.
    pub(crate) shown: String,
}

const SAY_WHICH: WrongAddress = WrongAddress(
    "sslmode must be verify-full, which a host beyond this machine gets without saying, or disable. \
     The others do not make sure who answers: write sslmode=verify-full, and set storage.ca_file \
     if the certificate is of a CA of your own",
);

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, WrongAddress> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|it| url.strip_prefix(it));
        let rest = rest.ok_or(WrongAddress("must begin with postgres://"))?;
        // The driver looks for the first one too.
        let (credentials, rest) = match rest.split_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        // An @ further behind, such as in a password among the options, makes a user of all before it.
        let user = credentials.and_then(|it| it.split(':').next()).unwrap_or_default();
        if place.contains('@') || place.contains('#') || user.contains(['/', '?', '&', '=']) {
            return Err(WrongAddress(
                "is not clear: write @ in a password as %40, # as %23, : as %3A, / as %2F, ? as %3F",
            ));
        }
        let (ssl_mode, query) = take_ssl_mode(query)?;
        let config = Config::from_str(&join(credentials, place, &query))
            .map_err(|_| WrongAddress("is not an address that PostgreSQL understands"))?;
        let transport = transport(&config, ssl_mode)?;
        let user = credentials.map(|it| match it.split_once(':') {
            Some((user, _)) => format!("{user}:***@"),
            None => format!("{it}@"),
        });
        let ssl_mode = match ssl_mode {
            SslMode::Unsaid => "",
            SslMode::Disable => "?sslmode=disable",
            SslMode::VerifyFull => "?sslmode=verify-full",
        };
        let shown = format!("postgres://{}{place}{ssl_mode}", user.unwrap_or_default());
        Ok(Self { config, transport, shown })
    }
}

/// What the driver is to read.
fn join(credentials: Option<&str>, place: &str, query: &str) -> String {
    let credentials = credentials.map(|it| format!("{it}@")).unwrap_or_default();
    format!("postgres://{credentials}{place}?{query}")
}

/// It, and the query without it.
fn take_ssl_mode(query: &str) -> Result<(SslMode, String), WrongAddress> {
    let mut ssl_mode = SslMode::Unsaid;
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|it| !it.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (name, value) {
            ("sslmode", _) if ssl_mode != SslMode::Unsaid => {
                return Err(WrongAddress("must say sslmode once"));
            }
            ("sslmode", "disable") => ssl_mode = SslMode::Disable,
            ("sslmode", "verify-full") => ssl_mode = SslMode::VerifyFull,
            ("sslmode", _) => return Err(SAY_WHICH),
            ("sslrootcert", _) => {
                return Err(WrongAddress(
                    "must have no sslrootcert; that file goes into storage.ca_file",
                ));
            }
            // A name in disguise would be read by the driver and not by us.
            (name, _) if name.starts_with("ssl") || name.contains('%') => {
                return Err(WrongAddress("must say nothing of TLS but sslmode"));
            }
            (_, _) => rest.push(pair),
        }
    }
    Ok((ssl_mode, rest.join("&")))
}

fn transport(config: &Config, ssl_mode: SslMode) -> Result<Transport, WrongAddress> {
    let hosts = config.get_hosts();
    if hosts.is_empty() && config.get_hostaddrs().is_empty() {
        return Err(WrongAddress("must name a host, or the folder of a socket as %2Frun%2F…"));
    }
    let has_socket = hosts.iter().any(|it| matches!(it, Host::Unix(_)));
    let is_near = if config.get_hostaddrs().is_empty() {
        hosts.iter().all(is_near)
    } else {
        config.get_hostaddrs().iter().all(IpAddr::is_loopback)
    };
    match ssl_mode {
        SslMode::Disable => Ok(Transport::Plain),
        SslMode::Unsaid if is_near => Ok(Transport::Plain),
        SslMode::Unsaid | SslMode::VerifyFull if has_socket => {
            Err(WrongAddress("must not ask for TLS on a socket, which has none"))
        }
        SslMode::Unsaid | SslMode::VerifyFull => Ok(Transport::Tls),
    }
}

fn is_near(host: &Host) -> bool {
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
    fn taken(url: &str, transport: Transport, shown: &str) {
        let address = Address::parse(url).map_err(|it| it.to_string()).unwrap();
        assert_eq!((address.transport, address.shown.as_str()), (transport, shown));
    }

    #[track_caller]
    fn refused(url: &str, rule: &str) {
        let said = Address::parse(url).map(|it| it.shown).unwrap_err().to_string();
        assert!(said.contains(rule), "{said}");
        assert!(!said.contains("4242"), "{said}");
    }

    #[test]
    fn what_is_near_is_in_clear_and_all_else_is_by_tls() {
        use Transport::{Plain, Tls};
        taken("postgres://a@%2Frun%2Fpg/b", Plain, "postgres://a@%2Frun%2Fpg/b");
        taken("postgresql://a@localhost:5433/b", Plain, "postgres://a@localhost:5433/b");
        taken("postgres://a@127.0.0.1/b", Plain, "postgres://a@127.0.0.1/b");
        taken("postgres://a@[::1]/b", Plain, "postgres://a@[::1]/b");
        taken("postgres://a@db/b", Tls, "postgres://a@db/b");
        taken("postgres://a@localhost,db/b", Tls, "postgres://a@localhost,db/b");
        taken("postgres://a@localhost/b?hostaddr=10.0.0.1", Tls, "postgres://a@localhost/b");
        taken("postgres://a@db/b?hostaddr=127.0.0.1", Plain, "postgres://a@db/b");
        taken("postgres://db", Tls, "postgres://db");
        let full = "postgres://a@localhost/b?sslmode=verify-full";
        taken(full, Tls, full);
        let off = "postgres://a@db/b?sslmode=disable";
        taken(off, Plain, off);
    }

    #[test]
    fn a_password_is_not_shown() {
        use Transport::{Plain, Tls};
        taken("postgres://a:4242@db/b", Tls, "postgres://a:***@db/b");
        taken("postgres://a:42/4?2@db/b", Tls, "postgres://a:***@db/b");
        taken(
            "postgres://a@db/b?password=4242&sslmode=disable",
            Plain,
            "postgres://a@db/b?sslmode=disable",
        );
        taken("postgres://a@db/b?options=-c%20x%3D4242", Tls, "postgres://a@db/b");
        refused("postgres://a:42@42@db/b", "%40");
        refused("postgres://a:x4242", "not an address");
        refused("postgres://db/b?user=a&password=42@42", "%40");
        refused("postgres://db?password=42:42@42", "%40");
        refused("4242", "begin with postgres://");
    }

    #[test]
    fn a_word_that_makes_nothing_sure_is_refused() {
        for mode in ["require", "prefer", "allow", "verify-ca", "", "4242"] {
            refused(&format!("postgres://a@db/b?sslmode={mode}"), "write sslmode=verify-full");
        }
        refused("postgres://a@db/b?sslmode=disable&sslmode=verify-full", "once");
        refused("postgres://a@db/b?ssl%6Dode=require", "nothing of TLS");
        refused("postgres://a@db/b?sslnegotiation=direct", "nothing of TLS");
        refused("postgres://a@db/b?sslrootcert=4242", "storage.ca_file");
        refused("postgres://a@%2Frun/b?sslmode=verify-full", "on a socket");
        refused("postgres://a@%2Frun,db/b", "on a socket");
        refused("postgres://a@/b", "name a host");
    }
}
