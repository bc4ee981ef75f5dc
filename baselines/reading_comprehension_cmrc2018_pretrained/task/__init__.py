"""Reading comprehension: the answer to a question, as a span of a passage."""
