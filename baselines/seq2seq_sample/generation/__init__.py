"""Generation: targets are written token by token, by steps of a model that a search asks for."""
