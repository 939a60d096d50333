//! A tunnel through the operator's forward proxy.

use std::{io, net::SocketAddr};

use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use zeroize::Zeroizing;

use crate::{error::SendFailure, settings::ForwardProxy};

const HEAD_BYTES_MAX: usize = 8 * 1024;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Opens a tunnel to the checked address. The forward proxy does not see the name, so it cannot
/// look up another address.
pub(crate) async fn open_tunnel(
    proxy: &ForwardProxy,
    address: SocketAddr,
) -> Result<TcpStream, SendFailure> {
    exchange_connect(proxy, address).await.map_err(|_| SendFailure::ForwardProxy)
}

async fn exchange_connect(proxy: &ForwardProxy, address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect((proxy.host.as_str(), proxy.port)).await?;
    stream.set_nodelay(true)?;
    stream.write_all(connect_head(proxy, address).as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(HEAD_END) {
        // The destination sends nothing before the TLS handshake, so no byte follows the head. A
        // byte at a time never reads too far.
        let byte = stream.read_u8().await?;
        head.push(byte);
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let is_success = head.starts_with(b"HTTP/1.1 2") || head.starts_with(b"HTTP/1.0 2");
    if is_success { Ok(stream) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

fn connect_head(proxy: &ForwardProxy, address: SocketAddr) -> Zeroizing<String> {
    let authorization = proxy.credentials.as_ref().map(|it| {
        let pair = Zeroizing::new([&it.user, ":", it.password.as_str()].concat());
        let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
        Zeroizing::new(["Proxy-Authorization: Basic ", &encoded, "\r\n"].concat())
    });
    let authorization = authorization.as_ref().map_or("", |it| it.as_str());
    Zeroizing::new(format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n{authorization}\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ForwardProxyCredentials;

    #[test]
    fn connect_request_names_the_address_and_the_credentials() {
        let credentials = ForwardProxyCredentials {
            user: "Aladdin".to_owned(),
            password: Zeroizing::new("open sesame".to_owned()),
        };
        let mut proxy =
            ForwardProxy { host: "proxy".to_owned(), port: 3128, credentials: Some(credentials) };
        let with_credentials = connect_head(&proxy, "[2001:db8::1]:443".parse().unwrap());
        assert_eq!(
            *with_credentials,
            "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\
             Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
        );
        assert!(!format!("{proxy:?}").contains("sesame"));
        proxy.credentials = None;
        let without_credentials = connect_head(&proxy, "192.0.2.1:8443".parse().unwrap());
        assert_eq!(
            *without_credentials,
            "CONNECT 192.0.2.1:8443 HTTP/1.1\r\nHost: 192.0.2.1:8443\r\n\r\n"
        );
    }
}
