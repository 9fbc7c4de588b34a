use super::*;
use crate::key::Key;
use crate::owner::Owner;

fn waiting(key: &str, fence: Option<u64>) -> (Waiting, oneshot::Receiver<Outcome>) {
    let (tell, told) = oneshot::channel();
    let key = Key::new(key).expect("a key");
    let step = Step::Acquire { key, value: "secret".to_owned(), lease: 1_000, fence };
    (Waiting { step, deadline: Duration::from_secs(1), told: Some(tell) }, told)
}

/// Returns what the tasks of two steps are told, of which the second asks for a token to be remembered for `fence`.
fn told(answer: Value, fence: Option<u64>) -> Result<[Outcome; 2], Failure> {
    let [(first, mut told_first), (second, mut told_second)] = [waiting("a", None), waiting("b", fence)];
    Answer::read(answer, 2)?.tell(&mut [first, second]);
    Ok([told_first.try_recv().expect("told"), told_second.try_recv().expect("told")])
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

#[test]
fn each_step_has_its_own_outcome() {
    use Outcome::{Alone, Done, Refused};
    let told = |answer, fence| told(text(answer), fence).expect("an answer");
    assert!(matches!(told("176367200012345610", None), [Done(None), Refused]));
    assert!(matches!(told("176367200012345621", None), [Alone, Done(None)]));
    let token = FencingToken::new(1_763_672_000_123_456);
    let both = told("176367200012345611", Some(1_000));
    assert!(matches!(both, [Done(None), Done(Some(made))] if made == token), "{both:?}");
    assert!(matches!(told("176367200012345602", Some(1_000)), [Refused, Alone]));
}

#[test]
fn an_answer_of_another_form_says_nothing_about_any_step() {
    let texts =
        ["", "11", "17636720001234561", "1763672000123456111", "176367200012345x11", "176367200012345613"];
    for answer in texts.map(text).into_iter().chain([Value::Okay, Value::Nil, Value::Int(1)]) {
        assert!(told(answer, None).expect_err("another form").is_in_doubt());
    }
}

#[test]
fn a_refusal_of_the_whole_fails_nobody_and_a_lost_answer_leaves_all_in_doubt() {
    let refused = Failure::of_text("NOPERM No permissions to access a key");
    assert!(matches!(Outcome::of_failure(refused), Outcome::Alone));
    let unknown = Failure::of_text("ERR something that no version says");
    assert!(matches!(Outcome::of_failure(unknown), Outcome::Failed(failure) if failure.is_in_doubt()));
}

#[test]
fn no_text_shows_an_owner() {
    let release = Step::Release { key: Key::new("a").expect("a key"), head: [b's'; Owner::TOKEN_LEN + 1] };
    for step in [waiting("a", None).0.step, release] {
        assert_eq!(format!("{step:?}"), "Step(Key(\"a\"))");
    }
}
