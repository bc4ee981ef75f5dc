"""Text becomes shards of examples: on this machine, or on many with Apache Beam."""
