"""An extension of Griffe: the section "Example" of a docstring is one of "Examples"."""

from typing import Any

from griffe import Extension, Object


class OneExample(Extension):
    """Let Griffe draw single examples as code, as it does with several."""

    def on_object(self, *, obj: Object, **_: Any) -> None:  # noqa: ANN401
        """Rename the section; called by Griffe for each object that it has read."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = text.replace("\nExample:\n", "\nExamples:\n")
