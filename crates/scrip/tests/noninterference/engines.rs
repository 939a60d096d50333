//! The same sequences on the engines that store data on disk.

use std::{path::Path, sync::Arc};

use scrip_core::store::Store;
use scrip_store::{PostgresStore, SqliteStore, postgres::PostgresSettings};
use scrip_testing::postgres::{SERVE_ROLE, TestDatabase};

use crate::sequence_run::TwinVaults;

/// Creates a folder in memory if the system has one: the test compares responses and does not need
/// a disk.
pub(crate) fn create_temporary_folder() -> tempfile::TempDir {
    let memory_folder = Path::new("/dev/shm");
    if memory_folder.is_dir() { tempfile::tempdir_in(memory_folder) } else { tempfile::tempdir() }
        .unwrap()
}

pub(crate) async fn open_sqlite_vaults(folder: &Path) -> TwinVaults {
    let open_store = |name: &str| -> Arc<dyn Store> {
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        Arc::new(SqliteStore::open(&folder.join("scrip.db")).unwrap())
    };
    TwinVaults::on_engine(open_store("left"), open_store("right")).await
}

async fn migrate(url: &str) {
    let settings = PostgresSettings::parse(url).unwrap().with_serve_role(SERVE_ROLE);
    PostgresStore::migrate(settings).await.unwrap();
}

/// Opens two vaults on PostgreSQL. The databases are dropped with the returned tuple.
pub(crate) async fn open_postgres_vaults() -> (TwinVaults, [TestDatabase; 2]) {
    let databases = [TestDatabase::create(migrate).await, TestDatabase::create(migrate).await];
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for database in &databases {
        let settings = PostgresSettings::parse(&database.url()).unwrap().with_connections(4);
        stores.push(Arc::new(PostgresStore::open(settings).await.unwrap()));
    }
    let [left, right] = <[_; 2]>::try_from(stores).ok().unwrap();
    (TwinVaults::on_engine(left, right).await, databases)
}
