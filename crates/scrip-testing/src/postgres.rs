//! A PostgreSQL server for tests: one per process, with a database for each test.
//!
//! It needs PostgreSQL 14 or later (`apt-get install postgresql-15`). It has its own data directory
//! with its socket inside, so no port can conflict. The server and its directory are removed when
//! this process ends, for whatever reason.
//!
//! No test runs as a superuser, because row policies do not apply to superusers: one role owns the
//! schema, another one serves.

pub mod cluster;
pub mod query;

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::OnceCell;
use tokio_postgres::NoTls;
use uuid::Uuid;

const TEMPLATE: &str = "scrip_template";

/// The role that owns databases and their contents.
pub const OWNER_ROLE: &str = "scrip_owner";
/// The role of a node, with granted rights only. Its name must be quoted.
pub const SERVE_ROLE: &str = "scrip \"serve role\"";

/// The script that runs the server. It ends when its standard input is closed, that is, when this
/// process ends.
const SERVER_SCRIPT: &str = r#"
set -e
umask 077
mkdir "$1"
trap 'rm -rf "$1"' EXIT
"$2/initdb" -D "$1/data" -U scrip -A trust -E UTF8 --locale=C --no-sync >"$1/initdb.log" 2>&1 \
    || { cat "$1/initdb.log"; exit 1; }
"$2/postgres" -D "$1/data" -k "$1" -c listen_addresses= -c fsync=off -c full_page_writes=off \
    -c max_connections=500 -c shared_buffers=64MB -c autovacuum=off >"$1/server.log" 2>&1 &
server=$!
tries=0
until "$2/pg_isready" -q -h "$1" -U scrip -d postgres; do
    tries=$((tries + 1))
    if ! kill -0 $server || [ $tries -gt 600 ]; then cat "$1/server.log"; exit 1; fi
    sleep 0.1
done
echo ready
cat >/dev/null
kill -QUIT $server
wait $server || true
"#;

struct PostgresServer {
    folder: PathBuf,
    /// The script ends when its input is closed, that is, when this value is dropped.
    _shell: Child,
    /// Names of databases that are no longer used.
    unused_databases: Mutex<Vec<String>>,
    databases_created: AtomicUsize,
    roles: OnceCell<()>,
    template: OnceCell<()>,
}

/// The folder with the programs of the newest PostgreSQL version, in the layout of Debian.
fn postgres_programs() -> PathBuf {
    let mut versions: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let version = entry.file_name().to_str().and_then(|it| it.parse().ok());
        let programs = entry.path().join("bin");
        if let Some(version) = version
            && programs.join("initdb").exists()
        {
            versions.push((version, programs));
        }
    }
    let newest = versions.into_iter().max();
    newest.expect("PostgreSQL is not installed: apt-get install postgresql-15").1
}

/// A shell of an ordinary user, because PostgreSQL does not run as root.
fn unprivileged_shell() -> Command {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root {
        return Command::new("sh");
    }
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
    shell
}

/// Starts a shell script that runs PostgreSQL in this folder. The script ends when its input is
/// closed.
fn start_script(script: &str, folder: &Path) -> Child {
    let child = unprivileged_shell()
        .args(["-c", script, "sh"])
        .args([folder, postgres_programs().as_path()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    child.expect("start sh and setpriv")
}

fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("scrip-pg-{}", Uuid::new_v4().simple()));
        let mut child = start_script(SERVER_SCRIPT, &folder);
        let mut output = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line == "ready" {
                let (unused_databases, databases_created, template, roles) = Default::default();
                return PostgresServer {
                    folder,
                    _shell: child,
                    unused_databases,
                    databases_created,
                    template,
                    roles,
                };
            }
            writeln!(output, "{line}").unwrap();
        }
        let status = child.wait().unwrap();
        panic!("PostgreSQL does not start ({status}): {output}")
    })
}

