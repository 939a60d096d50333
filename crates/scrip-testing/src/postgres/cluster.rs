//! PostgreSQL as operators run it: durable and over TCP. Tests can kill it as a power failure
//! would, and promote a standby.
//!
//! A cluster has two slots for servers. Their ports never change, so one address names both. As in
//! [`crate::postgres`], everything ends with this process, for whatever reason.

mod tls;

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    net::TcpListener,
    process::{Child, ChildStdout},
    thread,
    time::Duration,
};

use uuid::Uuid;

use crate::postgres::{query::query_database, start_script};

/// The role that owns the database and replicates.
const OWNER_ROLE: &str = "scrip";
const SUPERUSER: &str = "postgres";
/// The number of polls in one minute.
const POLLS_MAX: usize = 3000;
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The script of the shell: it executes its input line by line. It kills the servers when its input
/// ends, that is, when this process ends. A stopped postmaster starts no further processes,
/// so the list of its children is complete. Each child has its own process group, so there is no
/// group to kill.
const CLUSTER_SCRIPT: &str = r#"
umask 077
folder=$1 programs=$2 first= second=
mkdir "$folder" || exit 1
kill_tree() {
    [ -n "$1" ] || return 0
    kill -STOP "$1"
    children=$(cat "/proc/$1/task/$1/children")
    kill -KILL "$1" $children 2>/dev/null
    wait "$1" 2>/dev/null
    for one in $children; do
        while [ -e "/proc/$one" ] && ! grep -q '^State:.Z' "/proc/$one/status" 2>/dev/null; do
            sleep 0.01
        done
    done
}
wait_until_ready() {
    tries=0
    until "$programs/pg_isready" -q -h 127.0.0.1 -p "$2" -d postgres; do
        tries=$((tries + 1))
        kill -0 "$1" 2>/dev/null && [ $tries -lt 1200 ] || return 1
        sleep 0.05
    done
}
while read -r line; do
    eval "$line"
    echo "exit $?"
done
kill_tree "$first"
kill_tree "$second"
rm -rf "$folder"
"#;

/// One of the two slots for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerSlot {
    First,
    Second,
}

impl ServerSlot {
    fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// The time when a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// After the standby has written the commit to disk.
    Synchronous,
    /// Without waiting for the standby.
    Asynchronous,
}

#[derive(Debug)]
pub struct Cluster {
    shell: Child,
    output: BufReader<ChildStdout>,
    ports: (u16, u16),
    primary: ServerSlot,
    /// Additional settings of every server, `name=value`.
    settings: Vec<String>,
}

/// Returns a port below the ephemeral ports of the kernel, so that no client connection can occupy
/// the port of a restarting server.
fn free_port() -> u16 {
    let random = Uuid::new_v4().as_u128();
    let candidates =
        (0..1000_u128).filter_map(|offset| u16::try_from(15_000 + (random + offset) % 15_000).ok());
    let mut free_ports = candidates.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free_ports.next().expect("find a free port")
}

