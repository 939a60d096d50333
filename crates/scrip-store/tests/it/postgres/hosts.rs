//! An address that names several hosts: the one that takes writes is found, whatever the others do.

use std::{net::SocketAddr, time::Duration};

use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::postgres::TestDatabase;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

/// As a machine without power: whoever wants to connect hears nothing. Its queue of connections is
/// full, and nobody takes any.
struct UnresponsiveHost {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl UnresponsiveHost {
    async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(connected) =
            timeout(Duration::from_millis(500), TcpStream::connect(address)).await
        {
            queue.push(connected.unwrap());
            assert!(queue.len() < 100, "it is not silent");
        }
        Self { address, _listener: listener, _queue: queue }
    }
}

#[tokio::test]
async fn unresponsive_host_does_not_hide_the_next_host() {
    let silent = UnresponsiveHost::new().await;
    let database = TestDatabase::create_empty().await;
    let url = database.url().replace('@', &format!("@{},", silent.address));
    assert!(url.contains(&silent.address.to_string()), "{url}");
    PostgresStore::migrate(PostgresSettings::parse(&url).unwrap()).await.unwrap();
}
