//! A PostgreSQL server of the tests' own: one for the process, with a database for each test.
//!
//! It needs the programs of PostgreSQL 14 or later (`apt-get install postgresql-15`). It has its own
//! data directory, and its socket is in that, so no port can be in anybody's way. It ends and its
//! directory goes when this process ends, however that is.
//!
//! Nothing is tested as a superuser, whom no policy holds: one role owns the schema, another serves.

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

/// Owns databases, and what is in them.
pub const OWNER: &str = "scrip_owner";
/// May do what it was granted. A name that must be quoted.
pub const SERVING: &str = "scrip \"serves\"";

/// Ends when its input does, which is when this process does.
const SCRIPT: &str = r#"
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

struct Server {
    folder: PathBuf,
    /// It ends when its input does, which is open as long as this is there.
    _shell: Child,
    /// Names of databases that nobody needs any more.
    unneeded: Mutex<Vec<String>>,
    made: AtomicUsize,
    roles: OnceCell<()>,
    template: OnceCell<()>,
}

/// Where the programs are: the newest version of those that Debian keeps side by side.
fn programs() -> PathBuf {
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

/// PostgreSQL does not run as root.
fn shell() -> Command {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root {
        return Command::new("sh");
    }
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
    shell
}

/// Starts a shell script that serves PostgreSQL from this folder. The script ends with its input.
fn start_script(script: &str, folder: &Path) -> Child {
    let child = shell()
        .args(["-c", script, "sh"])
        .args([folder, programs().as_path()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    child.expect("sh and setpriv are there")
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("scrip-pg-{}", Uuid::new_v4().simple()));
        let mut child = start_script(SCRIPT, &folder);
        let mut said = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line == "ready" {
                let (unneeded, made, template, roles) = Default::default();
                return Server { folder, _shell: child, unneeded, made, template, roles };
            }
            writeln!(said, "{line}").unwrap();
        }
        let status = child.wait().unwrap();
        panic!("PostgreSQL does not start ({status}): {said}")
    })
}

async fn execute(statements: &[String]) {
    let server = server();
    let roles = async || {
        let serving = quoted(SERVING);
        run(&[format!("CREATE ROLE {OWNER} LOGIN; CREATE ROLE {serving} LOGIN")]).await;
    };
    server.roles.get_or_init(roles).await;
    run(statements).await;
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// As a superuser.
async fn run(statements: &[String]) {
    let url = url(&server().folder, "scrip", "postgres");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    for statement in statements {
        client.batch_execute(statement).await.unwrap();
    }
    drop(client);
    connection.await.unwrap().unwrap();
}

fn url(folder: &Path, role: &str, database: &str) -> String {
    let host = folder.to_str().unwrap().replace('/', "%2F");
    let role = role.replace('"', "%22").replace(' ', "%20");
    format!("postgres://{role}@{host}/{database}")
}

/// The server of this process, for its superuser; with the role that owns databases.
#[must_use]
pub fn server_url() -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(execute(&[]));
    url(&server().folder, "scrip", "postgres")
}

/// A database of that server, for its owner.
#[must_use]
pub fn database_url(server: &str, name: &str) -> String {
    let place =
        server.strip_prefix("postgres://scrip@").and_then(|it| it.strip_suffix("/postgres"));
    format!("postgres://{OWNER}@{}/{name}", place.expect("the address of a server"))
}

/// One of its own for a test.
#[derive(Debug)]
pub struct Database {
    name: String,
    role: &'static str,
}

impl Database {
    /// A copy of one that was migrated by its owner, whoever comes first, and which [`SERVING`]
    /// was granted.
    pub async fn create(migrate: impl AsyncFnOnce(&str)) -> Self {
        let server = server();
        let template = async || {
            execute(&[format!("CREATE DATABASE {TEMPLATE} OWNER {OWNER}")]).await;
            let superuser = url(&server.folder, "scrip", TEMPLATE);
            let (client, connection) = tokio_postgres::connect(&superuser, NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            // As it is by itself from PostgreSQL 15 on.
            let sql = format!(
                "REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT ALL ON SCHEMA public TO {OWNER}"
            );
            client.batch_execute(&sql).await.unwrap();
            drop(client);
            connection.await.unwrap().unwrap();
            migrate(&url(&server.folder, OWNER, TEMPLATE)).await;
        };
        server.template.get_or_init(template).await;
        let name = format!("test_{}", server.made.fetch_add(1, Ordering::Relaxed));
        let unneeded = std::mem::take(&mut *lock(&server.unneeded));
        let mut statements: Vec<_> =
            unneeded.iter().map(|it| format!("DROP DATABASE {it} WITH (FORCE)")).collect();
        statements.push(format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE} OWNER {OWNER}"));
        execute(&statements).await;
        Self { name, role: SERVING }
    }

    /// Without a schema, for one role that makes it and serves.
    pub async fn create_empty() -> Self {
        let name = format!("test_{}", server().made.fetch_add(1, Ordering::Relaxed));
        execute(&[format!("CREATE DATABASE {name} OWNER {OWNER}")]).await;
        Self { name, role: OWNER }
    }

    /// For a node.
    #[must_use]
    pub fn url(&self) -> String {
        url(&server().folder, self.role, &self.name)
    }

    /// For whoever migrates.
    #[must_use]
    pub fn owner_url(&self) -> String {
        url(&server().folder, OWNER, &self.name)
    }

    /// For whoever looks, or alters something, behind the vault's back.
    #[must_use]
    pub fn superuser_url(&self) -> String {
        url(&server().folder, "scrip", &self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        lock(&server().unneeded).push(std::mem::take(&mut self.name));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
