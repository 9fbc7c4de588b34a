//! Tests on a terminal, which the program `script` creates.

use std::process::Stdio;

use rustix::process::Signal;

use crate::ctl::{Ctl, Running, until};
use crate::log::Log;
use crate::running::redis;

const OWN: &str = env!("CARGO_BIN_EXE_lockctl");

/// Runs a shell command line on a terminal.
fn on_terminal(ctl: &Ctl, line: &str) -> Running {
    let mut command = ctl.program("env");
    command.args(["--default-signal", "script"]);
    command.args(["-qec", line, "/dev/null"]).env("SHELL", "/bin/sh").stdin(Stdio::piped());
    Running::of(command)
}

#[test]
fn the_terminal_is_the_commands() {
    let (_server, ctl) = redis();
    // The command gets the terminal even if its standard input is a pipe.
    for input in ["", "true |"] {
        let line = format!(
            "{input} {OWN} run a -- sh -c 'echo ready; read line < /dev/tty; echo got $line; exit 6'"
        );
        let mut run = on_terminal(&ctl, &line);
        until("it reads", || run.printed().contains("ready"));
        run.types("text\n");
        let said = run.end();
        assert!(said.code == 6 && said.out.contains("got text"), "{said:?}");
    }
}

#[test]
fn an_interrupt_from_the_keyboard_reaches_the_command_once() {
    let (_server, ctl) = redis();
    let log = Log::new();
    let trap = format!("trap '{}' INT; {}; {}; exit 4", log.says("INT"), log.says("ready"), log.waits());
    let script = log.path("script");
    std::fs::write(&script, trap).expect("a file");
    let mut run = on_terminal(&ctl, &format!("exec {OWN} run a -- sh {}", script.display()));
    log.until_all(&["ready"]);
    run.types("\x03");
    log.until_all(&["INT"]);
    log.go();
    assert_eq!(run.end().code, 4);
    assert_eq!(log.lines(), ["ready", "INT"]);
}

#[test]
fn children_end_with_the_lock() {
    let (_server, ctl) = redis();
    let log = Log::new();
    let script = log.path("script");
    let stubborn = format!("trap '' TERM; {} & {}", log.works("child"), log.works("command"));
    std::fs::write(&script, stubborn).expect("a file");
    // The command is killed a second before its lease ends, which is enough on a busy machine.
    let line = format!("{OWN} run a --ttl 10s --no-renew --grace 300ms -- sh {}", script.display());
    let run = on_terminal(&ctl, &line);
    log.until_all(&["child", "command"]);
    log.is_silent_under_the_next(&ctl, "a");
    let said = run.end();
    assert!(said.code == 76 && said.out.contains("was lost and the command was stopped"), "{said:?}");
}

#[test]
fn a_wait_is_one_line_that_changes() {
    let (_server, ctl) = redis();
    let held = ctl.start(&["hold", "a", "--label", "night"]);
    ctl.until_held("a", 1);
    let run = on_terminal(&ctl, &format!("{OWN} run a -- echo done"));
    until("a line", || run.printed().contains("waiting for `a`"));
    until("another picture", || run.printed().matches("waiting for `a`").count() > 3);
    held.signal(Signal::TERM);
    assert_eq!(held.end().code, 0);
    let said = run.end();
    assert!(said.out.contains("(lockctl, night)") && !said.out.contains("`a`\r\n"), "{said:?}");
    assert!(said.out.ends_with("\r\x1b[2Kdone\r\n"), "the line is erased: {said:?}");
}

#[test]
fn a_picture_that_is_stopped_gives_the_screen_back() {
    const ENTER: &str = "\x1b[?1049h";
    const LEAVE: &str = "\x1b[?1049l";
    let (_server, ctl) = redis();
    let held = ctl.start(&["hold", "order:42"]);
    ctl.until_held("order:42", 1);
    let mut shell = on_terminal(&ctl, "bash --norc --noediting -i");
    let count = |shell: &Running, text: &str| shell.printed().matches(text).count();
    shell.types(&format!("{OWN} top --every 50ms\n"));
    until("a picture", || shell.printed().contains("order:42 "));
    shell.types("\x1a");
    until("the shell has the screen", || count(&shell, LEAVE) == 1 && shell.printed().contains("Stopped"));
    shell.types("fg\n");
    until("another picture", || {
        count(&shell, ENTER) == 2
            && shell.printed().rsplit(ENTER).next().is_some_and(|last| last.contains("order:42 "))
    });
    shell.types("\x03");
    until("its end", || count(&shell, LEAVE) == 2);
    shell.types("exit 3\n");
    assert_eq!(shell.end().code, 3);
    held.signal(Signal::TERM);
    held.end();
}
