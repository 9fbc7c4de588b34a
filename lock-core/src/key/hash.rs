//! Calculates the hash of a key, once per key.

use std::hash::{BuildHasher, Hasher, RandomState};

use once_cell::sync::Lazy;

/// The state of the hash function. It is random in each process, because keys often contain text of untrusted clients,
/// who could otherwise choose keys that collide.
static STATE: Lazy<RandomState> = Lazy::new(RandomState::new);

pub(super) fn hash_of(text: &str) -> u64 {
    STATE.hash_one(text)
}

/// A hasher that returns the hash value that a key writes into it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HashOfKey(u64);

impl Hasher for HashOfKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    // Keys do not call this method, because a key writes a single number.
    fn write(&mut self, bytes: &[u8]) {
        self.0 = STATE.hash_one((self.0, bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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

    /// The keys of one shard must differ in the bits that the map uses. Otherwise they would all collide in the map.
    #[test]
    fn the_keys_of_one_shard_differ_in_the_bits_of_its_map() {
        let keys = (0..10_000).map(|i| Key::new(&format!("order:{i}")).expect("a key"));
        let of_one_shard: Vec<_> = keys.filter(|key| key.shard(32) == 0).collect();
        let buckets: HashSet<_> = of_one_shard.iter().map(|key| key.hash_value() % 256).collect();
        assert!(
            of_one_shard.len() > 200 && buckets.len() > 100,
            "{} of {}",
            buckets.len(),
            of_one_shard.len()
        );
    }
}
