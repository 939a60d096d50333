//! Vaults of earlier versions.
//!
//! The program of each version wrote the rows in the folder of the fixture, so their encryption, MACs
//! and links are real. It served the vault in the embedded engine, exported it (`export`) and
//! imported it into PostgreSQL. The files have the rows as SQL, without CVCs. `contents.json` has
//! the root key, API keys and token ids. The logs of the tenant with tokens are kept for ten years.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use rusqlite::Connection;
use scrip_testing::{
    destination::{DestinationServer, behavior::DestinationBehavior},
    postgres::{TestDatabase, query::query_database},
    process::harness::{ProcessHarness, RunningServer, becomes_true},
    requests::http_client::BlockingClient,
};
use serde_json::{Value, json};

use crate::operator::{backup::expect_success, commands::run_json};

/// A file of the embedded engine.
struct EmbeddedFile {
    name: &'static str,
    /// Empty if the rows contain the schema.
    schema: &'static str,
    rows: &'static str,
    application_id: i32,
}

/// The vault of one version.
pub(super) struct VaultFixture {
    contents: &'static str,
    embedded: [EmbeddedFile; 2],
    embedded_version: i64,
    saved_heads: &'static str,
    postgres_schema: &'static [&'static str],
    postgres_first_rows: &'static str,
    postgres_rows: &'static str,
    postgres_saved_heads: &'static str,
    export: &'static str,
}

const VAULT_FILE: (&str, i32) = ("scrip.db", 0x7363_7270);
const READ_LOG_FILE: (&str, i32) = ("read_log.db", 0x7363_7261);

/// The last version before proxied calls: schema version 4 of the embedded engine, 1 of PostgreSQL.
/// Two tenants, two tokens, a token intent, a 3DS session, an idempotency record and both logs.
pub(super) const BEFORE_PROXIES: VaultFixture = VaultFixture {
    contents: include_str!("earlier_vault/contents.json"),
    embedded: [
        EmbeddedFile {
            name: VAULT_FILE.0,
            schema: include_str!("../../../../scrip-store/src/sqlite/migrations/0004.sql"),
            rows: include_str!("earlier_vault/vault.sql"),
            application_id: VAULT_FILE.1,
        },
        EmbeddedFile {
            name: READ_LOG_FILE.0,
            schema: include_str!("../../../../scrip-store/src/sqlite/migrations/read-log-0004.sql"),
            rows: include_str!("earlier_vault/read-log.sql"),
            application_id: READ_LOG_FILE.1,
        },
    ],
    embedded_version: 4,
    saved_heads: include_str!("earlier_vault/audit.head"),
    postgres_schema: &[include_str!("../../../../scrip-store/src/postgres/migrations/0001.sql")],
    postgres_first_rows: DELETE_FIRST_ROWS,
    postgres_rows: include_str!("earlier_vault/postgres.sql"),
    postgres_saved_heads: include_str!("earlier_vault/postgres-audit.head"),
    export: "earlier_vault/export",
};

/// The last version that evaluated templates of proxies on the data of tokens: schema version 12 of
/// the embedded engine, 9 of PostgreSQL. Two tenants, six tokens, a token intent, two proxies, one
/// of which collects cards, a webhook with a delivery, a client key, counted guesses, two
/// idempotency records and both logs.
pub(super) const WITH_PROXIES: VaultFixture = VaultFixture {
    contents: include_str!("vault_with_proxies/contents.json"),
    embedded: [
        EmbeddedFile {
            name: VAULT_FILE.0,
            schema: "",
            rows: include_str!("vault_with_proxies/vault.sql"),
            application_id: VAULT_FILE.1,
        },
        EmbeddedFile {
            name: READ_LOG_FILE.0,
            schema: "",
            rows: include_str!("vault_with_proxies/read-log.sql"),
            application_id: READ_LOG_FILE.1,
        },
    ],
    embedded_version: 12,
    saved_heads: include_str!("vault_with_proxies/audit.head"),
    postgres_schema: &[
        include_str!("../../../../scrip-store/src/postgres/migrations/0001.sql"),
        include_str!("../../../../scrip-store/src/postgres/migrations/0002.sql"),
        include_str!("../../../../scrip-store/src/postgres/migrations/0003.sql"),
        include_str!("../../../../scrip-store/src/postgres/migrations/0004.sql"),
        include_str!("../../../../scrip-store/src/postgres/migrations/0005.sql"),
        include_str!("../../../../scrip-store/src/postgres/migrations/0006.sql"),
        include_str!("../../../../scrip-store/src/postgres/migrations/0007.sql"),
        include_str!("../../../../scrip-store/src/postgres/migrations/0008.sql"),
        include_str!("../../../../scrip-store/src/postgres/migrations/0009.sql"),
    ],
    postgres_first_rows: DELETE_LATER_FIRST_ROWS,
    postgres_rows: include_str!("vault_with_proxies/postgres.sql"),
    postgres_saved_heads: include_str!("vault_with_proxies/postgres-audit.head"),
    export: "vault_with_proxies/export",
};

