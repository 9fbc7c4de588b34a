//! Calculates the hash of a key, once per key.

use std::hash::{BuildHasher, RandomState};

use once_cell::sync::Lazy;

/// The state of the hash function. It is random in each process, because keys often contain text of untrusted clients,
/// who could otherwise choose keys that collide.
static STATE: Lazy<RandomState> = Lazy::new(RandomState::new);

pub(super) fn hash_of(text: &str) -> u64 {
    STATE.hash_one(text)
}

#[cfg(test)]
mod tests {
    use crate::key::{Key, KeyBuilder, KeyMap};

    /// A store returns only the text of a key. A key that is created from that text must find the same entry.
    #[test]
    fn a_key_that_is_made_again_of_its_text_is_found() {
        let long = "k".repeat(2 * Key::MAX_LEN);
        let made = [
            Key::new("order:42"),
            Key::new(&long),
            Key::new(&long).map(|key| key.in_namespace("shop")),
            KeyBuilder::new().literal("order:").value(&"a:b").finish(),
        ];
        for key in made.map(|key| key.expect("a key")) {
            let mut map = KeyMap::default();
            map.insert(key.clone(), 1);
            let again = Key::new(key.as_str()).expect("a key");
            assert_eq!((map.get(&again), again.shard(32)), (Some(&1), key.shard(32)), "{key}");
        }
    }
}
