"""Where records go: a transactional producer with the rules for what to do when Kafka does not answer."""