async fn execute_statements(statements: &[String]) {
    let server = server();
    let create_roles = async || {
        let serve_role = quote_identifier(SERVE_ROLE);
        execute_as_superuser(&[format!(
            "CREATE ROLE {OWNER_ROLE} LOGIN; CREATE ROLE {serve_role} LOGIN"
        )])
        .await;
    };
    server.roles.get_or_init(create_roles).await;
    execute_as_superuser(statements).await;
}

fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Executes statements as a superuser.
async fn execute_as_superuser(statements: &[String]) {
    let url = database_address(&server().folder, "scrip", "postgres");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    for statement in statements {
        client.batch_execute(statement).await.unwrap();
    }
    drop(client);
    connection.await.unwrap().unwrap();
}

fn database_address(folder: &Path, role: &str, database: &str) -> String {
    let host = folder.to_str().unwrap().replace('/', "%2F");
    let role = role.replace('"', "%22").replace(' ', "%20");
    format!("postgres://{role}@{host}/{database}")
}

/// The superuser address of the server of this process. Creates the role that owns databases.
pub fn server_url() -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(execute_statements(&[]));
    database_address(&server().folder, "scrip", "postgres")
}

/// The address of a database on this server, for the role that owns the database.
pub fn database_url(server: &str, name: &str) -> String {
    let host = server.strip_prefix("postgres://scrip@").and_then(|it| it.strip_suffix("/postgres"));
    format!("postgres://{OWNER_ROLE}@{}/{name}", host.expect("a server address"))
}

/// A database for one test.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    role: &'static str,
}

impl TestDatabase {
    /// Creates a copy of a migrated template database. Its nodes use the role [`SERVE_ROLE`]. The
    /// first call creates and migrates the template as its owner.
    pub async fn create(migrate: impl AsyncFnOnce(&str)) -> Self {
        let server = server();
        let create_template = async || {
            execute_statements(&[format!("CREATE DATABASE {TEMPLATE} OWNER {OWNER_ROLE}")]).await;
            let superuser_url = database_address(&server.folder, "scrip", TEMPLATE);
            let (client, connection) =
                tokio_postgres::connect(&superuser_url, NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            // These rights are the default since PostgreSQL 15.
            let sql = format!(
                "REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT ALL ON SCHEMA public TO {OWNER_ROLE}"
            );
            client.batch_execute(&sql).await.unwrap();
            drop(client);
            connection.await.unwrap().unwrap();
            migrate(&database_address(&server.folder, OWNER_ROLE, TEMPLATE)).await;
        };
        server.template.get_or_init(create_template).await;
        let name = format!("test_{}", server.databases_created.fetch_add(1, Ordering::Relaxed));
        let unused_databases = std::mem::take(&mut *lock(&server.unused_databases));
        let mut statements: Vec<_> =
            unused_databases.iter().map(|it| format!("DROP DATABASE {it} WITH (FORCE)")).collect();
        statements.push(format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE} OWNER {OWNER_ROLE}"));
        execute_statements(&statements).await;
        Self { name, role: SERVE_ROLE }
    }

    /// A database without a schema, for one role that both migrates and serves.
    pub async fn create_empty() -> Self {
        let name = format!("test_{}", server().databases_created.fetch_add(1, Ordering::Relaxed));
        execute_statements(&[format!("CREATE DATABASE {name} OWNER {OWNER_ROLE}")]).await;
        Self { name, role: OWNER_ROLE }
    }

    /// The address for a node.
    pub fn url(&self) -> String {
        database_address(&server().folder, self.role, &self.name)
    }

    /// The address for a migration.
    pub fn owner_url(&self) -> String {
        database_address(&server().folder, OWNER_ROLE, &self.name)
    }

    /// The superuser address, for tests that read or alter rows without the vault.
    pub fn superuser_url(&self) -> String {
        database_address(&server().folder, "scrip", &self.name)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        lock(&server().unused_databases).push(std::mem::take(&mut self.name));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
