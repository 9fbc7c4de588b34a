//! Tests the findings of the doctor about the store.

use std::sync::atomic::Ordering;

use crate::store::Counted;
use crate::support::{data, pass, read_only};

#[tokio::test(start_paused = true)]
async fn viewers_share_a_look_of_the_doctor() {
    let store = Counted::default();
    let app = read_only(&store.manager());
    let looks: Vec<_> = (0..5)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { data(&app, "/api/doctor").await })
        })
        .collect();
    for look in looks {
        assert_eq!(look.await.unwrap()["findings"][0]["rule"], "memory.one_process");
    }
    assert_eq!(store.doctors.load(Ordering::SeqCst), 1);
    pass(3).await;
    data(&app, "/api/doctor").await;
    assert_eq!(store.doctors.load(Ordering::SeqCst), 2);
    // The other views do not run the doctor.
    data(&app, "/api/state").await;
    assert_eq!(store.doctors.load(Ordering::SeqCst), 2);
}
