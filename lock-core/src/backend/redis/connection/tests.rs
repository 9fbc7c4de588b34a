//! The clock of the server.

use super::*;

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

#[test]
fn the_time_of_the_server_is_read() {
    let answer = Value::Array(vec![bulk("1763672000"), bulk("123456")]);
    assert_eq!(server_time(&answer).expect("a time"), 1_763_672_000_123_456);
    for answer in [Value::Nil, Value::Array(vec![bulk("x"), bulk("1")]), Value::Array(vec![bulk("1")])] {
        assert!(server_time(&answer).is_err());
    }
}

#[test]
fn the_clock_of_the_server_is_followed() {
    let sent = Moment::from_parts((0, 5_000_000));
    let clock = ServerClock::new(1_000_000, sent);
    assert_eq!(clock.at(sent), 1_000_000);
    assert_eq!(clock.at(sent.plus(Duration::from_millis(250))), 1_250_000);
    // Another answer took 40 ms: it agrees, and says less.
    let later = |ms| sent.plus(Duration::from_millis(ms));
    clock.learn(1_140_000, later(100), later(140));
    assert_eq!(clock.at(sent), 1_000_000);
    // One that took 1 ms shows that the first was 30 ms late.
    clock.learn(1_170_000, later(200), later(201));
    assert_eq!(clock.at(sent), 970_000);
    // The server's clock was set back by an hour, and forward by a second.
    clock.learn(970_000 - 3_600_000_000, sent, later(2));
    assert_eq!(clock.at(sent), 970_000 - 3_600_000_000);
    clock.learn(1_970_000, sent, later(2));
    assert_eq!(clock.at(sent), 1_970_000);
}
