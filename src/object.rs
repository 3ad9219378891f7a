//! JSON objects by hand: members in the order in which they are written, those that are absent left out.
//!
//! In: a tuple of members. Out: an object, through serde. Nothing is held.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A JSON object: a tuple of (key, value) pairs, in this order. A pair that is `None` is absent.
pub(crate) struct Object<T>(pub(crate) T);

pub(crate) trait Member {
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

impl<V: Serialize> Member for (&'static str, V) {
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(self.0, &self.1)
    }
}

impl<T: Member> Member for Option<T> {
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.as_ref().map_or(Ok(()), |member| member.put(map))
    }
}

macro_rules! object {
    ($($member:ident)*) => {
        impl<$($member: Member),*> Serialize for Object<($($member,)*)> {
            #[allow(non_snake_case, unused_mut)]
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Object(($($member,)*)) = self;
                let mut map = serializer.serialize_map(None)?;
                $($member.put(&mut map)?;)*
                map.end()
            }
        }
    };
}

object!();
object!(A);
object!(A B);
object!(A B C);
object!(A B C D);
object!(A B C D E);
object!(A B C D E F);
object!(A B C D E F G H);
