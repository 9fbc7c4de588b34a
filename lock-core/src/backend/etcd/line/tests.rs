use super::*;

fn kv(name: &str, created: i64, modified: i64, value: &str) -> KeyValue {
    KeyValue {
        key: name.as_bytes().to_vec(),
        create_revision: created,
        mod_revision: modified,
        value: value.as_bytes().to_vec(),
        ..KeyValue::default()
    }
}

fn line(kvs: Vec<KeyValue>, revision: i64) -> Line {
    Line::new(RangeResponse { kvs, ..RangeResponse::default() }, revision)
}

fn names(line: &Line) -> Vec<&str> {
    line.queue.entries().iter().map(|entry| std::str::from_utf8(&entry.stored).expect("text")).collect()
}

fn event(kind: i32, kv: KeyValue) -> Event {
    Event { kind, kv: Some(kv) }
}

#[test]
fn the_order_is_that_of_the_creation() {
    let line = line(vec![kv("k/1", 9, 9, ""), kv("k/2", 4, 12, ""), kv("k/3", 7, 7, "")], 12);
    assert_eq!(names(&line), ["k/2", "k/3", "k/1"]);
    assert!(line.queue.holds(0) && !line.queue.holds(1));
}

/// Names are compared by their numbers, not by their texts.
#[test]
fn entries_of_one_transaction_are_in_the_order_of_their_numbers() {
    let order = ["k/9", "k/ab", "k/ab-2", "k/ab-9", "k/ab-10", "k/ab-11", "k/0"];
    let created = |name: &str| match name {
        "k/9" => 5,
        "k/0" => 8,
        _ => 7,
    };
    let entry = |name: &&str| kv(name, created(name), created(name), "");
    let mut by_text = order;
    by_text.sort_unstable();
    assert_eq!(names(&line(by_text.iter().map(entry).collect(), 8)), order);
    let mut copy = line(vec![kv("k/ab-9", 3, 3, "")], 4);
    assert!(copy.apply(by_text.iter().map(|name| event(0, entry(name))).collect()).is_empty());
    assert_eq!(names(&copy), order, "also if the name was in use before");
}

#[test]
fn a_copy_follows_the_changes_behind_its_revision() {
    let mut line = line(vec![kv("k/1", 4, 4, ""), kv("k/2", 6, 6, "")], 8);
    // The watch reports changes that the read has already shown.
    assert!(line.apply(vec![event(0, kv("k/0", 3, 3, "")), event(1, kv("k/2", 0, 5, ""))]).is_empty());
    assert_eq!((names(&line), line.revision), (vec!["k/1", "k/2"], 8));
    // Two entries of one transaction have the same revision.
    let both = vec![event(0, kv("k/4", 9, 9, "")), event(0, kv("k/3", 9, 9, ""))];
    assert!(line.apply(both).is_empty());
    assert_eq!((names(&line), line.revision), (vec!["k/1", "k/2", "k/3", "k/4"], 9));
    let gone = line.apply(vec![event(1, kv("k/1", 0, 11, "")), event(0, kv("k/2", 6, 12, ""))]);
    assert_eq!(gone, [b"k/1".to_vec()]);
    assert_eq!((names(&line), line.revision), (vec!["k/2", "k/3", "k/4"], 12));
    assert_eq!(line.queue.entries()[0].modified, 12);
}

#[test]
fn the_value_says_whose_an_entry_is_and_how_it_excludes() {
    use crate::owner::{Identity, OwnerSource};
    let owner = OwnerSource::new().expect("random bytes").mint();
    let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
    let ttl = std::time::Duration::from_secs(5);
    let claim = Claim::new(crate::key::Key::new("k").expect("a key"), owner, ttl, record);
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 3 }] {
        for kept in [false, true] {
            let value = value(&claim, mode, None, kept);
            let entry = Entry::new(KeyValue { value, key: b"k/1".to_vec(), ..KeyValue::default() });
            assert_eq!((entry.owner, entry.mode, entry.kept), (Some(owner), mode, kept));
            assert!(entry.record.is_some() && entry.id() == GrantId::digest(owner.token().as_str()));
        }
    }
    // The value of another program is not parsed.
    let foreign = Entry::new(kv("k/1", 1, 1, "somebody mode=s kept=1"));
    assert_eq!((foreign.owner, foreign.mode, foreign.kept), (None, Mode::Exclusive, false));
}
