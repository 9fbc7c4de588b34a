//! Identifies the installed recorder.

use metrics::Recorder;

/// The identity of a recorder, which is its address.
///
/// A process installs at most one recorder, so the identity changes at most once. Tests, however, replace the recorder
/// on their thread, and a new recorder may have the address of a dropped one. So each test creates its own manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecorderId(usize);

impl RecorderId {
    /// Returns the identity of the calling thread's recorder, or `None` if no recorder is installed.
    pub(super) fn current() -> Option<Self> {
        metrics::with_recorder(Self::new)
    }

    /// Returns `None` for the placeholder that the crate `metrics` uses before a recorder is installed. The placeholder
    /// has size zero, but an address in the memory of that crate. An installed recorder of size zero has no memory, so
    /// its address equals its alignment.
    fn new(recorder: &dyn Recorder) -> Option<Self> {
        let address = std::ptr::from_ref(recorder).cast::<()>().addr();
        let nobody = size_of_val(recorder) == 0 && address != align_of_val(recorder);
        (!nobody).then_some(Self(address))
    }
}

#[cfg(test)]
mod tests {
    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, NoopRecorder, Recorder, SharedString, Unit,
    };

    use super::*;

    struct Sized(u8);
    struct Unsized;

    macro_rules! records_nothing {
        ($name:ty) => {
            impl Recorder for $name {
                fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
                fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
                fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
                fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
                    Counter::noop()
                }
                fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
                    Gauge::noop()
                }
                fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                    Histogram::noop()
                }
            }
        };
    }
    records_nothing!(Sized);
    records_nothing!(Unsized);

    #[test]
    fn a_recorder_is_told_from_none_and_from_another() {
        static NOBODY: NoopRecorder = NoopRecorder;
        let (one, other) = (Sized(1), Sized(2));
        assert_ne!(one.0, other.0);
        assert_eq!(RecorderId::new(&NOBODY), None);
        assert!(RecorderId::new(&one).is_some() && RecorderId::new(&one) == RecorderId::new(&one));
        assert_ne!(RecorderId::new(&one), RecorderId::new(&other));
        let installed: &'static dyn Recorder = Box::leak(Box::new(Unsized));
        assert!(RecorderId::new(installed).is_some(), "as the facade keeps one that is installed");
        metrics::with_local_recorder(&one, || assert_eq!(RecorderId::current(), RecorderId::new(&one)));
        assert_eq!(RecorderId::current(), None);
    }
}