/// The rows contain these rows too, with other values.
const DELETE_FIRST_ROWS: &str = "DELETE FROM directory_state; DELETE FROM threeds_event_state;";
/// Later versions have no `threeds_event_state`.
const DELETE_LATER_FIRST_ROWS: &str = "DELETE FROM directory_state;";

/// A machine with the root key of the earlier vault.
pub(super) struct EarlierVault {
    pub(super) process: ProcessHarness,
    fixture: &'static VaultFixture,
    contents: Value,
}

impl EarlierVault {
    /// A machine without storage.
    pub(super) fn root_key_only(fixture: &'static VaultFixture) -> Self {
        let contents: Value = serde_json::from_str(fixture.contents).unwrap();
        let process = ProcessHarness::new(crate::SCRIP)
            .with_variable("SCRIP_PROXY_LOOPBACK_HTTP", "true")
            .with_variable("SCRIP_SERVER_LOCK_MEMORY", "off");
        fs::create_dir(process.data()).unwrap();
        let root_key = process.data().join("root.key");
        fs::write(&root_key, contents["root_key"].as_str().unwrap()).unwrap();
        fs::set_permissions(&root_key, fs::Permissions::from_mode(0o600)).unwrap();
        Self { process, fixture, contents }
    }

    pub(super) fn embedded(fixture: &'static VaultFixture) -> Self {
        let vault = Self::root_key_only(fixture);
        vault.write_saved_heads(fixture.saved_heads);
        for EmbeddedFile { name, schema, rows, application_id } in &fixture.embedded {
            let connection = Connection::open(vault.process.data().join(name)).unwrap();
            // The statements of a table may precede those of a table that it refers to.
            connection.pragma_update(None, "foreign_keys", false).unwrap();
            connection.execute_batch(&format!("BEGIN; {schema}")).unwrap();
            if *name == VAULT_FILE.0 && !schema.is_empty() {
                connection.execute_batch(DELETE_FIRST_ROWS).unwrap();
            }
            connection.execute_batch(&format!("{rows} COMMIT;")).unwrap();
            connection.pragma_update(None, "user_version", fixture.embedded_version).unwrap();
            connection.pragma_update(None, "application_id", application_id).unwrap();
        }
        vault
    }

    pub(super) fn on_empty_postgres(
        fixture: &'static VaultFixture,
        database: &TestDatabase,
    ) -> Self {
        let Self { process, contents, .. } = Self::root_key_only(fixture);
        let process = process
            .with_variable("SCRIP_STORAGE_URL", &database.url())
            .with_variable("SCRIP_STORAGE_SINGLE_NODE", "true");
        Self { process, fixture, contents }
    }

    pub(super) fn on_postgres(fixture: &'static VaultFixture, database: &TestDatabase) -> Self {
        let create_schema_state = "CREATE TABLE schema_state (singleton INTEGER PRIMARY KEY \
             CHECK (singleton = 1), version BIGINT NOT NULL);";
        let create_schema = format!("{create_schema_state} {}", fixture.postgres_schema.concat());
        drop(query_database(&database.owner_url(), &create_schema));
        let insert_rows = [fixture.postgres_first_rows, fixture.postgres_rows].concat();
        drop(query_database(&database.superuser_url(), &insert_rows));
        let vault = Self::on_empty_postgres(fixture, database);
        vault.write_saved_heads(fixture.postgres_saved_heads);
        vault
    }

