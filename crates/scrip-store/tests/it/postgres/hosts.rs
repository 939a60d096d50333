//! An address with several hosts: the node finds the host that accepts writes, even if another host
//! does not respond.

use std::{net::SocketAddr, time::Duration};

use scrip_store::{PostgresStore, postgres::PostgresSettings};
use scrip_testing::postgres::TestDatabase;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

/// Behaves like a machine without power: connection attempts get no response, because its accept
/// queue is full.
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
        while let Ok(stream) =
            timeout(Duration::from_millis(500), TcpStream::connect(address)).await
        {
            queue.push(stream.unwrap());
            assert!(queue.len() < 100, "the host still accepts connections");
        }
        Self { address, _listener: listener, _queue: queue }
    }
}

#[tokio::test]
async fn unresponsive_host_does_not_hide_the_next_host() {
    let unresponsive_host = UnresponsiveHost::new().await;
    let database = TestDatabase::create_empty().await;
    let url = database.url().replace('@', &format!("@{},", unresponsive_host.address));
    assert!(url.contains(&unresponsive_host.address.to_string()), "{url}");
    PostgresStore::migrate(PostgresSettings::parse(&url).unwrap()).await.unwrap();
}
