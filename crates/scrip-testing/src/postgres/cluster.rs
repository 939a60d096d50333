//! PostgreSQL as operators run it: durable, reached over TCP, killed like a machine that loses its
//! power, and with a standby that takes over.
//!
//! There is room for two servers, whose ports stay the same whoever lives there, so that the address
//! of a cluster names both once and for all. As with [`crate::postgres`], all of it ends with this
//! process, however that is.

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

/// Who owns the database, and who the servers are to each other.
const OWNER_ROLE: &str = "scrip";
const SUPERUSER: &str = "postgres";
/// A minute of looking.
const POLLS_MAX: usize = 3000;
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Obeys line by line, and tidies up when its input ends, which is when this process does. A
/// postmaster that is stopped starts nobody else, so nobody of its house escapes; each of them leads
/// a process group of its own, so there is no group to kill.
const CLUSTER_SCRIPT: &str = r#"
umask 077
folder=$1 programs=$2 first= second=
mkdir "$folder" || exit 1
slay() {
    [ -n "$1" ] || return 0
    kill -STOP "$1"
    house=$(cat "/proc/$1/task/$1/children")
    kill -KILL "$1" $house 2>/dev/null
    wait "$1" 2>/dev/null
    for one in $house; do
        while [ -e "/proc/$one" ] && ! grep -q '^State:.Z' "/proc/$one/status" 2>/dev/null; do
            sleep 0.01
        done
    done
}
await() {
    tries=0
    until "$programs/pg_isready" -q -h 127.0.0.1 -p "$2" -d postgres; do
        tries=$((tries + 1))
        kill -0 "$1" 2>/dev/null && [ $tries -lt 1200 ] || return 1
        sleep 0.05
    done
}
while read -r line; do
    eval "$line"
    echo "ended $?"
done
slay "$first"
slay "$second"
rm -rf "$folder"
"#;

/// One of the two places for a server.
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

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// Once the standby has it on disk.
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
    /// More settings for every server, `name=value`.
    settings: Vec<String>,
}

/// Below the ports that the kernel gives to clients, so that no connection of the load can be in
/// the way of a server that comes back.
fn free_port() -> u16 {
    let random = Uuid::new_v4().as_u128();
    let tries = (0..1000_u128).filter_map(|at| u16::try_from(15_000 + (random + at) % 15_000).ok());
    let mut free = tries.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().expect("a port is free")
}

impl Cluster {
    /// One server, durable unless `settings` say otherwise, with an empty database that belongs to an
    /// ordinary role.
    #[must_use]
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

    /// Names both places; whoever takes writes is the one.
    #[must_use]
    pub fn url(&self) -> String {
        let (first, second) = self.ports;
        format!(
            "postgres://{OWNER_ROLE}@127.0.0.1:{first},127.0.0.1:{second}/{OWNER_ROLE}\
             ?target_session_attrs=read-write"
        )
    }

    /// The primary and every process of it end at once, and none of them gets to say or write anything.
    pub fn kill_primary(&mut self) {
        self.kill_server(self.primary);
    }

    /// The primary comes back in its directory, and has recovered.
    pub fn restart_primary(&mut self) {
        self.start_server(self.primary);
    }

    /// The primary and every process of it stand still; connections stay open.
    pub fn freeze_primary(&mut self) {
        self.signal_primary("STOP");
    }

    pub fn resume_primary(&mut self) {
        self.signal_primary("CONT");
    }

    /// A copy of the primary in the other place, which follows it.
    pub fn add_standby(&mut self, replication: Replication) {
        let standby = self.primary.other();
        let (port, to) = (self.port(self.primary), standby.name());
        self.run_shell_line(&format!(
            r#"rm -rf "$folder/{to}" && "$programs/pg_basebackup" -R -X stream -c fast --no-sync \
                -D "$folder/{to}" -d "host=127.0.0.1 port={port} user={SUPERUSER} application_name={to}""#
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

    /// The standby gets nothing more, as if the network between the two were cut.
    pub fn disconnect_standby(&mut self) {
        let standby = self.port(self.primary.other());
        query_server(standby, OWNER_ROLE, "ALTER SYSTEM SET primary_conninfo = ''");
        query_server(standby, OWNER_ROLE, "SELECT pg_reload_conf()");
        self.wait_for_result("SELECT pid::text FROM pg_stat_replication", &[]);
    }

    /// The primary is killed and never comes back; the standby takes its place, alone.
    pub fn fail_over(&mut self) {
        self.kill_primary();
        self.run_shell_line(&format!(r#"rm -rf "$folder/{}""#, self.primary.name()));
        self.primary = self.primary.other();
        // It would wait for a standby of its own, as the one before it did.
        self.query_primary("ALTER SYSTEM RESET synchronous_standby_names");
        self.query_primary("SELECT pg_promote()");
        self.wait_for_result("SELECT pg_is_in_recovery()::text", &["false"]);
    }

    /// As the superuser, in the vault's database: the first column of each row.
    pub fn query_primary(&self, sql: &str) -> Vec<String> {
        query_server(self.port(self.primary), OWNER_ROLE, sql)
    }

    fn wait_for_result(&self, sql: &str, expected: &[&str]) {
        let came = (0..POLLS_MAX).any(|_| {
            thread::sleep(POLL_INTERVAL);
            self.query_primary(sql) == expected
        });
        assert!(came, "{sql} does not become {expected:?}");
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
                await "${name}" {port} || {{ tail -n 20 "$folder/{name}.log"; false; }}"#
        ));
    }

    fn kill_server(&mut self, slot: ServerSlot) {
        let name = slot.name();
        self.run_shell_line(&format!(r#"slay "${name}"; {name}="#));
    }

    fn signal_primary(&mut self, signal: &str) {
        let name = self.primary.name();
        self.run_shell_line(&format!(
            r#"kill -{signal} "${name}" $(cat "/proc/${name}/task/${name}/children")"#
        ));
    }

    /// Has the shell do that, and waits until it has.
    fn run_shell_line(&mut self, line: &str) {
        let line = line.replace("\\\n", " ");
        writeln!(self.shell.stdin.as_mut().unwrap(), "{line}").expect("the shell listens");
        let mut output = String::new();
        loop {
            let at = output.len();
            assert!(self.output.read_line(&mut output).unwrap() > 0, "the shell ended: {output}");
            match output[at..].trim_end() {
                "ended 0" => return,
                ended if ended.starts_with("ended ") => panic!("{line}: {output}"),
                _ => (),
            }
        }
    }
}

/// Waits until everything is gone.
impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        drop(self.shell.wait());
    }
}

/// Runs a statement as the superuser: the first column of each row.
fn query_server(port: u16, database: &str, sql: &str) -> Vec<String> {
    let url = format!("postgres://{SUPERUSER}@127.0.0.1:{port}/{database}");
    query_database(&url, sql).rows.into_iter().filter_map(|row| row.into_iter().next()).collect()
}
