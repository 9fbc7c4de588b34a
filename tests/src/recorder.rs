//! A record of the commands that clients sent.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use crate::redis_server::RedisServer;
use crate::wait::PATIENCE;

/// Records the commands that clients send to a server, with `MONITOR`.
///
/// The statistics of the server also count commands inside scripts. The recorder counts only the commands that crossed
/// the network. The server never shows `HELLO` and `AUTH`.
#[derive(Debug)]
pub struct Recorder<'a> {
    server: &'a RedisServer,
    stream: BufReader<TcpStream>,
    taken: u32,
}

/// A command as a client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentCommand {
    /// The address of the client.
    pub client: String,
    /// The name in upper case.
    pub name: String,
    /// The words after the name, with `\xNN` for each byte that is not ASCII.
    pub arguments: Vec<String>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn start(server: &'a RedisServer) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("cannot connect to redis-server");
        stream.set_read_timeout(Some(PATIENCE)).expect("cannot set a timeout");
        let mut greetings = 1;
        if let Some(password) = server.password() {
            write!(stream, "AUTH {password}\r\n").expect("cannot write to redis-server");
            greetings += 1;
        }
        stream.write_all(b"MONITOR\r\n").expect("cannot write to redis-server");
        let mut recorder = Self { server, stream: BufReader::new(stream), taken: 0 };
        for _ in 0..greetings {
            let line = recorder.line();
            assert_eq!(line, "+OK", "MONITOR was refused");
        }
        recorder
    }

    /// Returns every command since the start or the last call, in the order in which the server ran them, without the
    /// commands inside scripts.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn take(&mut self) -> Vec<SentCommand> {
        // `MONITOR` shows all commands that were sent before this mark ahead of the mark.
        self.taken += 1;
        let mark =
            format!("recorder-{}-{}", self.stream.get_ref().local_addr().map_or(0, |a| a.port()), self.taken);
        self.server.command(&["ECHO", &mark]);
        let mut commands: Vec<SentCommand> = Vec::new();
        loop {
            let Some(command) = parse(&self.line()) else { continue };
            if command.arguments == [mark.as_str()] {
                // Removes the commands of the marking connection's handshake as well.
                commands.retain(|other| other.client != command.client);
                return commands;
            }
            commands.push(command);
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("MONITOR ended");
        assert!(line.ends_with("\r\n"), "MONITOR ended");
        line.truncate(line.len() - 2);
        line
    }
}

/// Parses `+1763672000.123456 [0 127.0.0.1:60866] "set" "k" "v"`. Returns `None` for a command inside a script.
fn parse(line: &str) -> Option<SentCommand> {
    let (_, rest) = line.split_once('[')?;
    let (context, rest) = rest.split_once("] ")?;
    let (_, client) = context.split_once(' ')?;
    if client == "lua" {
        return None;
    }
    let mut words = unquote(rest).into_iter();
    let name = words.next()?.to_ascii_uppercase();
    Some(SentCommand { client: client.to_owned(), name, arguments: words.collect() })
}

/// Splits `"a" "b\"c"`. Only `\"` and `\\` are unescaped.
fn unquote(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, &mut word) {
            ('"', None) => word = Some(String::new()),
            ('"', Some(_)) => words.extend(word.take()),
            ('\\', Some(word)) => {
                let escaped = characters.next_if(|next| matches!(next, '"' | '\\'));
                word.push(escaped.unwrap_or('\\'));
            }
            (other, Some(word)) => word.push(other),
            (_, None) => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_monitor_is_parsed() {
        let line = r#"+1763672000.123456 [0 127.0.0.1:60866] "eval" "return \"x\"" "0" "[] \\ \xff""#;
        let command = parse(line).expect("a client's command");
        assert_eq!((command.client.as_str(), command.name.as_str()), ("127.0.0.1:60866", "EVAL"));
        assert_eq!(command.arguments, [r#"return "x""#, "0", r"[] \ \xff"]);
    }

    #[test]
    fn what_a_script_calls_is_left_out() {
        assert_eq!(parse(r#"+1763672000.123456 [0 lua] "set" "k" "v""#), None);
    }
}
