"""Built-in backends, imported on demand, never by ``import fl_tensor``."""

from fl_tensor.called_modules import refuse_calls

refuse_calls(
    __name__,
    "[backends] ft.backends is the package of the built-in backends, and no function: "
    "ft.available_backends() lists the names of all that are installed",
)
