"""Where records go: a transactional producer, with the rules for when Kafka does not answer."""
