//! A real Redis on a port and in a folder of its own. It never outlives its value.

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
        // Somebody else may take the port before Redis does; then another one is tried.
        for _ in 0..20 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            let more = arguments.iter().map(|it| (*it).to_owned()).collect();
            let folder = tempfile::tempdir().unwrap();
            let mut redis = Self { child: None, port, folder, arguments: more };
            if redis.restart() {
                return redis;
            }
        }
        unreachable!("redis-server does not start; ./test installs it");
    }

    /// The same with other settings from now on.
    pub fn restart_with(&mut self, arguments: &[&str]) -> bool {
        self.arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        self.restart()
    }

    /// Again on the same port, with nothing in it. Whether it answers.
    pub fn restart(&mut self) -> bool {
        let port = self.port.to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.arg("--dir").arg(self.folder.path()).args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("redis-server; ./test installs it");
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

    /// SIGKILL: what it knew is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Makes it stand still, or go on: `STOP`, `CONT`.
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

    /// What it answers to a command.
    pub fn query<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let mut connection = self.client().get_connection().unwrap();
        let mut asked = redis::cmd(command[0]);
        for word in &command[1..] {
            asked.arg(*word);
        }
        asked.query(&mut connection).unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
