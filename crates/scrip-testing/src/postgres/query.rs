//! Database queries that bypass the vault.

use std::thread;

use tokio::runtime;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// The result of a query.
#[derive(Debug, Default)]
pub struct QueryResult {
    /// All values as text. Null is the empty text.
    pub rows: Vec<Vec<String>>,
    /// The number of rows that the last statement found or changed.
    pub count: u64,
}

/// Runs a query at this address. Can be called from inside a runtime.
///
/// # Panics
/// If the statement fails.
pub fn query_database(url: &str, sql: &str) -> QueryResult {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let query_thread = thread::Builder::new().name("query".to_owned()).spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            let messages = client.simple_query(&sql).await.unwrap();
            drop(client);
            connection.await.unwrap().unwrap();
            let mut result = QueryResult::default();
            for message in &messages {
                if let SimpleQueryMessage::Row(row) = message {
                    let column_text = |index| row.get(index).unwrap_or_default().to_owned();
                    result.rows.push((0..row.len()).map(column_text).collect());
                }
                if let SimpleQueryMessage::CommandComplete(count) = message {
                    result.count = *count;
                }
            }
            result
        })
    });
    query_thread.expect("start a thread").join().expect("query PostgreSQL")
}
