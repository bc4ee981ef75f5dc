"""A part of this task that need not be read: how CMRC2018 cuts texts into words."""
