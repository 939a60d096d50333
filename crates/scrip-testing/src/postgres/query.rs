//! A look at what is in a database, past whoever serves it.

use std::thread;

use tokio::runtime;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// What a statement came to.
#[derive(Debug, Default)]
pub struct QueryResult {
    /// Every value as text; nothing is the empty text.
    pub rows: Vec<Vec<String>>,
    /// How many rows the last statement found or changed.
    pub count: u64,
}

/// At this address. It may be called from inside a runtime.
///
/// # Panics
/// When the statement is refused.
#[must_use]
pub fn query_database(url: &str, sql: &str) -> QueryResult {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    let asked = thread::Builder::new().name("look".to_owned()).spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            let messages = client.simple_query(&sql).await.unwrap();
            drop(client);
            connection.await.unwrap().unwrap();
            let mut looked = QueryResult::default();
            for message in &messages {
                if let SimpleQueryMessage::Row(row) = message {
                    let value = |at| row.get(at).unwrap_or_default().to_owned();
                    looked.rows.push((0..row.len()).map(value).collect());
                }
                if let SimpleQueryMessage::CommandComplete(count) = message {
                    looked.count = *count;
                }
            }
            looked
        })
    });
    asked.expect("a thread").join().expect("PostgreSQL answers")
}
