//! Registered memory: what peers may read and write, named by a key that is not used twice soon.
use crate::qp::MrKey;
use sys::UserBuf;

/// Places at a time.
const PLACES_MAX: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 20;
const GENERATION_MAX: u32 = (1 << (32 - INDEX_BITS)) - 1;

/// The table of registrations.
#[derive(Debug, Default)]
pub(super) struct Memory {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    buf: Option<UserBuf>,
    /// Pieces of it that streams are writing or filling.
    busy: u32,
}

/// A piece of registered memory that a request may touch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Number of the registration.
    pub number: u32,
    pub buf: UserBuf,
}

impl Memory {
    /// Registers a buffer. `None`: the table is full.
    pub fn register(&mut self, buf: UserBuf) -> Option<MrKey> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.places.len() < PLACES_MAX => {
                self.places.push(Place { generation: 0, buf: None, busy: 0 });
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        let place = &mut self.places[number as usize];
        place.buf = Some(buf);
        Some(MrKey(place.generation << INDEX_BITS | number))
    }

    /// Ends a registration. `Some`: its number, and streams still use it.
    pub fn deregister(&mut self, key: MrKey) -> Option<u32> {
        let (number, generation) = (key.0 & (PLACES_MAX as u32 - 1), key.0 >> INDEX_BITS);
        let place = self.places.get_mut(number as usize)?;
        if place.generation != generation || place.buf.take().is_none() {
            return None;
        }
        place.generation = (place.generation + 1) & GENERATION_MAX;
        if place.busy == 0 {
            self.free.push(number);
            return None;
        }
        Some(number)
    }

    /// What a request names, if it is inside of what is registered.
    pub fn find(&self, key: u32, addr: u64, len: usize) -> Option<Piece> {
        let (number, generation) = (key & (PLACES_MAX as u32 - 1), key >> INDEX_BITS);
        let place = self.places.get(number as usize).filter(|place| place.generation == generation)?;
        let buf = place.buf?;
        let offset = usize::try_from(addr.checked_sub(buf.addr())?).ok()?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= buf.len());
        inside.then(|| Piece { number, buf: buf.part(offset, len) })
    }

    /// A stream begins to use a piece.
    pub fn hold(&mut self, number: u32) {
        self.places[number as usize].busy += 1;
    }

    /// A stream has used a piece.
    pub fn release(&mut self, number: u32) {
        let place = &mut self.places[number as usize];
        place.busy -= 1;
        if place.busy == 0 && place.buf.is_none() {
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_registered_is_found() {
        let mut memory = Memory::default();
        let key = memory.register(UserBuf::EMPTY).unwrap();
        let at = UserBuf::EMPTY.addr();
        assert!(memory.find(key.0, at, 0).is_some());
        for (addr, len) in
            [(at, 1), (at + 1, 0), (at.wrapping_sub(1), 0), (u64::MAX, usize::MAX), (at, usize::MAX)]
        {
            assert!(memory.find(key.0, addr, len).is_none(), "{addr:#x} {len}");
        }
        assert!(memory.find(key.0 + 1, at, 0).is_none());
        assert_eq!(memory.deregister(key), None);
        assert!(memory.find(key.0, at, 0).is_none());
        let again = memory.register(UserBuf::EMPTY).unwrap();
        assert_ne!(again, key);
        assert!(memory.find(key.0, at, 0).is_none());
    }

    #[test]
    fn a_place_in_use_is_not_given_away() {
        let mut memory = Memory::default();
        let key = memory.register(UserBuf::EMPTY).unwrap();
        memory.hold(0);
        assert_eq!(memory.deregister(key), Some(0));
        assert_eq!(memory.deregister(key), None);
        assert_eq!(memory.register(UserBuf::EMPTY), Some(MrKey(1)));
        memory.release(0);
        assert_eq!(memory.register(UserBuf::EMPTY), Some(MrKey(1 << INDEX_BITS)));
    }
}
