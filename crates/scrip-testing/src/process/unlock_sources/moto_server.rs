//! The server of `moto`, which answers as AWS. It ends with this process.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread::sleep,
    time::Duration,
};

use serde_json::Value;

/// The region of the keys.
pub const REGION: &str = "eu-west-1";

/// The script ends when its standard input is closed, that is, when this process ends.
const SERVER_SCRIPT: &str = r#"
"$1" -H 127.0.0.1 -p "$2" >/dev/null 2>&1 &
server=$!
cat >/dev/null
kill $server
"#;

/// Requests to create two users, their access keys, one policy and two keys.
const SETUP_REQUESTS: usize = 7;

#[derive(Debug)]
pub struct MotoServer {
    port: u16,
    _shell: Child,
}

/// A server that checks signatures and permissions.
#[derive(Debug)]
pub struct EnforcingServer {
    pub server: MotoServer,
    pub key_arn: String,
    pub other_key_arn: String,
    pub allowed_user: AccessKeyText,
    pub denied_user: AccessKeyText,
}

/// An access key of a user.
#[derive(Debug)]
pub struct AccessKeyText {
    pub id: String,
    pub secret: String,
}

impl MotoServer {
    /// The first requests, as many as this number, need no valid signature.
    pub fn start(free_requests: usize) -> Self {
        // Another process may take the port first. Then another port is tried.
        for _ in 0..20 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            let shell = Command::new("sh")
                .args(["-c", SERVER_SCRIPT, "sh"])
                .arg(find_program())
                .arg(port.to_string())
                .env("INITIAL_NO_AUTH_ACTION_COUNT", free_requests.to_string())
                .stdin(Stdio::piped())
                .spawn();
            let server = Self { port, _shell: shell.expect("start sh") };
            for _ in 0..600 {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return server;
                }
                sleep(Duration::from_millis(100));
            }
        }
        unreachable!("moto_server does not start; ./test installs it");
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends a request with an invalid signature. Returns the body of the answer.
    pub fn post(&self, service: &str, target: Option<&str>, body: &str) -> String {
        let target = target.map(|it| format!("X-Amz-Target: {it}\r\n")).unwrap_or_default();
        let content_type = match target.as_str() {
            "" => "application/x-www-form-urlencoded",
            _ => "application/x-amz-json-1.1",
        };
        let request = format!(
            "POST / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n{target}\
             Content-Type: {content_type}\r\nContent-Length: {}\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential=setup/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, \
             Signature=none\r\n\r\n{body}",
            self.port,
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        response.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    pub fn create_key(&self) -> String {
        let body = self.post("kms", Some("TrentService.CreateKey"), "{}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer.pointer("/KeyMetadata/Arn").and_then(Value::as_str).unwrap().to_owned()
    }

    fn create_user(&self, name: &str) -> AccessKeyText {
        let form = |action: &str| format!("Action={action}&Version=2010-05-08&UserName={name}");
        self.post("iam", None, &form("CreateUser"));
        let answer = self.post("iam", None, &form("CreateAccessKey"));
        let element = |name: &str| {
            let (_, rest) = answer.split_once(&format!("<{name}>")).unwrap();
            rest.split_once('<').unwrap().0.to_owned()
        };
        AccessKeyText { id: element("AccessKeyId"), secret: element("SecretAccessKey") }
    }
}

impl EnforcingServer {
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<EnforcingServer> = OnceLock::new();
        SERVER.get_or_init(|| {
            let server = MotoServer::start(SETUP_REQUESTS);
            let allowed_user = server.create_user("vault");
            let denied_user = server.create_user("other");
            // Allows kms:Encrypt and kms:Decrypt.
            server.post(
                "iam",
                None,
                "Action=PutUserPolicy&Version=2010-05-08&UserName=vault&PolicyName=kms\
                 &PolicyDocument=%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B\
                 %22Effect%22%3A%22Allow%22%2C%22Action%22%3A%5B%22kms%3AEncrypt%22%2C\
                 %22kms%3ADecrypt%22%5D%2C%22Resource%22%3A%22*%22%7D%5D%7D",
            );
            let (key_arn, other_key_arn) = (server.create_key(), server.create_key());
            Self { server, key_arn, other_key_arn, allowed_user, denied_user }
        })
    }
}

/// `./test` installs `moto` into a folder of the repository. Otherwise it must be in the path.
fn find_program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = root.join("target/clients/moto/bin/moto_server");
    if installed.exists() {
        return installed;
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&folders).map(|it| it.join("moto_server"));
    programs.find(|it| it.exists()).expect("moto_server is not installed: ./test installs it")
}
