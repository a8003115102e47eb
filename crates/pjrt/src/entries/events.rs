//! Errors, the plugin, and events.

use std::sync::Arc;

use super::entries;
use crate::abi::{ErrorArguments, ErrorMessage, Event, NamedValue};
use crate::boundary::{Callback, Handle, List, enter, error};
use crate::failure::{Code, Failure};

/// What the plugin says of itself: the newest version of StableHLO that it reads.
static ATTRIBUTES: [NamedValue; 2] = [
    NamedValue::integers("stablehlo_current_version", &[1, 17, 0]),
    NamedValue::integers("stablehlo_minimum_version", &[0, 9, 0]),
];

/// Ends an error.
pub(crate) extern "C" fn error_destroy(arguments: *mut ErrorArguments) {
    _ = enter(arguments, "error_destroy", |arguments| {
        drop(arguments.error.take());
        Ok(())
    });
}

/// Gives an error's text.
pub(crate) extern "C" fn error_message(arguments: *mut ErrorMessage) {
    _ = enter(arguments, "error_message", |arguments| {
        arguments.message = List::text(&arguments.error.get()?.message);
        Ok(())
    });
}

entries! {
    error_code(arguments: ErrorCode) {
        arguments.code = arguments.error.get()?.code as u32;
        Ok(())
    }

    plugin_initialize(_arguments: NoArguments) {
        Ok(())
    }

    plugin_attributes(arguments: PluginAttributes) {
        arguments.attributes = List::of_static(&ATTRIBUTES);
        Ok(())
    }

    event_destroy(arguments: EventArguments) {
        drop(arguments.event.take());
        Ok(())
    }

    /// An event that the caller sets.
    event_create(arguments: EventArguments) {
        arguments.event = Handle::give(Arc::new(Event::open()));
        Ok(())
    }

    event_set(arguments: EventSet) {
        let outcome = match arguments.code {
            0 => Ok(()),
            _ => Err(Failure::new(Code::Internal, arguments.message.to_text())),
        };
        arguments.event.get()?.keep(outcome);
        Ok(())
    }

    event_is_ready(arguments: EventReady) {
        arguments.is_ready = arguments.event.get()?.is_kept();
        Ok(())
    }

    event_error(arguments: EventArguments) {
        arguments.event.get()?.now().unwrap_or(Ok(()))
    }

    event_await(arguments: EventArguments) {
        arguments.event.get()?.wait()
    }

    event_on_ready(arguments: EventCallback) {
        let callback = Callback::new(arguments.callback, arguments.argument);
        arguments.event.get()?.when_kept(move |outcome| callback.call(outcome));
        Ok(())
    }
}

/// The error of a function that the plugin does not have.
pub(crate) fn unimplemented(name: &str) -> Handle<Failure> {
    error(Err(Failure::new(
        Code::Unimplemented,
        format!("{name} is not offered by Tilewright's plugin"),
    )))
}
