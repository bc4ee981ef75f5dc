"""Change the class of a layer that is built already: the one place where this is done.

KerasHub builds encoders with its own layers, and Keras keeps no way to give it others. A layer of
another class with the same weights computes the same numbers, but faster, or with dropout masks
that don't depend on the number of replicas, or with a low-rank update. Building new layers and
copying weights would change the names in weight files, and so would wrapping them. Assigning
`__class__` keeps the object, its name, its variables and every reference to it. The new class must
be a subclass of the old one, and must not need attributes that its own `__init__` would set.
"""

from typing import Any


def replace_class(thing: Any, kind: type) -> None:
    """Let a built layer (or seed generator) behave as another class from now on.

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
