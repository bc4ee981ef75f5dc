"""Change the class of a layer that is built already: the one place where this is done.

KerasHub builds encoders with its own layers, and Keras has no way to give it others. New layers, or
wrapped ones, would change the names in weight files. Assigning `__class__` keeps the object, its
name, its variables and every reference to it.
"""

from typing import Any


def replace_class(thing: Any, kind: type) -> None:
    """Let a built layer (or seed generator) behave as a subclass of its class from now on.

    The subclass must not need attributes that its own `__init__` would set.

    Example:
    >>> import keras
    >>> class Loud(keras.layers.Dropout):
    ...     def describe(self):
    ...         return f"drops {self.rate}"
    >>> layer = keras.layers.Dropout(0.1)
    >>> replace_class(layer, Loud)
    >>> layer.describe()
    'drops 0.1'
    """
    thing.__class__ = kind
