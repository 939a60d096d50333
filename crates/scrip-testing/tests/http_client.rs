//! The blocking HTTP client of the tests.

#![expect(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread::Builder,
    time::Duration,
};

use scrip_testing::requests::http_client::BlockingClient;

/// Starts a server that handles each connection with the number of the connection. Returns its URL.
fn serve(handle: impl Fn(usize, BufReader<TcpStream>) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accept = move || {
        for (number, stream) in listener.incoming().enumerate() {
            handle(number, BufReader::new(stream.unwrap()));
        }
    };
    Builder::new().name("server".to_owned()).spawn(accept).unwrap();
    url
}

/// Reads the head of a request. Returns `false` at the end of the connection.
fn read_head(stream: &mut BufReader<TcpStream>) -> bool {
    let mut line = String::new();
    while stream.read_line(&mut line).unwrap_or_default() > 2 {
        line.clear();
    }
    !line.is_empty()
}

fn respond(stream: &mut BufReader<TcpStream>, connection: &str, body: &str) {
    let head = format!("Connection: {connection}\r\nContent-Length: {}", body.len());
    write!(stream.get_mut(), "HTTP/1.1 404 Not Found\r\n{head}\r\n\r\n{body}").unwrap();
}

#[test]
fn client_reuses_its_connection_and_replaces_a_closed_one() {
    let url = serve(|number, mut stream| {
        for connection in ["keep-alive", "keep-alive", "close"] {
            assert!(read_head(&mut stream));
            respond(&mut stream, connection, &number.to_string());
        }
    });
    let client = BlockingClient::default();
    let send = || client.get(&url).send().expect_status(404).text();
    let numbers: Vec<_> = (0..6).map(|_| send()).collect();
    assert_eq!(numbers, ["0", "0", "0", "1", "1", "1"]);
}

#[test]
fn client_can_be_called_inside_a_runtime() {
    let url = serve(|_, mut stream| {
        assert!(read_head(&mut stream));
        respond(&mut stream, "close", "{}");
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let response = runtime.block_on(async { BlockingClient::default().get(&url).send() });
    assert_eq!((response.status, response.json()), (404, serde_json::json!({})));
}

#[test]
fn incomplete_response_fails_after_the_timeout() {
    let (sender, receiver) = mpsc::channel();
    let url = serve(move |_, mut stream| {
        assert!(read_head(&mut stream));
        write!(stream.get_mut(), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
        // The client closes the connection when it gives up.
        sender.send(read_head(&mut stream)).unwrap();
    });
    let client = BlockingClient::with_timeout(Duration::from_millis(100));
    let error = client.get(&url).try_send().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(!receiver.recv_timeout(Duration::from_secs(60)).unwrap());
}

#[test]
fn response_body_over_the_size_limit_is_an_error() {
    let url = serve(|_, mut stream| {
        assert!(read_head(&mut stream));
        drop(stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
        while stream.get_mut().write_all(&[b'x'; 65536]).is_ok() {}
    });
    let error = BlockingClient::default().get(&url).try_send().unwrap_err();
    assert_eq!(error.to_string(), "length limit exceeded");
}
