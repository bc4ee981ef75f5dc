"""One clear sentence instead of a traceback, for everything a user can mend."""


class InputError(Exception):
    """Something the user can mend: the message says what, where and how."""
