//! Objects that need no engine: info objects, error handlers, error classes and codes, settings.
//!
//! MPI lets programs use them before the library is initialised, after it is finalised and from any thread
//! (MPI-5 11.4.1). So there is one table of them per process with a lock of its own. Messages never look here; who
//! is inside the engine may lock it for a moment, and nobody waits while it is locked.
use super::info::{self, Pairs};
use super::slots::Slots;
use super::*;
use crate::error::{ErrorClass, MpiError, Result, fail};
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// An error handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errhandler {
    /// Ends every process.
    Fatal,
    /// Gives the error to the caller.
    Return,
    /// Ends the processes of the object.
    Abort,
    /// A function of the program: an opaque word.
    User(usize),
}

/// A handler, and how many objects and programs still need it.
#[derive(Debug)]
struct ErrhandlerEntry {
    handler: Errhandler,
    references: usize,
}

/// An error class or code of the program.
#[derive(Debug)]
struct UserError {
    class: ErrorClass,
    text: String,
}

/// The objects of this process that need no engine.
#[derive(Debug)]
pub struct Registry {
    pub(super) infos: Slots<Pairs>,
    errhandlers: Slots<ErrhandlerEntry>,
    user_errors: Slots<UserError>,
    /// What was put in the place of variables of the environment.
    pub(super) settings: BTreeMap<&'static str, String>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(|| Mutex::new(Registry::new()));

/// The process's registry. Give it back before anything that may wait or call the program.
pub fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn new() -> Self {
        let mut new = Registry {
            infos: Slots::new(),
            errhandlers: Slots::new(),
            user_errors: Slots::new(),
            settings: BTreeMap::new(),
        };
        new.infos.insert(info::environment());
        for handler in [Errhandler::Fatal, Errhandler::Return, Errhandler::Abort] {
            // One reference is never given back: predefined handlers cannot be freed.
            new.errhandlers.insert(ErrhandlerEntry { handler, references: 2 });
        }
        if check::rigor_in(std::env::var(proto::env::CHECK).ok()).is_some() {
            new.note_births();
        }
        new
    }

    /// Notes from now on which call makes an object.
    pub(super) fn note_births(&mut self) {
        self.infos.note_births();
        self.errhandlers.note_births();
    }

    /// Objects that the program has made and not freed, in words: what is left at the end of the process was forgotten.
    pub fn leftovers(&self) -> Vec<String> {
        let infos = self.infos.iter().filter(|(number, _)| *number > InfoId::ENV.0);
        let infos = infos.map(|(number, _)| check::never_freed("an info object", self.infos.birth(number)));
        let handlers = self.errhandlers.iter().filter(|(number, _)| *number > ErrhandlerId::ABORT.0);
        let birth = |number| self.errhandlers.birth(number);
        let handlers = handlers.map(|(number, _)| check::never_freed("an error handler", birth(number)));
        check::bounded(infos.collect()).into_iter().chain(check::bounded(handlers.collect())).collect()
    }

    /// A new error class of the program: `ErrorClass::User(n)`, n from 0 on, shared with `add_error_code`.
    pub fn add_error_class(&mut self) -> ErrorClass {
        let number = self.user_errors.insert(UserError { class: ErrorClass::Success, text: String::new() });
        let class = ErrorClass::User(number);
        if let Some(entry) = self.user_errors.get_mut(number) {
            entry.class = class;
        }
        class
    }

    /// A new error code in `class`: the number n of `ErrorClass::User(n)` that stands for it.
    pub fn add_error_code(&mut self, class: ErrorClass) -> Result<u32> {
        if let ErrorClass::User(number) = class {
            self.user_error(number).ok_or_else(|| no_user_error(number))?;
        }
        Ok(self.user_errors.insert(UserError { class, text: String::new() }))
    }

    /// Sets the text of an added class or code.
    pub fn add_error_string(&mut self, number: u32, text: &str) -> Result<()> {
        let entry = self.user_errors.get_mut(number).ok_or_else(|| no_user_error(number))?;
        entry.text = text.into();
        Ok(())
    }

    /// Class and text of an added class or code.
    pub fn user_error(&self, number: u32) -> Option<(ErrorClass, &str)> {
        self.user_errors.get(number).map(|entry| (entry.class, entry.text.as_str()))
    }

    /// Removes an added class or code; a class only when none of its codes is left.
    pub fn remove_user_error(&mut self, number: u32) -> Result<()> {
        let class = ErrorClass::User(number);
        let codes = self.user_errors.iter().filter(|(other, entry)| entry.class == class && *other != number);
        match codes.count() {
            0 => self.user_errors.remove(number).map(drop).ok_or_else(|| no_user_error(number)),
            left => fail(ErrorClass::Other, format!("error class {number} still has {left} codes")),
        }
    }

    /// One more than the largest number of an added class or code.
    pub fn user_errors_end(&self) -> u32 {
        self.user_errors.iter().last().map_or(0, |(number, _)| number + 1)
    }

    /// A new error handler.
    pub fn errhandler_create(&mut self, function: usize) -> ErrhandlerId {
        let handler = Errhandler::User(function);
        ErrhandlerId(self.errhandlers.insert(ErrhandlerEntry { handler, references: 1 }))
    }

    /// What the handler does; valid also after it was freed, while an object uses it.
    pub fn errhandler(&self, handler: ErrhandlerId) -> Result<Errhandler> {
        match self.errhandlers.get(handler.0) {
            Some(entry) => Ok(entry.handler),
            None => fail(ErrorClass::Errhandler, format!("there is no error handler {}", handler.0)),
        }
    }

    /// The program gives the handler up. (Predefined ones stay.)
    pub fn errhandler_free(&mut self, handler: ErrhandlerId) -> Result<()> {
        self.errhandler(handler)?;
        self.errhandler_release(handler);
        Ok(())
    }

    /// One more object (or program) needs the handler.
    pub fn errhandler_retain(&mut self, handler: ErrhandlerId) -> Result<()> {
        self.errhandler(handler)?;
        if let Some(entry) = self.errhandlers.get_mut(handler.0) {
            entry.references += 1;
        }
        Ok(())
    }

    /// An object needs the handler no more.
    pub fn errhandler_release(&mut self, handler: ErrhandlerId) {
        if handler.0 <= ErrhandlerId::ABORT.0 {
            return;
        }
        if let Some(entry) = self.errhandlers.get_mut(handler.0) {
            entry.references -= 1;
            if entry.references == 0 {
                self.errhandlers.remove(handler.0);
            }
        }
    }
}

#[cold]
fn no_user_error(number: u32) -> MpiError {
    MpiError::new(ErrorClass::Arg, format!("there is no added error class or code {number}"))
}
