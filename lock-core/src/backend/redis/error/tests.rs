//! Tests of the errors of a server and of the driver.

use super::*;

fn address() -> Address {
    Address::Tcp { host: "10.0.0.5".to_owned(), port: 6379 }
}

/// Every text in this table is an original server reply.
#[test]
fn every_error_of_the_server_has_its_meaning() {
    use LockErrorKind::{InvalidRequest, Unavailable, Unsupported};
    use Reaction::{Follow, LoadScripts, Reconnect, Report};
    let place = ("127.0.0.1".to_owned(), 6381);
    let table: &[(&str, LockErrorKind, bool, Reaction)] = &[
        ("NOSCRIPT No matching script. Please use EVAL.", Unavailable, true, LoadScripts),
        ("READONLY You can't write against a read only replica.", Unavailable, true, Reconnect),
        ("LOADING Redis is loading the dataset in memory", Unavailable, true, Report),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", Unavailable, true, Report),
        ("UNKILLABLE Sorry the script already executed write commands", Unavailable, true, Report),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data", Unavailable, true, Report),
        ("NOREPLICAS Not enough good replicas to write.", Unavailable, true, Report),
        ("OOM command not allowed when used memory > 'maxmemory'.", Unavailable, true, Report),
        ("MISCONF Redis is configured to save RDB snapshots", Unavailable, true, Report),
        ("NOAUTH Authentication required.", Unavailable, false, Report),
        ("NOAUTH HELLO must be called with the client already authenticated", Unavailable, false, Report),
        ("WRONGPASS invalid username-password pair or user is disabled.", Unavailable, false, Report),
        ("NOPERM this user has no permissions to run the 'evalsha' command", Unavailable, false, Report),
        ("DENIED Redis is running in protected mode", Unavailable, false, Report),
        (
            "MOVED 3999 127.0.0.1:6381",
            Unsupported,
            false,
            Follow(Redirect::Moved { slot: 3999, place: place.clone() }),
        ),
        ("ASK 3999 127.0.0.1:6381", Unsupported, false, Follow(Redirect::Ask(place))),
        (
            "TRYAGAIN Multiple keys request during rehashing of slot",
            Unsupported,
            false,
            Follow(Redirect::Later),
        ),
        ("CLUSTERDOWN Hash slot not served", Unsupported, false, Follow(Redirect::Down)),
        ("CROSSSLOT Keys in request don't hash to the same slot", Unsupported, false, Report),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", InvalidRequest, false, Report),
        ("ERR max number of clients reached", Unavailable, true, Report),
        (
            "ERR The user executing the script can't run this command or subcommand",
            Unavailable,
            false,
            Report,
        ),
        ("ERR DB index is out of range", InvalidRequest, false, Report),
        ("ERR unknown command 'EVALSHA'", Unsupported, false, Report),
        ("ERR value is not an integer or out of range", Unavailable, true, Report),
        ("NEWCODE something of a later version", Unavailable, true, Report),
        (
            "ERR Error running script (call to f_8d1e): @user_script:9: -OOM command not allowed",
            Unavailable,
            true,
            Report,
        ),
        (
            "ERR Error running script (call to f_8d1e): @user_script:9: WRONGTYPE Operation against a key",
            InvalidRequest,
            false,
            Report,
        ),
        (
            "ERR Error running script (call to f_8d1e): @user_script:9: @user_script: 9: -READONLY You can't",
            Unavailable,
            true,
            Reconnect,
        ),
    ];
    for (text, kind, temporary, reaction) in table {
        let failure = Failure::of_text(text);
        let error = failure.to_error(&address());
        assert_eq!(error.kind(), *kind, "{text}");
        assert_eq!(error.is_temporary(), *temporary, "{text}");
        assert_eq!(failure.reaction, *reaction, "{text}");
        assert!(error.to_string().contains("10.0.0.5:6379"), "{error}");
    }
}

#[test]
fn a_refusal_is_told_from_doubt() {
    let doubtful =
        |failure: Failure| failure.to_error(&address()).to_string().contains("may have been executed");
    assert!(!doubtful(Failure::of_text("OOM command not allowed")));
    assert!(doubtful(Failure::of_text("ERR something else")));
    assert!(doubtful(Failure::of_error(&std::io::Error::from(std::io::ErrorKind::BrokenPipe).into())));
    assert!(doubtful(Failure::unexpected(&Value::Nil)));
}

#[test]
fn an_error_of_the_connection_is_temporary() {
    for kind in
        [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::TimedOut, std::io::ErrorKind::BrokenPipe]
    {
        let error = Failure::of_error(&std::io::Error::from(kind).into()).to_error(&address());
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        assert!(error.is_temporary(), "{kind}");
    }
}

#[test]
fn arguments_are_not_repeated() {
    for text in [
        "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'user' 's3cret'",
        "ERR unknown command `EVALSHA`, with args beginning with: `sha` `1` `key` `s3cret`",
    ] {
        let failure = Failure::of_text(text);
        assert!(!format!("{failure:?} {}", failure.to_error(&address())).contains("s3cret"));
    }
    let long = format!("ERR {}", "é".repeat(1000));
    assert!(Failure::of_text(&long).to_error(&address()).to_string().len() < 600);
}