    /// The export of the vault.
    pub(super) fn export(&self) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/upgrade");
        folder.join(self.fixture.export).display().to_string()
    }

    /// Writes the saved chain heads, which prove that the logs were not rolled back.
    fn write_saved_heads(&self, saved_heads: &str) {
        fs::write(self.process.data().join("audit.head"), saved_heads).unwrap();
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.process.path(name).display().to_string()
    }

    fn serve(&self) -> RunningServer {
        let server = self.process.serve();
        assert!(becomes_true(|| server.status("/readyz") == 200), "{}", self.process.log());
        server
    }

    /// Reads a token with the API key of the earlier version.
    #[track_caller]
    fn read_token(&self, server: &RunningServer, name: &str) -> Value {
        let id = self.contents[name].as_str().unwrap();
        let api_key = self.contents["private"].as_str().unwrap();
        let request = server.request("GET", &format!("/tokens/{id}")).api_key(api_key);
        request.send().expect_status(200).json()
    }

    fn create_application(&self, kind: &str) -> String {
        let command =
            ["application", "create", "--tenant", "Acme", "--name", "New", "--type", kind];
        let created = run_json(&self.process, &[&command[..], &["--all"]].concat());
        created["key"].as_str().unwrap().to_owned()
    }

    /// Expects that every record of both logs is valid, and that no policy is altered.
    #[track_caller]
    pub(super) fn expect_valid(&self) {
        expect_success(&self.process, &["audit", "verify"]);
        let output = self.process.run(&["doctor", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        for check in ["store", "canary", "policy"] {
            let checks = report["checks"].as_array().unwrap();
            let found = checks.iter().find(|it| it["check"] == check).unwrap();
            assert_eq!(found["verdict"], "passed", "{found}");
        }
    }

    /// Adopts the vault, rotates its key and destroys the root key. Expects that the earlier token
    /// stays readable.
    #[track_caller]
    pub(super) fn expect_adopted(&self) {
        let server = self.serve();
        let file = self.path("unlock.key");
        expect_success(&self.process, &["keys", "adopt", "--key-file", &file]);
        assert_eq!(self.read_token(&server, "card")["data"]["number"], "4242424242424242");
        expect_success(&self.process, &["keys", "rotate", "vault"]);
        assert_eq!(self.read_token(&server, "card")["data"]["number"], "4242424242424242");
        drop(server);
        fs::remove_file(self.process.data().join("root.key")).unwrap();
        let server = self.serve();
        assert_eq!(self.read_token(&server, "name")["data"], "Ada Lovelace");
    }

    /// Rotates the vault key. Expects that the earlier tokens stay readable, also after a restart.
    #[track_caller]
    pub(super) fn expect_vault_key_rotated(&self) {
        let server = self.serve();
        expect_success(&self.process, &["keys", "rotate", "vault"]);
        assert_eq!(self.read_token(&server, "card")["data"]["number"], "4242424242424242");
        drop(server);
        let server = self.serve();
        assert_eq!(self.read_token(&server, "name")["data"], "Ada Lovelace");
    }

    /// Expects that the earlier tokens and API keys work, and that proxied calls and webhooks work.
    #[track_caller]
    pub(super) fn expect_served(&self) {
        self.expect_valid();
        let [management_key, private_key] =
            ["management", "private"].map(|it| self.create_application(it));
        expect_success(
            &self.process,
            &["tenant", "quota", "set", "Acme", "proxy_token_limit=30", "tokenize_limit=7"],
        );
        let (_destination, host) = DestinationServer::start_plain(&[DestinationBehavior::Echo]);
        let server = self.serve();
        let card = self.read_token(&server, "card");
        assert_eq!(card["data"]["number"], "4242424242424242");
        let name = self.read_token(&server, "name");
        assert_eq!(name["data"], "Ada Lovelace");
        assert_eq!(name["metadata"]["customer"], "7");
        let body = json!({ "name": "charge", "destination_url": host.url("/charge") });
        let request = server.request("POST", "/proxies").api_key(&management_key).json(&body);
        let proxy = request.send().expect_status(201).json();
        let body = json!({ "name": format!("{{{{ {} }}}}", name["id"].as_str().unwrap()) });
        let request = BlockingClient::default().post(format!("{}/proxy", server.own_url));
        let request = request.header("BT-PROXY-KEY", proxy["key"].as_str().unwrap());
        let response = request.api_key(&private_key).json(&body).send().expect_status(200);
        assert!(response.text().contains("Ada Lovelace"), "{response:?}");
        let url = "https://shop.example/webhooks";
        let body = json!({ "name": "Orders", "url": url, "events": ["token.created"] });
        let request = server.request("POST", "/webhooks").api_key(&management_key).json(&body);
        drop(request.send().expect_status(201));
        let request = server.request("POST", "/keys").api_key(&management_key).json(&json!({}));
        drop(request.send().expect_status(201));
        drop(server);
        // Now the chains have records with and without a detail.
        self.expect_valid();
    }
}

/// Returns the schema version of a file of the embedded engine.
pub(super) fn schema_version(file: &Path) -> i64 {
    let connection = Connection::open(file).unwrap();
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}
