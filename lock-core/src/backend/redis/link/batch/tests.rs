use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn step(key: &str, acquires: bool) -> Step {
    let key = Key::new(key).expect("a key");
    match acquires {
        true => Step::Acquire { key, value: "secret".to_owned(), lease: 1_000, fence: None },
        false => Step::Release { key, head: [b's'; Owner::TOKEN_LEN + 1] },
    }
}

fn waiting(key: &str) -> (Waiting, oneshot::Receiver<Outcome>) {
    let (tell, told) = oneshot::channel();
    (Waiting { step: step(key, true), deadline: SECOND, told: Some(tell) }, told)
}

#[test]
fn a_batch_leaves_when_it_is_full_or_when_the_others_have_run() {
    let batches = Batches::default();
    let add = |key| batches.add(waiting(key).0, 3);
    let keys = |steps: Vec<Waiting>| {
        steps.iter().map(|waiting| waiting.step.key().as_str().to_owned()).collect::<Vec<_>>()
    };
    assert!(matches!(add("a"), Next::Await), "the first asks for a task that sends it");
    assert!(matches!(add("b"), Next::Nothing));
    let Next::Send(full) = add("c") else { panic!("three are enough") };
    assert_eq!(keys(full), ["a", "b", "c"]);
    // The task that the first one asked for has not run, and sends what it finds.
    assert!(matches!(add("d"), Next::Nothing));
    assert_eq!(keys(batches.take()), ["d"]);
    assert!(matches!(add("e"), Next::Await));
}

#[test]
fn a_task_that_is_gone_asks_for_nothing() {
    let (step, told) = waiting("a");
    assert!(step.is_awaited());
    drop(told);
    assert!(!step.is_awaited());
}

/// Tells two steps, and returns what each task was told.
fn told(answer: Result<Value, Failure>, fence: Option<u64>) -> [Outcome; 2] {
    let [(first, mut told_first), (mut second, mut told_second)] = [waiting("a"), waiting("b")];
    if let Step::Acquire { fence: asked, .. } = &mut second.step {
        *asked = fence;
    }
    let mut steps = [first, second];
    let answer = answer.and_then(|answer| Answer::read(answer, steps.len()));
    tell(&mut steps, answer);
    [told_first.try_recv().expect("told"), told_second.try_recv().expect("told")]
}

fn text(text: &str) -> Result<Value, Failure> {
    Ok(Value::BulkString(text.as_bytes().to_vec()))
}

#[test]
fn each_step_has_its_own_outcome() {
    use Outcome::{Alone, Done, Refused};
    assert!(matches!(told(text("176367200012345610"), None), [Done(None), Refused]));
    assert!(matches!(told(text("176367200012345621"), None), [Alone, Done(None)]));
    let token = FencingToken::new(1_763_672_000_123_456);
    let both = told(text("176367200012345611"), Some(1_000));
    assert!(matches!(both, [Done(None), Done(Some(made))] if made == token), "{both:?}");
    assert!(matches!(told(text("176367200012345602"), Some(1_000)), [Refused, Alone]));
}

#[test]
fn an_answer_of_another_form_says_nothing_about_any_step() {
    use Outcome::Failed;
    let (short, long) = (text("17636720001234561"), text("1763672000123456111"));
    for answer in [text(""), text("11"), short, long, text("176367200012345x11"), Ok(Value::Okay)] {
        let told = told(answer, None);
        assert!(matches!(&told, [Failed(a), Failed(b)] if a.is_in_doubt() && b.is_in_doubt()), "{told:?}");
    }
}

#[test]
fn a_refusal_of_the_whole_fails_nobody_and_a_lost_answer_leaves_all_in_doubt() {
    let refused = Failure::of_text("NOPERM No permissions to access a key");
    assert!(matches!(told(Err(refused), None), [Outcome::Alone, Outcome::Alone]));
    let lost = Failure::of_text("ERR something that no version says");
    assert!(
        matches!(told(Err(lost), None), [Outcome::Failed(a), Outcome::Failed(b)] if a.is_in_doubt() && b.is_in_doubt())
    );
}

#[test]
fn only_those_who_wait_have_a_deadline() {
    let (mut first, _told) = waiting("a");
    let (mut second, _told) = waiting("b");
    (first.deadline, second.deadline) = (SECOND / 2, SECOND);
    first.tell(Outcome::Late);
    let mut steps = [first, second];
    assert_eq!(next_deadline(&steps), Some(SECOND));
    steps[1].tell(Outcome::Late);
    assert_eq!(next_deadline(&steps), None);
}

#[test]
fn no_text_shows_an_owner() {
    for acquires in [true, false] {
        assert_eq!(format!("{:?}", step("a", acquires)), "Step(Key(\"a\"))");
    }
}
