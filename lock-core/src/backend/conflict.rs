//! What the stores say of a key that is in use as something else.

/// Names both uses, and the way out. `permits`: they differ in the number of permits alone.
pub(super) fn in_use(which: &str, in_force: &str, asked: &str, permits: bool) -> String {
    let way_out = if permits {
        "the number changes once the old permits are released and nobody waits for another one: stop whoever asks for the \
         old number first, or name the key anew with the number, as in `pool:8`"
    } else {
        "use one kind of lock, with one number of permits, per key"
    };
    format!("{which} is in use as {in_force} and was asked for as {asked}; {way_out}")
}
