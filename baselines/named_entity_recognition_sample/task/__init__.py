"""Named-entity recognition: which words of a text name something, and of which type it is."""
