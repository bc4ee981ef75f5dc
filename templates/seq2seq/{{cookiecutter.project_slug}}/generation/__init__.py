"""Generation: a search writes targets token by token, by steps of a model."""