impl Cluster {
    /// Starts one server, durable unless `settings` say otherwise, with an empty database that an
    /// ordinary role owns.
    pub fn start(settings: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("scrip-pgc-{}", Uuid::new_v4().simple()));
        let mut shell = start_script(CLUSTER_SCRIPT, &folder);
        let output = BufReader::new(shell.stdout.take().unwrap());
        let settings = settings.iter().map(|&it| it.to_owned()).collect();
        let (ports, primary) = ((free_port(), free_port()), ServerSlot::First);
        let mut cluster = Self { shell, output, ports, primary, settings };
        cluster.run_shell_line(&format!(
            r#""$programs/initdb" -D "$folder/first" -U {SUPERUSER} -A trust -E UTF8 --locale=C \
                --no-sync >"$folder/initdb.log" 2>&1 || {{ cat "$folder/initdb.log"; false; }}"#
        ));
        cluster.start_server(ServerSlot::First);
        query_server(ports.0, SUPERUSER, &format!("CREATE ROLE {OWNER_ROLE} LOGIN"));
        query_server(
            ports.0,
            SUPERUSER,
            &format!("CREATE DATABASE {OWNER_ROLE} OWNER {OWNER_ROLE}"),
        );
        cluster
    }

    /// The address with both servers. A client uses the server that accepts writes.
    pub fn url(&self) -> String {
        let (first, second) = self.ports;
        format!(
            "postgres://{OWNER_ROLE}@127.0.0.1:{first},127.0.0.1:{second}/{OWNER_ROLE}\
             ?target_session_attrs=read-write"
        )
    }

    /// Kills the primary and all its processes at once. None of them can write or send anything
    /// more.
    pub fn kill_primary(&mut self) {
        self.kill_server(self.primary);
    }

    /// Restarts the primary in its directory and waits for recovery.
    pub fn restart_primary(&mut self) {
        self.start_server(self.primary);
    }

    /// Stops the primary and all its processes. Connections stay open.
    pub fn freeze_primary(&mut self) {
        self.signal_primary("STOP");
    }

    pub fn resume_primary(&mut self) {
        self.signal_primary("CONT");
    }

    /// Adds a standby that follows the primary in the other slot.
    pub fn add_standby(&mut self, replication: Replication) {
        let standby = self.primary.other();
        let (port, name) = (self.port(self.primary), standby.name());
        self.run_shell_line(&format!(
            r#"rm -rf "$folder/{name}" && "$programs/pg_basebackup" -R -X stream -c fast --no-sync \
                -D "$folder/{name}" -d "host=127.0.0.1 port={port} user={SUPERUSER} application_name={name}""#
        ));
        self.start_server(standby);
        let state = match replication {
            Replication::Asynchronous => "async",
            Replication::Synchronous => {
                self.query_primary("ALTER SYSTEM SET synchronous_standby_names = '*'");
                self.query_primary("SELECT pg_reload_conf()");
                "sync"
            }
        };
        self.wait_for_result(
            "SELECT state || ' ' || sync_state FROM pg_stat_replication",
            &[&format!("streaming {state}")],
        );
    }

    /// Disconnects the standby from the primary, as a network failure would.
    pub fn disconnect_standby(&mut self) {
        let standby = self.port(self.primary.other());
        query_server(standby, OWNER_ROLE, "ALTER SYSTEM SET primary_conninfo = ''");
        query_server(standby, OWNER_ROLE, "SELECT pg_reload_conf()");
        self.wait_for_result("SELECT pid::text FROM pg_stat_replication", &[]);
    }

    /// Kills the primary permanently and promotes the standby.
    pub fn fail_over(&mut self) {
        self.kill_primary();
        self.run_shell_line(&format!(r#"rm -rf "$folder/{}""#, self.primary.name()));
        self.primary = self.primary.other();
        // Otherwise the new primary would wait for a standby, like the old primary.
        self.query_primary("ALTER SYSTEM RESET synchronous_standby_names");
        self.query_primary("SELECT pg_promote()");
        self.wait_for_result("SELECT pg_is_in_recovery()::text", &["false"]);
    }

    /// Runs a query as the superuser in the vault's database. Returns the first column of each row.
    pub fn query_primary(&self, sql: &str) -> Vec<String> {
        query_server(self.port(self.primary), OWNER_ROLE, sql)
    }

    fn wait_for_result(&self, sql: &str, expected: &[&str]) {
        let is_reached = (0..POLLS_MAX).any(|_| {
            thread::sleep(POLL_INTERVAL);
            self.query_primary(sql) == expected
        });
        assert!(is_reached, "{sql} does not become {expected:?}");
    }

    fn port(&self, slot: ServerSlot) -> u16 {
        match slot {
            ServerSlot::First => self.ports.0,
            ServerSlot::Second => self.ports.1,
        }
    }

    fn start_server(&mut self, slot: ServerSlot) {
        let (name, port) = (slot.name(), self.port(slot));
        let mut settings = String::new();
        for setting in &self.settings {
            write!(settings, " -c {setting}").unwrap();
        }
        self.run_shell_line(&format!(
            r#""$programs/postgres" -D "$folder/{name}" -p {port} -c listen_addresses=127.0.0.1 \
                -c unix_socket_directories= -c fsync=on -c full_page_writes=on -c synchronous_commit=on \
                -c max_connections=200 -c shared_buffers=64MB -c wal_keep_size=256MB{settings} \
                >>"$folder/{name}.log" 2>&1 </dev/null & {name}=$!; \
                wait_until_ready "${name}" {port} || {{ tail -n 20 "$folder/{name}.log"; false; }}"#
        ));
    }

    fn kill_server(&mut self, slot: ServerSlot) {
        let name = slot.name();
        self.run_shell_line(&format!(r#"kill_tree "${name}"; {name}="#));
    }

    fn signal_primary(&mut self, signal: &str) {
        let name = self.primary.name();
        self.run_shell_line(&format!(
            r#"kill -{signal} "${name}" $(cat "/proc/${name}/task/${name}/children")"#
        ));
    }

    /// Sends a line to the shell and waits until it was executed.
    fn run_shell_line(&mut self, line: &str) {
        let line = line.replace("\\\n", " ");
        writeln!(self.shell.stdin.as_mut().unwrap(), "{line}").expect("write to the shell");
        let mut output = String::new();
        loop {
            let line_start = output.len();
            assert!(self.output.read_line(&mut output).unwrap() > 0, "the shell ended: {output}");
            match output[line_start..].trim_end() {
                "exit 0" => return,
                exit if exit.starts_with("exit ") => panic!("{line}: {output}"),
                _ => (),
            }
        }
    }
}

/// Waits until all processes have ended.
impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        drop(self.shell.wait());
    }
}

/// Runs a query as the superuser. Returns the first column of each row.
fn query_server(port: u16, database: &str, sql: &str) -> Vec<String> {
    let url = format!("postgres://{SUPERUSER}@127.0.0.1:{port}/{database}");
    query_database(&url, sql).rows.into_iter().filter_map(|row| row.into_iter().next()).collect()
}
