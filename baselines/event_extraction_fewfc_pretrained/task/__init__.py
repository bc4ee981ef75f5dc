"""Event extraction: what happened, which words say so, and who took which part in it."""
