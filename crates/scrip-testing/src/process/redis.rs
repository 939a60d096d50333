//! A real Redis server with its own port and folder. It is killed when its value is dropped.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

#[derive(Debug)]
pub struct RedisServer {
    child: Option<Child>,
    port: u16,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        // Another process may take the port first. Then another port is tried.
        for _ in 0..20 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            let owned_arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
            let folder = tempfile::tempdir().unwrap();
            let mut redis = Self { child: None, port, folder, arguments: owned_arguments };
            if redis.restart() {
                return redis;
            }
        }
        unreachable!("redis-server does not start; ./test installs it");
    }

    /// Restarts with other arguments, which stay in effect.
    pub fn restart_with(&mut self, arguments: &[&str]) -> bool {
        self.arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        self.restart()
    }

    /// Restarts empty on the same port. Returns whether it responds.
    pub fn restart(&mut self) -> bool {
        let port = self.port.to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.arg("--dir").arg(self.folder.path()).args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("start redis-server (./test installs it)");
        let child = self.child.insert(child);
        for _ in 0..2000 {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            sleep(Duration::from_millis(10));
        }
        false
    }

    /// Sends SIGKILL: all data is lost.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Sends a signal, such as `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").arg(format!("-{name}")).arg(pid).status().unwrap().success());
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).unwrap()
    }

    /// Sends a command and returns its response.
    pub fn query<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let mut connection = self.client().get_connection().unwrap();
        let mut request = redis::cmd(command[0]);
        for argument in &command[1..] {
            request.arg(*argument);
        }
        request.query(&mut connection).unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
